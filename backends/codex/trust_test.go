package codex_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/codex"
	"innerd/events"
	"innerd/test/codexscript"
	"innerd/test/modelstub"
)

// TestKeyIsNowhere looks for the key where an agent's shell could find it, and
// in all that codex has written.
func TestKeyIsNowhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{},
		modelstub.Say(shell("env; cat /proc/$PPID/environ /proc/$PPID/cmdline | tr '\\0' '\\n'; echo END")), text("done"))
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range evs {
		if d, ok := e.Data.(events.ToolComplete); ok && (!strings.Contains(d.Result, "END") || strings.Contains(d.Result, s.sc.Key())) {
			t.Errorf("the shell says:\n%s", d.Result)
		}
	}
	for _, file := range []string{"environ", "cmdline"} {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.started()[0], file))
		if err != nil || bytes.Contains(raw, []byte(s.sc.Key())) {
			t.Errorf("the key is in %s: %v", file, err)
		}
	}
	err = filepath.WalkDir(b.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(s.sc.Key())) {
			t.Errorf("the key is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestHostileRoot: what lies above the working directory, at the root of its
// repository, starts nothing either; nor does codex come to trust it.
func TestHostileRoot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	root := t.TempDir()
	dir := filepath.Join(root, "below", "here")
	ran := filepath.Join(root, "ran")
	config := fmt.Sprintf("model = \"evil\"\nnotify = [\"touch\", %q]\n[mcp_servers.evil]\ncommand = \"touch\"\nargs = [%q]\n", ran, ran)
	// A bare .git folder is no root to codex: it would not look above dir.
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", root).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	for _, d := range []string{filepath.Join(root, ".codex"), filepath.Join(dir, ".codex")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "config.toml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, link} {
		c, s := b.open(t, backends.Config{Dir: d}, text("one"), text("two"))
		for i := range 2 { // the second one is loaded anew
			if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{System: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
			if r, _ := s.last(); r.Model != codexscript.Model {
				t.Errorf("%s was asked", r.Model)
			}
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program of the repository was started")
	}
	if raw, err := os.ReadFile(filepath.Join(b.home, "codex", "config.toml")); err == nil && bytes.Contains(raw, []byte("trusted")) {
		t.Errorf("codex has noted: %s", raw)
	}
}

// TestLoginIsUsed: a login that `codex login` made reaches the model, by a copy.
func TestLoginIsUsed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.seat(t)
	s.says(text("logged in"))
	user := t.TempDir()
	if err := os.MkdirAll(filepath.Join(user, ".codex"), 0o700); err != nil {
		t.Fatal(err)
	}
	auth := fmt.Sprintf(`{"auth_mode":"apikey","OPENAI_API_KEY":%q}`, s.sc.Key())
	if err := os.WriteFile(filepath.Join(user, ".codex", "auth.json"), []byte(auth), 0o600); err != nil {
		t.Fatal(err)
	}
	backend := codex.New(&codex.Options{
		Path: b.wrapper, Home: b.home, Children: b.children,
		Getenv: env(map[string]string{"HOME": user, "OPENAI_BASE_URL": s.sc.V1(), "INNERD_CODEX_MODEL": codexscript.Model}),
	})
	if st := backend.Probe(t.Context()); !st.Usable || st.Login != "login" || st.Version != codex.Version {
		t.Errorf("%+v", st)
	}
	c, err := backend.Open(t.Context(), backends.Config{ID: idA, Dir: t.TempDir(), Env: map[string]string{"HOME": user}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // seen by the supervisor
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(texts(evs), []string{"logged in"}) {
		t.Error(texts(evs), err)
	}
	if info, err := os.Stat(filepath.Join(b.home, "codex", "auth.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	for _, r := range s.sc.Side() {
		t.Errorf("a further request: %s %s", r.Method, r.Path)
	}
}
