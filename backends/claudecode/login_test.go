package claudecode_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/claudecode"
	"innerd/events"
	"innerd/test/agents"
)

// script writes a program that answers --version, and counts how often.
func versionScript(t *testing.T, dir, body string) string {
	t.Helper()
	path := filepath.Join(dir, "claude")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	agents.WriteProgram(t, path, "#!/bin/sh\necho x >> "+dir+"/calls\n"+body+"\n")
	return path
}

func children(t *testing.T) *backends.Children {
	t.Helper()
	c := backends.NewChildren(backends.ChildrenOptions{})
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func TestProbe(t *testing.T) {
	dir := t.TempDir()
	good := versionScript(t, filepath.Join(dir, "good"), "echo '2.1.332 (Claude Code)'")
	bad := versionScript(t, filepath.Join(dir, "bad"), "echo broken >&2; exit 4")
	cached := versionScript(t, filepath.Join(dir, "cache", "innerd", "agents", "claude-code", claudecode.Version), "echo '7.7.7'")
	key := map[string]string{"ANTHROPIC_API_KEY": "k"}
	for _, c := range []struct {
		name string
		path string
		env  map[string]string
		want backends.Status
	}{
		{"usable", good, key, backends.Status{Usable: true, Version: "2.1.332", Login: "key"}},
		{"no key", good, nil, backends.Status{Version: "2.1.332", Login: "none", ErrorType: events.ErrAuth}},
		{"named, missing", dir + "/none", key, backends.Status{Login: "key", ErrorType: events.ErrBackendUnavailable}},
		{"does not run", bad, key, backends.Status{Login: "key", ErrorType: events.ErrBackendUnavailable}},
		{"nowhere", "", key, backends.Status{Login: "key", ErrorType: events.ErrBackendUnavailable}},
		{"by variable", "", map[string]string{"INNERD_CLAUDE_CODE_PATH": good, "CLAUDE_CODE_OAUTH_TOKEN": "t"}, backends.Status{Usable: true, Version: "2.1.332", Login: "login"}},
		{"in the cache", "", map[string]string{"XDG_CACHE_HOME": dir + "/cache", "PATH": filepath.Dir(good), "ANTHROPIC_AUTH_TOKEN": "t"}, backends.Status{Usable: true, Version: "7.7.7", Login: "key"}},
		{"in PATH", "", map[string]string{"PATH": "/nowhere:" + filepath.Dir(good), "INNERD_CLAUDE_CODE_API_KEY": "k"}, backends.Status{Usable: true, Version: "2.1.332", Login: "key"}},
	} {
		b := claudecode.New(&claudecode.Options{Path: c.path, Home: t.TempDir(), Children: children(t), Getenv: env(c.env)})
		got := b.Probe(t.Context())
		if got.Usable != c.want.Usable || got.Version != c.want.Version || got.Login != c.want.Login || got.ErrorType != c.want.ErrorType {
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
	if calls, _ := os.ReadFile(filepath.Join(filepath.Dir(cached), "calls")); strings.Count(string(calls), "x") != 1 {
		t.Errorf("%q", calls)
	}
}

func TestVersionIsAskedOnce(t *testing.T) {
	dir := t.TempDir()
	b := claudecode.New(&claudecode.Options{
		Path: versionScript(t, dir, "echo 1.2.3"), Home: t.TempDir(), Children: children(t), Getenv: env(nil),
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

// TestCredentials: which key reaches claude, and to which address.
func TestCredentials(t *testing.T) {
	own := map[string]string{"ANTHROPIC_API_KEY": "vendor", "ANTHROPIC_BASE_URL": "http://vendor"}
	ours := map[string]string{"INNERD_CLAUDE_CODE_API_KEY": "ours", "INNERD_CLAUDE_CODE_BASE_URL": "http://ours", "INNERD_CLAUDE_CODE_MODEL": "claude-ours", "ANTHROPIC_API_KEY": "vendor"}
	for _, c := range []struct {
		name       string
		env        map[string]string
		credential *backends.Credential
		key        string
		want       []string
		auth       bool
	}{
		{"vendor", own, nil, "vendor", []string{"ANTHROPIC_BASE_URL=http://vendor"}, false},
		{"ours first", ours, nil, "ours", []string{"ANTHROPIC_BASE_URL=http://ours", "--model claude-ours"}, false},
		{"the run's", own, &backends.Credential{Key: "run", BaseURL: "http://run", Model: "claude-run"}, "run", []string{"ANTHROPIC_BASE_URL=http://run", "--model claude-run"}, false},
		{"the run's key", own, &backends.Credential{Key: "run"}, "run", []string{"ANTHROPIC_BASE_URL=http://vendor"}, false},
		{"the server's key goes nowhere else", own, &backends.Credential{BaseURL: "http://thief"}, "", nil, true},
		{"bearer", map[string]string{"ANTHROPIC_AUTH_TOKEN": "bearer"}, nil, "", []string{"ANTHROPIC_AUTH_TOKEN=bearer"}, false},
		{"oauth", map[string]string{"CLAUDE_CODE_OAUTH_TOKEN": "oauth"}, nil, "oauth", []string{"CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR=3"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &faked{script: filepath.Join(t.TempDir(), "script")}
			f.write(t, append(append([]act(nil), ready...), act{Expect: userLine}, say("hi"), act{Print: okResult}, act{Drain: true}))
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			b := claudecode.New(&claudecode.Options{Path: self, Home: t.TempDir(), Children: children(t), Getenv: env(c.env)})
			conv, err := b.Open(t.Context(), backends.Config{
				Dir: t.TempDir(), Credential: c.credential,
				Env: map[string]string{"CLAUDECODE_TEST_ROLE": "fake", "FAKE_SCRIPT": f.script},
			})
			if c.auth {
				if class(err) != events.ErrAuth {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := run(t, conv, backendtest.Turn{}, backends.Settings{}); err != nil {
				t.Error(err)
			}
			if err := conv.Close(t.Context()); err != nil {
				t.Error(err)
			}
			l := f.launches(t)[0]
			if l.Key != c.key {
				t.Errorf("key %q", l.Key)
			}
			for _, want := range c.want {
				if !slices.Contains(l.Env, want) && !strings.Contains(strings.Join(l.Args, " "), want) {
					t.Errorf("no %s", want)
				}
			}
		})
	}
}

// TestOtherVersion: another version is usable, with a warning.
func TestOtherVersion(t *testing.T) {
	for version, warned := range map[string]bool{claudecode.Version: false, "2.2.0": true} {
		b := claudecode.New(&claudecode.Options{
			Path: versionScript(t, t.TempDir(), "echo "+version), Home: t.TempDir(), Children: children(t),
			Getenv: env(map[string]string{"ANTHROPIC_API_KEY": "k"}),
		})
		s := b.Probe(t.Context())
		if !s.Usable || (s.Hint != "") != warned || warned && !strings.Contains(s.Hint, version) {
			t.Errorf("%s: %+v", version, s)
		}
	}
}

// TestLoginCommand: claude's own login, into the folder that conversations use,
// without any key of the server's.
func TestLoginCommand(t *testing.T) {
	home := t.TempDir()
	path := versionScript(t, t.TempDir(), "echo 1")
	b := claudecode.New(&claudecode.Options{
		Path: path, Home: home, Children: children(t), Getenv: env(map[string]string{"ANTHROPIC_API_KEY": "k", "BROWSER": "lynx"}),
	})
	c, err := b.Login()
	if err != nil || c.Path != path || !slices.Equal(c.Args, []string{"auth", "login"}) {
		t.Fatal(c, err)
	}
	dir := filepath.Join(home, "claude")
	if !slices.Contains(c.Env, "CLAUDE_CONFIG_DIR="+dir) || !slices.Contains(c.Env, "BROWSER=lynx") || strings.Contains(strings.Join(c.Env, "\n"), "API_KEY") {
		t.Errorf("%q", c.Env)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Error(err)
	}
	b = claudecode.New(&claudecode.Options{Path: "/no/such", Home: home, Children: children(t), Getenv: env(nil)})
	if _, err := b.Login(); err == nil {
		t.Error("a login without a program")
	}
}

// TestLoginIsKnown: the real CLI knows the login that innerd runs.
func TestLoginIsKnown(t *testing.T) {
	t.Parallel()
	l, err := claudecode.New(&claudecode.Options{Path: agents.Claude(t).Path, Home: t.TempDir(), Children: children(t), Getenv: env(nil)}).Login()
	if err != nil {
		t.Fatal(err)
	}
	if help := agents.Help(t, l.Path, l.Args, l.Env); !strings.Contains(help, "Usage: claude auth login ") {
		t.Error(help)
	}
}

// TestVendorLogin: a login that `claude` made is used, by a copy.
func TestVendorLogin(t *testing.T) {
	user, home := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(user, ".claude"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(user, ".claude", ".credentials.json"), []byte(`{"claudeAiOauth":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b := claudecode.New(&claudecode.Options{
		Path: versionScript(t, t.TempDir(), "echo 1"), Home: home, Children: children(t), Getenv: env(map[string]string{"HOME": user}),
	})
	if s := b.Probe(t.Context()); !s.Usable || s.Login != "login" {
		t.Errorf("%+v", s)
	}
	conv, err := b.Open(t.Context(), backends.Config{Dir: user})
	if err != nil {
		t.Fatal(err)
	}
	defer conv.Close(t.Context()) //nolint:errcheck // nothing runs
	info, err := os.Stat(filepath.Join(home, "claude", ".credentials.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
}
