package copilot_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/copilot"
	"innerd/test/copilotscript"
)

// TestConformance plays the suite on the real CLI.
func TestConformance(t *testing.T) {
	b := newBench(t)
	backendtest.Run(t, backendtest.Rig{
		Name:      "copilot",
		Backend:   func(testing.TB) backends.Backend { return backendtest.Governed{Backend: b.backend()} },
		Seat:      func(t testing.TB, c backendtest.Case) backendtest.Seat { return b.seat(t).of(c) },
		LoggedOut: b.loggedOut, Copy: b.copy,
		Keeps:    []string{"proc.(*thread).loop"}, // of the supervisor, which outlives the backends
		Parallel: 3, Share: true, Turn: 2 * time.Minute, Table: "testdata/table.json",
		Models: [2]string{copilotscript.Model, "gpt-5.5"}, Efforts: [2]string{"low", "high"},
		Clash: "bash", Natives: natives(),
		Lacks: map[backendtest.Need]string{
			backendtest.NeedMaxCost: "it does not know what a token of a provider costs",
			backendtest.NeedCost:    "it counts premium requests and knows no money",
		},
		But: map[string]string{
			"tool-choice-one": "it is the only tool of the host's that is offered, and the model is asked in words to call it: the CLI cannot make it",
		},
		Skip: map[string]string{
			"error-internal": "no failure of a provider is the server's own: a 500 is worth another try, so it is overloaded",
		},
	})
}

// natives are the tools that the model of the scripts is offered.
func natives() []backendtest.NativeTool {
	return []backendtest.NativeTool{
		{Name: "bash", Input: []byte(`{"command":"echo harmless","description":"Say it"}`)},
		{Name: "read_bash", Input: []byte(`{"shellId":"none","delay":1}`)},
		{Name: "stop_bash", Input: []byte(`{"shellId":"none"}`)},
		{Name: "list_bash", Input: []byte(`{}`)},
		{Name: "apply_patch", Input: []byte(`{"input":"*** Begin Patch\n*** Add File: harmless.txt\n+harmless\n*** End Patch\n"}`)},
		{Name: "view", Input: []byte(`{"path":"{dir}"}`)},
		{Name: "rg", Input: []byte(`{"pattern":"harmless","paths":"{dir}"}`)},
		{Name: "glob", Input: []byte(`{"pattern":"*.txt"}`)},
		{Name: "web_fetch", Input: []byte(`{"url":"http://127.0.0.1:9/"}`)},
		{Name: "sql", Input: []byte(`{"query":"SELECT 1","description":"Nothing"}`)},
		{Name: "task", Input: []byte(`{"agent_type":"general-purpose","name":"helper","description":"Nothing","prompt":"Say yes.","mode":"sync"}`)},
		{Name: "list_agents", Input: []byte(`{}`)},
		{Name: "read_agent", Input: []byte(`{"agent_id":"none"}`)},
		{Name: "write_agent", Input: []byte(`{"agent_id":"none","message":"hello"}`)},
		{Name: "ask_user", Unasked: "it asks the user"},
	}
}

// loggedOut makes a backend that has nothing to reach a model with.
func (b *bench) loggedOut(t testing.TB) backends.Backend {
	return copilot.New(&copilot.Options{Path: b.wrapper, Home: t.TempDir(), Children: b.children, Getenv: env(nil)})
}

// copy makes a backend on a copy of the agent home; the original is not used any more.
func (b *bench) copy(t testing.TB, _ backends.Backend) backends.Backend {
	t.Helper()
	home := t.TempDir()
	if err := os.CopyFS(filepath.Join(home, "copilot", "session-state"), os.DirFS(filepath.Join(b.home, "copilot", "session-state"))); err != nil {
		t.Fatal(err)
	}
	return backendtest.Governed{Backend: b.backendIn(home)}
}
