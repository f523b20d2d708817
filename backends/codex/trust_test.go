package codex_test

import (
	"bytes"
	"context"
	"errors"
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
	"innerd/test/agents"
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

// TestTrustedAbove: what codex has once noted as trusted in its own settings (it
// does so for a repository's root by itself, where a thread says nothing of it)
// is not for innerd's threads, neither begun nor resumed: each folder from the
// working one to the top is named to it as untrusted. Where one of them is
// forgotten, the program that its .codex names is started.
func TestTrustedAbove(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	below, marks := filepath.Join(root, "below"), t.TempDir()
	dir := filepath.Join(below, "here")
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", root).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	noted := ""
	for name, d := range map[string]string{"root": root, "below": below} {
		write(t, filepath.Join(d, ".codex", "config.toml"), fmt.Sprintf("[mcp_servers.%s]\ncommand = \"touch\"\nargs = [%q]\n", name, filepath.Join(marks, name)))
		noted += fmt.Sprintf("[projects.%q]\ntrust_level = \"trusted\"\n", d)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ forgotten, bites string }{{"", ""}, {root, "root"}, {below, "below"}} {
		b := newBench(t)
		write(t, filepath.Join(b.home, "codex", "config.toml"), noted)
		if c.forgotten != "" {
			b.forget(t, c.forgotten)
		}
		conv, _ := b.open(t, backends.Config{Dir: dir}, text("one"), text("two"))
		for i := range 2 { // begun, then resumed: with other instructions it is loaded anew
			if _, _, err := run(t, conv, backendtest.Turn{}, backends.Settings{System: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
			if got := taken(t, marks); got != c.bites { // codex waits for its servers before it asks the model
				t.Errorf("without %q, turn %d: of the folders' programs there ran %q, want %q", c.forgotten, i, got, c.bites)
			}
		}
	}
}

// forget has codex not hear that a folder is not trusted.
func (b *bench) forget(t *testing.T, dir string) {
	t.Helper()
	whole := b.wrapper
	b.wrapper = filepath.Join(t.TempDir(), "codex")
	agents.WriteProgram(t, b.wrapper, fmt.Sprintf("#!/bin/sh\n[ \"$1\" = app-server ] || exec %q \"$@\"\nsed -u 's|\"%s\":{\"trust_level\":\"untrusted\"},||' | %q \"$@\"\n", whole, dir, whole))
}

// taken are the names of a folder's files, which are removed.
func taken(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(names, " ")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
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
