//go:build linux || darwin

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func accessOf(t *testing.T, dir string, args []string, pairs ...string) (*access, error) {
	t.Helper()
	getenv := env(pairs...)
	set, _, err := resolveWith(t, args, getenv)
	if err != nil {
		t.Fatal(err)
	}
	a := &app{out: io.Discard, err: io.Discard, getenv: getenv}
	return a.access(t.Context(), set, dir)
}

func TestAccess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("ci:s3cret\n\nplain\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		args  []string
		env   []string
		keys  int
		open  bool
		token bool
	}{
		{"auto, nothing", nil, nil, 1, false, true},
		{"auto, keys", nil, []string{"INNERD_API_KEYS", " a:1 , 2 ,"}, 2, false, false},
		{"auto, the field's keys", nil, []string{"II_AGENT_A2A_API_KEYS", "x:y,z"}, 2, false, false},
		{"auto, a file", []string{"--api-key-file", file}, nil, 2, false, false},
		{"auto, the field's launch", nil, []string{"SANDBOX_ADAPTER_ENABLED", "true"}, 0, true, false},
		{"auto, the field's backend", nil, []string{"SANDBOX_ADAPTER_BACKEND", "copilot"}, 0, true, false},
		{"auto, the field's launch with keys", nil, []string{"SANDBOX_ADAPTER_ENABLED", "true", "INNERD_API_KEYS", "a"}, 1, false, false},
		{"auto, not the field's launch", nil, []string{"SANDBOX_ADAPTER_ENABLED", "false"}, 1, false, true},
		{"required, the field's launch", []string{"--auth", "required"}, []string{"SANDBOX_ADAPTER_ENABLED", "true"}, 1, false, true},
		{"off", []string{"--auth", "off"}, nil, 0, true, false},
		{"off, with keys", []string{"--auth", "off"}, []string{"INNERD_API_KEYS", "a"}, 0, true, false},
	} {
		got, err := accessOf(t, filepath.Join(t.TempDir(), "state"), c.args, c.env...)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(got.keys) != c.keys || got.open != c.open || (got.token != "") != c.token {
			t.Errorf("%s: %d keys, open %v, token %q", c.name, len(got.keys), got.open, got.token)
		}
	}
}

// A key file may be a pipe, which gives its keys once.
func TestKeysOfAPipeAreRedacted(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "keys")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		if f, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil {
			_, _ = f.WriteString("ci:a-key-that-comes-once\n")
			_ = f.Close()
			_ = os.Rename(pipe, pipe+"-read")
		}
	}()
	getenv := env()
	set, _, err := resolveWith(t, []string{"--api-key-file", pipe, "--redact", "keys"}, getenv)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{app: &app{out: io.Discard, err: io.Discard, getenv: getenv}, cfg: &serverConfig{set: set}}
	if s.cfg.access, err = s.app.access(t.Context(), set, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	secrets, err := s.redactor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := secrets.Text("it is a-key-that-comes-once."); got != "it is [redacted]." {
		t.Error(got)
	}
	if s.app.keyLines != nil {
		t.Error("the keys stay in memory")
	}
}

func TestAccessRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	blocked := filepath.Join(empty, "state") // below a file: cannot be made
	for name, f := range map[string]func() error{
		"no such key file": func() error {
			_, err := accessOf(t, t.TempDir(), []string{"--api-key-file", empty + "x"})
			return err
		},
		"a key file without keys": func() error {
			_, err := accessOf(t, t.TempDir(), []string{"--api-key-file", empty})
			return err
		},
		"no place for a token": func() error { _, err := accessOf(t, blocked, nil); return err },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTokenIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "token")
	var wg sync.WaitGroup
	tokens := make([]string, 8)
	for i := range tokens {
		wg.Go(func() {
			var err error
			if tokens[i], err = testApp().ensureToken(t.Context(), path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, tok := range tokens {
		if tok != tokens[0] || len(tok) < 20 {
			t.Fatalf("%q", tokens)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if again, err := testApp().ensureToken(t.Context(), path); err != nil || again != tokens[0] {
		t.Fatalf("%q %v", again, err)
	}
	if info, _ = os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Fatalf("a token that others could read stayed so: %v", info.Mode())
	}
	left, _ := os.ReadDir(filepath.Dir(path))
	if len(left) != 1 {
		t.Fatalf("%v", left)
	}
}

// A crash may leave an empty file.
func TestTokenOfACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tok, err := testApp().ensureToken(t.Context(), path)
	raw, _ := os.ReadFile(path)
	if err != nil || tok == "" || strings.TrimSpace(string(raw)) != tok {
		t.Fatalf("%q %q %v", tok, raw, err)
	}
}

func testApp() *app { return &app{out: io.Discard, err: io.Discard, getenv: env()} }
