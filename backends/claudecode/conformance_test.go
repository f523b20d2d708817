package claudecode_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
)

// TestConformance plays the suite on the real CLI.
func TestConformance(t *testing.T) {
	b := newBench(t)
	homes := map[backends.Backend]string{}
	made := func(home string, getenv func(string) string) backends.Backend {
		bench := *b
		bench.home = home
		x := backendtest.Governed{Backend: bench.backendWith(getenv)}
		homes[x] = home
		return x
	}
	loggedIn := env(map[string]string{"ANTHROPIC_API_KEY": "sk-dummy"})
	backendtest.Run(t, backendtest.Rig{
		Name:    "claude-code",
		Backend: func(testing.TB) backends.Backend { return made(b.home, loggedIn) },
		Seat: func(t testing.TB, c backendtest.Case) backendtest.Seat {
			s := b.seat(t).noisy(c.Turns)
			s.refused = c.Uses(func(step backendtest.Step) bool { return step.Refused })
			return s
		},
		LoggedOut: func(t testing.TB) backends.Backend { return made(t.TempDir(), env(nil)) },
		Copy: func(t testing.TB, old backends.Backend) backends.Backend {
			from, to := homes[old], filepath.Join(t.TempDir(), "home")
			sessions := filepath.Join("claude", "projects")
			if err := os.CopyFS(filepath.Join(to, sessions), os.DirFS(filepath.Join(from, sessions))); err != nil {
				t.Fatal(err)
			}
			// Other cases use the original beside this one: the new home is all
			// that the copy knows of.
			return made(to, loggedIn)
		},
		Parallel: 4, Share: true, Reuse: true, Keeps: []string{"proc.(*thread).loop"},
		Models:  [2]string{"claude-opus-4-5", "claude-opus-4-6"},
		Efforts: [2]string{"low", "high"},
		Natives: natives(),
		Clash:   "Bash",
		Table:   "testdata/table.json",
		Lacks: map[backendtest.Need]string{
			backendtest.NeedPremium: "Anthropic counts no premium requests",
		},
		But: map[string]string{
			"file-delete":     shellOnly,
			"file-move":       shellOnly,
			"tool-choice-one": "it is the only tool of the host's that is offered, and the model is asked in words to call it: the CLI cannot make it",
		},
		Skip: map[string]string{
			"error-internal":        "no failure of a provider is the server's own: a 500 is worth another try, so it is `overloaded`",
			"error-rate-limit-time": "the CLI tells the provider's time only of a limit that it waits for itself, which is up to a minute; the time of a longer one is not told",
		},
	})
}

const shellOnly = "it has no tool that does it: what `rm`, `unlink` and `mv` of its shell name is shown, what other programs do is not"

// natives are all tools that the model is offered where a user is present.
func natives() []backendtest.NativeTool {
	in := func(name string, input map[string]any) backendtest.NativeTool {
		raw, err := json.Marshal(input)
		if err != nil {
			panic(err)
		}
		return backendtest.NativeTool{Name: name, Input: raw}
	}
	read := in("Edit", map[string]any{"file_path": "{dir}/a.txt", "old_string": "a", "new_string": "b"})
	notebook := in("NotebookEdit", map[string]any{"notebook_path": "{dir}/n.ipynb", "cell_id": "c", "new_source": "1"})
	notebook.Unasked = "a notebook that it has not read the CLI refuses by itself; for one that it has read the host is asked"
	notebook.Files = map[string]string{"n.ipynb": `{"cells":[{"cell_type":"code","id":"c","metadata":{},"outputs":[],"source":[]}],"metadata":{},"nbformat":4,"nbformat_minor":5}`}
	read.Files = map[string]string{"a.txt": "a\n"}
	ask := in("AskUserQuestion", map[string]any{})
	ask.Unasked = "it is itself a question to the user"
	stop := in("TaskStop", map[string]any{"task_id": "x"})
	stop.Unasked = "without background work the CLI refuses it by itself; for work that runs the host is asked"
	return []backendtest.NativeTool{
		in("Agent", map[string]any{"description": "x", "prompt": "x", "subagent_type": "general-purpose"}), ask,
		in("Bash", map[string]any{"command": "true", "description": "x"}), read,
		notebook,
		in("Read", map[string]any{"file_path": "{dir}/a.txt"}), in("ReportFindings", map[string]any{"findings": []any{}}),
		in("Skill", map[string]any{"skill": "dataviz"}), stop,
		in("WebFetch", map[string]any{"url": "http://127.0.0.1:9/", "prompt": "x"}), in("WebSearch", map[string]any{"query": "xx"}),
		in("Write", map[string]any{"file_path": "{dir}/new.txt", "content": "x"}),
	}
}
