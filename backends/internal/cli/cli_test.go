package cli_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/internal/cli"
	"innerd/backends/internal/proc"
	"innerd/test/agents"
)

func program(t *testing.T, path, body string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	agents.WriteProgram(t, path, "#!/bin/sh\n"+body+"\n")
	return path
}

// TestFind: what was named outright is used or is an error, then the pinned
// release, then PATH.
func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(path string) string { return filepath.Join(dir, path) }
	for _, p := range []string{"option", "variable", "cache/innerd/agents/x/1/x", "agents/x/1/x", "home/.cache/innerd/agents/x/1/x", "path/x"} {
		program(t, at(p), "")
	}
	if err := os.WriteFile(at("none"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		option string
		env    map[string]string
		want   string
	}{
		"option":           {at("option"), map[string]string{"X": at("variable")}, "option"},
		"option, none":     {at("none"), map[string]string{"X": at("variable")}, ""},
		"variable":         {"", map[string]string{"X": at("variable"), "INNERD_AGENTS_DIR": at("agents")}, "variable"},
		"variable, none":   {"", map[string]string{"X": at("none"), "INNERD_AGENTS_DIR": at("agents")}, ""},
		"pinned":           {"", map[string]string{"INNERD_AGENTS_DIR": at("agents"), "PATH": at("path")}, "agents/x/1/x"},
		"pinned, cache":    {"", map[string]string{"XDG_CACHE_HOME": at("cache"), "HOME": at("home")}, "cache/innerd/agents/x/1/x"},
		"pinned, home":     {"", map[string]string{"HOME": at("home"), "PATH": at("path")}, "home/.cache/innerd/agents/x/1/x"},
		"PATH":             {"", map[string]string{"PATH": at("nowhere") + ":" + at("path")}, "path/x"},
		"nothing is known": {"", nil, ""},
	} {
		got, err := cli.Finder{Name: "x", Path: c.option, Variable: "X", Pinned: "x/1/x", Getenv: func(k string) string { return c.env[k] }}.Find()
		if want := map[bool]string{true: "", false: at(c.want)}[c.want == ""]; got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestVersions: a binary is asked once, by whoever is first; a failure is not
// kept, nor is what another binary said at the same path.
func TestVersions(t *testing.T) {
	t.Parallel()
	path := program(t, filepath.Join(t.TempDir(), "x"), "")
	var v cli.Versions
	if _, err := v.Of(path, func() (string, error) { return "", errors.New("not now") }); err == nil {
		t.Error("a failure is none")
	}
	var asked atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if text, err := v.Of(path, func() (string, error) { asked.Add(1); return "1.2", nil }); text != "1.2" || err != nil {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
	if all.Wait(); asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
	program(t, path, "another")
	if text, _ := v.Of(path, func() (string, error) { return "1.3", nil }); text != "1.3" {
		t.Errorf("%q", text)
	}
	if _, err := v.Of(path+"-none", nil); err == nil {
		t.Error("there is no such binary")
	}
}

// TestSay: what a program prints is bounded, and its failure is told in its words.
func TestSay(t *testing.T) {
	t.Parallel()
	children := backends.NewChildren(backends.ChildrenOptions{})
	t.Cleanup(func() { _ = children.Close(context.Background()) })
	say := func(ctx context.Context, body string) (string, error) {
		path := program(t, filepath.Join(t.TempDir(), "x"), body)
		return cli.Say(ctx, children, proc.Command{Name: "x", Path: path, Env: children.Environ(nil)})
	}
	if text, err := say(t.Context(), "echo one; echo two"); text != "one\ntwo\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := say(t.Context(), "while :; do echo 0123456789abcdef || exit 0; n=x$n; [ ${#n} -gt 500 ] && exit 0; done"); len(text) > 2000 || err != nil {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if _, err := say(t.Context(), "echo oh no >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "exit code 3: oh no") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	began := filepath.Join(t.TempDir(), "began")
	ended := make(chan error, 1)
	go func() { // ends with the cancel
		_, err := say(ctx, "touch "+began+"; sleep 600")
		ended <- err
	}()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(began); err == nil {
			break
		}
	}
	cancel(enough)
	select {
	case err := <-ended:
		if _, never := os.Stat(began); !errors.Is(err, enough) || never != nil {
			t.Error(err, never)
		}
	case <-time.After(time.Minute):
		t.Error("it was waited for")
	}
}
