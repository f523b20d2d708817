package codex_test

import (
	"os"
	"path/filepath"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/codex"
	"innerd/test/codexscript"
)

// TestConformance plays the suite on the real CLI.
func TestConformance(t *testing.T) {
	b := newBench(t)
	backendtest.Run(t, backendtest.Rig{
		Name:      "codex",
		Backend:   func(testing.TB) backends.Backend { return backendtest.Governed{Backend: b.backend()} },
		Seat:      func(t testing.TB, c backendtest.Case) backendtest.Seat { return b.seat(t).of(c) },
		LoggedOut: b.loggedOut, Copy: b.copy,
		Keeps:    []string{"proc.(*thread).loop"}, // of the supervisor, which outlives the backends
		Parallel: 4, Share: true, Table: "testdata/table.json",
		Models: [2]string{codexscript.Model, "gpt-5.4"}, Efforts: [2]string{"low", "high"},
		Clash: "exec_command", Natives: natives(),
		Lacks: map[backendtest.Need]string{
			backendtest.NeedMaxCost: "it does not know what a token costs",
			backendtest.NeedCost:    "it does not know what a token costs",
			backendtest.NeedPremium: "its vendor counts none",
		},
		But: map[string]string{
			"permission-every-native-tool": unasked,
			"tool-choice-one":              "it is the only tool of the host's that is offered, and the model is asked in words to call it: the CLI cannot make it",
		},
		Skip: map[string]string{
			"error-internal": "no failure of a provider is the server's own: a 500 is worth another try, so it is overloaded",
			"reason-refusal": "it drops what a model says as a refusal: the turn ends like any other, and nothing was said",
		},
	})
}

// unasked is what natives, which are of the mode ask and of one model, do not name.
const unasked = "in `auto` its model is offered view_image and web_search, which ask nobody: in `ask` and `deny` they are withheld, " +
	"unless the option `web_search` wants the second; newer models (gpt-5.6 and 6) are offered exec, wait and the tools of sub-agents, " +
	"which ask nobody either: what commands and patches they lead to, the host is asked for"

// natives are the tools that the model of the scripts is offered where
// permissions are asked for. view_image and web_search ask nobody: they are
// not there then.
func natives() []backendtest.NativeTool {
	return []backendtest.NativeTool{
		{Name: "exec_command", Input: []byte(`{"cmd":"echo harmless"}`)},
		{Name: "apply_patch", Input: []byte(`{"input":"*** Begin Patch\n*** Add File: harmless.txt\n+harmless\n*** End Patch\n"}`)},
		{Name: "write_stdin", Unasked: "it types into a command that was asked for"},
		{Name: "request_user_input", Unasked: "it asks the user"},
		{Name: "tool_search", Unasked: "it looks through the list of its tools"},
	}
}

// loggedOut makes a backend that has nothing to reach a model with.
func (b *bench) loggedOut(t testing.TB) backends.Backend {
	return codex.New(&codex.Options{Path: b.wrapper, Home: t.TempDir(), Children: b.children, Getenv: env(nil)})
}

// copy makes a backend on a copy of the agent home; the original is gone.
func (b *bench) copy(t testing.TB, _ backends.Backend) backends.Backend {
	t.Helper()
	home := t.TempDir()
	if err := os.CopyFS(filepath.Join(home, "codex", "sessions"), os.DirFS(filepath.Join(b.home, "codex", "sessions"))); err != nil {
		t.Fatal(err)
	}
	return backendtest.Governed{Backend: b.backendIn(home)}
}
