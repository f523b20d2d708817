package codex_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/codex"
	"innerd/test/codexscript"
)

// Codex ignores a setting that it does not know without a word, unless it is
// strict, which it is in all tests with the real one: in what its command line
// says and in what each thread is told.

// TestStrict: a misspelled setting is noticed in both places.
func TestStrict(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := func(extra ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), b.codex, slices.Concat(codex.Args(), []string{"--strict-config"}, extra)...)
		cmd.Env = append(os.Environ(), "CODEX_HOME="+b.home)
		return cmd
	}
	for setting, want := range map[string]string{"features.hooks=false": "appServerVersion", "features.hoocks=false": "unknown configuration field `features.hoocks`"} {
		out, _ := start("--print-startup-config", "-c", setting).Output() // what it prints says whether it failed
		if !strings.Contains(string(out), want) {
			t.Errorf("%s: %s", setting, out)
		}
	}
	for config, want := range map[string]string{`{"features.view_image":true}`: `"result"`, `{"features.view_imagge":true}`: "unknown configuration field `features.view_imagge`"} {
		if got := threadStarted(t, start(), config); !strings.Contains(got, want) {
			t.Errorf("%s: %s", config, got)
		}
	}
}

// threadStarted is how codex answers a thread/start with a configuration.
func threadStarted(t *testing.T, cmd *exec.Cmd, config string) string {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	for _, line := range []string{
		`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"test","title":"test","version":"1"}}}`,
		`{"method":"initialized"}`,
		`{"id":2,"method":"thread/start","params":{"config":` + config + `}}`,
	} {
		if _, err := in.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			ID int `json:"id"`
		}
		if json.Unmarshal(lines.Bytes(), &m) == nil && m.ID == 2 {
			return lines.Text()
		}
	}
	t.Fatal("it did not answer", lines.Err())
	return ""
}

// TestStrictLogins: what providers are told beside a key.
func TestStrictLogins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	user := t.TempDir()
	for name, open := range map[string]func(s *seat) (*codex.Backend, backends.Config){
		"azure": func(s *seat) (*codex.Backend, backends.Config) {
			cfg := s.Config()
			cfg.Credential.Provider, cfg.Credential.BaseURL = "azure", s.sc.V1()+"?api-version=2026-01-01"
			return b.backendIn(t.TempDir()), cfg
		},
		"login": func(s *seat) (*codex.Backend, backends.Config) {
			auth := filepath.Join(user, ".codex", "auth.json")
			if err := os.MkdirAll(filepath.Dir(auth), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(auth, []byte(`{"OPENAI_API_KEY":"`+s.sc.Key()+`"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg := s.Config()
			cfg.Credential = nil
			return codex.New(&codex.Options{
				Path: b.wrapper, Home: t.TempDir(), Children: b.children,
				Getenv: env(map[string]string{"HOME": user, "INNERD_CODEX_BASE_URL": s.sc.V1()}),
			}), cfg
		},
	} {
		s := b.seat(t)
		s.says(text("Known."))
		back, cfg := open(s)
		cfg.ID, cfg.Dir = idA, t.TempDir()
		c, err := back.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(name, err)
		}
		evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{Model: codexscript.Model})
		if err != nil || !slices.Equal(texts(evs), []string{"Known."}) {
			t.Errorf("%s: %q, %v", name, texts(evs), err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
