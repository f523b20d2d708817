package codex_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"innerd/backends"
	"innerd/backends/codex"
	"innerd/events"
	"innerd/test/agents"
)

// versionScript writes a program that answers --version, and counts how often.
func versionScript(t *testing.T, path, body string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho x >> " + filepath.Dir(path) + "/calls\n" + body + "\n"
	agents.WriteProgram(t, path, script)
	return path
}

func children(t *testing.T) *backends.Children {
	t.Helper()
	c := backends.NewChildren(backends.ChildrenOptions{})
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func TestProbe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := versionScript(t, filepath.Join(dir, "good", "codex"), "echo 'codex-cli 0.171.0'")
	bad := versionScript(t, filepath.Join(dir, "bad", "codex"), "echo broken >&2; exit 4")
	// npm's launcher, and the program behind it.
	js := filepath.Join(dir, "npm", "node_modules", "@openai", "codex", "bin", "codex.js")
	versionScript(t, js, "echo launcher; exit 9")
	platform := codex.Platform()
	behind := filepath.Join(dir, "npm", "node_modules", "@openai", platform[0], "vendor", platform[1], "bin", "codex")
	versionScript(t, behind, "echo 'codex-cli 5.5.5'")
	launcher := filepath.Join(dir, "npm", "bin", "codex")
	if err := os.MkdirAll(filepath.Dir(launcher), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(js, launcher); err != nil {
		t.Fatal(err)
	}
	versionScript(t, filepath.Join(dir, "cache", "innerd", "agents", "codex", codex.Version, "vendor", platform[1], "bin", "codex"), "echo 'codex-cli 7.7.7'")
	login := filepath.Join(dir, "user", ".codex", "auth.json")
	if err := os.MkdirAll(filepath.Dir(login), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(login, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	key := map[string]string{"OPENAI_API_KEY": "k"}
	for _, c := range []struct {
		name string
		path string
		env  map[string]string
		want backends.Status
	}{
		{"usable", good, key, backends.Status{Usable: true, Version: "0.171.0", Login: "key", Source: "OPENAI_API_KEY"}},
		{"no key", good, nil, backends.Status{Version: "0.171.0", Login: "none", ErrorType: events.ErrAuth}},
		{"named, missing", dir + "/none", key, backends.Status{Login: "key", Source: "OPENAI_API_KEY", ErrorType: events.ErrBackendUnavailable}},
		{"does not run", bad, key, backends.Status{Login: "key", Source: "OPENAI_API_KEY", ErrorType: events.ErrBackendUnavailable}},
		{"nowhere", "", key, backends.Status{Login: "key", Source: "OPENAI_API_KEY", ErrorType: events.ErrBackendUnavailable}},
		{"by variable", "", map[string]string{"INNERD_CODEX_PATH": good, "INNERD_CODEX_API_KEY": "k", "OPENAI_API_KEY": "v"}, backends.Status{Usable: true, Version: "0.171.0", Login: "key", Source: "INNERD_CODEX_API_KEY"}},
		{"in the cache", "", map[string]string{"XDG_CACHE_HOME": dir + "/cache", "PATH": filepath.Dir(good), "CODEX_API_KEY": "k"}, backends.Status{Usable: true, Version: "7.7.7", Login: "key", Source: "CODEX_API_KEY"}},
		{"npm's, in PATH", "", map[string]string{"PATH": "/nowhere:" + filepath.Dir(launcher), "HOME": dir + "/user"}, backends.Status{Usable: true, Version: "5.5.5", Login: "login", Source: "the login in " + login}},
	} {
		b := codex.New(&codex.Options{Path: c.path, Home: t.TempDir(), Children: children(t), Getenv: env(c.env)})
		got := b.Probe(t.Context())
		if got.Usable != c.want.Usable || got.Version != c.want.Version || got.Login != c.want.Login || got.ErrorType != c.want.ErrorType || got.Source != c.want.Source {
			t.Errorf("%s: %+v", c.name, got)
		}
		if got.Pinned != codex.Version || !got.Capabilities.Shared || !got.Capabilities.Steer || !got.Capabilities.Compact {
			t.Errorf("%s: %+v", c.name, got)
		}
		if !got.Usable && (got.Why == "" || got.Hint == "") {
			t.Errorf("%s: it does not say why, or what to do: %+v", c.name, got)
		}
		_, err := b.Open(t.Context(), backends.Config{Dir: dir})
		if want := c.want.ErrorType; c.name != "does not run" && class(err) != want {
			t.Errorf("%s: Open: %v", c.name, err)
		}
	}
}

func TestVersionIsAskedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := codex.New(&codex.Options{
		Path: versionScript(t, filepath.Join(dir, "codex"), "echo codex-cli 1.2.3"), Home: t.TempDir(), Children: children(t), Getenv: env(nil),
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if s := b.Probe(t.Context()); s.Version != "1.2.3" {
				t.Errorf("%+v", s)
			}
		})
	}
	all.Wait()
	if calls, _ := os.ReadFile(filepath.Join(dir, "calls")); strings.Count(string(calls), "x") != 1 {
		t.Errorf("it ran %d times", strings.Count(string(calls), "x"))
	}
}

// TestCredentials: which key reaches a model, and at which address.
func TestCredentials(t *testing.T) {
	t.Parallel()
	vendor := map[string]string{"OPENAI_API_KEY": "vendor", "OPENAI_BASE_URL": "http://vendor/v1"}
	ours := map[string]string{
		"INNERD_CODEX_API_KEY": "ours", "INNERD_CODEX_BASE_URL": "http://ours/v1", "INNERD_CODEX_MODEL": "gpt-ours", "OPENAI_API_KEY": "vendor",
	}
	azure := map[string]string{
		"INNERD_CODEX_API_KEY": "blue", "INNERD_CODEX_BASE_URL": "http://azure/openai?api-version=2026-01-01", "INNERD_CODEX_PROVIDER": "azure",
	}
	for _, c := range []struct {
		name       string
		env        map[string]string
		credential *backends.Credential
		want       []string
		auth       bool
	}{
		{"vendor", vendor, nil, []string{`"experimental_bearer_token":"vendor"`, `"base_url":"http://vendor/v1"`}, false},
		{"no address", map[string]string{"OPENAI_API_KEY": "vendor"}, nil, []string{`"base_url":"https://api.openai.com/v1"`}, false},
		{"ours first", ours, nil, []string{`"experimental_bearer_token":"ours"`, `"base_url":"http://ours/v1"`, `"model":"gpt-ours"`}, false},
		{"azure", azure, nil, []string{`"http_headers":{"api-key":"blue"}`, `"base_url":"http://azure/openai"`, `"query_params":{"api-version":"2026-01-01"}`}, false},
		{"the run's", vendor, &backends.Credential{Key: "run", BaseURL: "http://run/v1", Model: "gpt-run"}, []string{`"experimental_bearer_token":"run"`, `"base_url":"http://run/v1"`, `"model":"gpt-run"`}, false},
		{"the server's key goes nowhere else", vendor, &backends.Credential{BaseURL: "http://thief"}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := newStage(t, script{"turn/start": {{accepted, started, said("hi"), finished}}})
			st.getenv(c.env)
			conv, err := st.b.Open(t.Context(), st.config(c.credential))
			if c.auth {
				if class(err) != events.ErrAuth {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conv.Close(context.Background()) //nolint:errcheck // the stage ends what is left
			rec := &quiet{}
			if _, err := conv.Run(t.Context(), backends.Input{Parts: []events.Part{events.Text("Go.")}}, rec); err != nil {
				t.Error(err)
			}
			heard := st.heard()
			for _, want := range c.want {
				if !strings.Contains(heard, want) {
					t.Errorf("no %s in %s", want, heard)
				}
			}
			l := st.launches()[0]
			for _, secret := range []string{"vendor", "ours", "blue", "run"} {
				if slices.ContainsFunc(append(l.Args, l.Env...), func(s string) bool { return strings.HasSuffix(s, "="+secret) }) {
					t.Errorf("%s is in the arguments or the environment", secret)
				}
			}
		})
	}
}

// TestLogin: the vendor's own login, into the folder that it is looked for in.
func TestLogin(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := versionScript(t, filepath.Join(t.TempDir(), "codex"), "true")
	b := codex.New(&codex.Options{Path: path, Home: home, Children: children(t), Getenv: env(nil)})
	l, err := b.Login()
	if err != nil || l.Path != path || !slices.Equal(l.Args, []string{"login", "--device-auth"}) ||
		!slices.Contains(l.Env, "CODEX_HOME="+filepath.Join(home, "codex")) {
		t.Errorf("%+v, %v", l, err)
	}
	if err := os.WriteFile(filepath.Join(home, "codex", "auth.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := b.Probe(t.Context()); s.Login != "login" {
		t.Errorf("%+v", s)
	}
}

// TestLoginIsKnown: the real CLI knows the login that innerd runs.
func TestLoginIsKnown(t *testing.T) {
	t.Parallel()
	l, err := codex.New(&codex.Options{Path: agents.Codex(t).Path, Home: t.TempDir(), Children: children(t), Getenv: env(nil)}).Login()
	if err != nil {
		t.Fatal(err)
	}
	if help := agents.Help(t, l.Path, l.Args, l.Env); !strings.Contains(help, "Usage: codex login ") || !strings.Contains(help, "\n      --device-auth") {
		t.Error(help)
	}
}

// quiet is a host that nothing is asked of.
type quiet struct{}

func (quiet) Emit(events.Event) {}
func (quiet) Request(context.Context, events.Request) backends.Pending {
	return canceled{}
}

type canceled struct{}

func (canceled) Wait() (events.Answer, error) {
	return events.Answer{Outcome: events.OutcomeCanceled}, nil
}
