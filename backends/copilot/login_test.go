package copilot_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/copilot"
	"innerd/events"
	"innerd/test/agents"
)

func children(t *testing.T) *backends.Children {
	t.Helper()
	c := backends.NewChildren(backends.ChildrenOptions{})
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// program writes one that counts how often it was run.
func program(t *testing.T, dir, body string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "copilot")
	agents.WriteProgram(t, path, "#!/bin/sh\necho x >> "+dir+"/calls\n"+body+"\n")
	return path
}

func calls(path string) int {
	raw, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "calls"))
	return strings.Count(string(raw), "x")
}

func TestProbe(t *testing.T) {
	dir := t.TempDir()
	key := map[string]string{"INNERD_COPILOT_API_KEY": "k"}
	inCache := fakeBinary(t)
	for _, c := range []struct {
		name string
		path string
		env  map[string]string
		want backends.Status
	}{
		{"usable", fakeBinary(t), key, backends.Status{Usable: true, Version: copilot.Version, Login: "key"}},
		{"no key", fakeBinary(t), nil, backends.Status{Version: copilot.Version, Login: "none", ErrorType: events.ErrAuth}},
		{"named, missing", dir + "/none", key, backends.Status{Login: "key", ErrorType: events.ErrBackendUnavailable}},
		{"nowhere", "", key, backends.Status{Login: "key", ErrorType: events.ErrBackendUnavailable}},
		{"by variable", "", map[string]string{"INNERD_COPILOT_PATH": fakeBinary(t), "GH_TOKEN": "t"}, backends.Status{Usable: true, Version: copilot.Version, Login: "key"}},
		{"in PATH", "", map[string]string{"PATH": "/nowhere:" + filepath.Dir(inCache), "GITHUB_TOKEN": "t"}, backends.Status{Usable: true, Version: copilot.Version, Login: "key"}},
	} {
		b := copilot.New(&copilot.Options{Path: c.path, Home: t.TempDir(), Children: children(t), Getenv: env(c.env)})
		got := b.Probe(t.Context())
		if got.Usable != c.want.Usable || got.Version != c.want.Version || got.Login != c.want.Login || got.ErrorType != c.want.ErrorType || got.Pinned != copilot.Version {
			t.Errorf("%s: %+v", c.name, got)
		}
		if !got.Usable && (got.Why == "" || got.Hint == "") {
			t.Errorf("%s: it does not say why, or what to do: %+v", c.name, got)
		}
		if got.Login == "key" && got.Source == "" {
			t.Errorf("%s: it does not say where the key is from", c.name)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestUnpacking: a release that has not unpacked itself is run once, in the
// background; no request waits for it.
func TestUnpacking(t *testing.T) {
	dir := t.TempDir()
	path := program(t, dir, "while [ ! -e "+dir+"/go ]; do sleep 0.01; done; echo 'GitHub Copilot CLI 1.2.3.'")
	b := copilot.New(&copilot.Options{Path: path, Home: t.TempDir(), Children: children(t), Getenv: env(map[string]string{"GITHUB_TOKEN": "t"})})
	for range 3 {
		if s := b.Probe(t.Context()); s.Usable || !strings.Contains(s.Why, "unpacking") || s.Hint == "" {
			t.Errorf("%+v", s)
		}
	}
	_, err := b.Open(t.Context(), backends.Config{Dir: dir})
	var e *backends.Error
	if !errors.As(err, &e) || e.Type != events.ErrBackendUnavailable || e.RetryAfter == 0 {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if s := b.Probe(t.Context()); s.Usable && s.Version == "1.2.3" {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%+v", s)
		}
	}
	if n := calls(path); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCloseWhileUnpacking does not wait for it.
func TestCloseWhileUnpacking(t *testing.T) {
	path := program(t, t.TempDir(), "sleep 60")
	b := copilot.New(&copilot.Options{Path: path, Home: t.TempDir(), Children: children(t), Getenv: env(nil)})
	_ = b.Probe(t.Context())
	begin := time.Now()
	if err := b.Close(t.Context()); err != nil || time.Since(begin) > 30*time.Second { // it would take 60 s
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	if s := b.Probe(t.Context()); s.Usable {
		t.Errorf("%+v", s)
	}
}

// TestLoader: npm's wrapper is not run, but the binary that it would start.
func TestLoader(t *testing.T) {
	modules := filepath.Join(t.TempDir(), "node_modules", "@github")
	real := program(t, filepath.Join(modules, "copilot-linux-x64"), "echo 'GitHub Copilot CLI 7.7.7.'")
	loader := filepath.Join(modules, "copilot", "npm-loader.js")
	if err := os.MkdirAll(filepath.Dir(loader), 0o755); err != nil {
		t.Fatal(err)
	}
	agents.WriteProgram(t, loader, "#!/bin/sh\nexit 9\n")
	link := filepath.Join(t.TempDir(), "copilot")
	if err := os.Symlink(loader, link); err != nil {
		t.Fatal(err)
	}
	b := copilot.New(&copilot.Options{Path: link, Home: t.TempDir(), Children: children(t), Getenv: env(map[string]string{"GITHUB_TOKEN": "t"})})
	for end := time.Now().Add(time.Minute); b.Probe(t.Context()).Version != "7.7.7"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v, %d runs", b.Probe(t.Context()), calls(real))
		}
	}
	login, err := b.Login()
	if err != nil || login.Path != real || len(login.Args) != 1 || login.Args[0] != "login" {
		t.Errorf("%+v, %v", login, err)
	}
}

// TestLoginIsKnown: the real CLI knows the login that innerd runs.
func TestLoginIsKnown(t *testing.T) {
	t.Parallel()
	l, err := copilot.New(&copilot.Options{Path: agents.Copilot(t).Path, Home: t.TempDir(), Children: children(t), Getenv: env(nil)}).Login()
	if err != nil {
		t.Fatal(err)
	}
	if help := agents.Help(t, l.Path, l.Args, l.Env); !strings.Contains(help, "Usage: copilot login ") || !strings.Contains(help, "OAuth") {
		t.Error(help)
	}
}

// TestVendorLogin: a login that `copilot login` made is used, by a copy of it
// alone, and copilot is let to use it.
func TestVendorLogin(t *testing.T) {
	user := t.TempDir()
	if err := os.MkdirAll(filepath.Join(user, ".copilot"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := `{"copilotTokens":{"github.com:me":"gho_x"},"loggedInUsers":[{"host":"https://github.com","login":"me"}],"trustedFolders":["/"]}`
	if err := os.WriteFile(filepath.Join(user, ".copilot", "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake(t, acts(send("i1"), []act{say("hi")}, stop)...)
	f.Backend = copilot.New(&copilot.Options{Path: fakeBinary(t), Home: f.home, Children: children(t), Getenv: env(map[string]string{"HOME": user})})
	t.Cleanup(func() { _ = f.Close(context.Background()) })
	c := f.open(t, nil)
	if _, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	if args := strings.Join(f.launches(t)[0].Args, " "); strings.Contains(args, "--no-auto-login") {
		t.Errorf("%s", args)
	}
	target := filepath.Join(f.home, "copilot", "config.json")
	raw, err := os.ReadFile(target)
	var kept map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &kept) != nil || len(kept) != 2 {
		t.Errorf("%s, %v", raw, err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	if strings.Contains(f.heard(t)[1], "apiKey") {
		t.Errorf("a provider with a GitHub login: %s", f.heard(t)[1])
	}
}

// TestGitHubToken goes in the session's parameters, and to no provider.
func TestGitHubToken(t *testing.T) {
	f := newFake(t, acts(send("i1"), []act{say("hi")}, stop)...)
	f.Backend = copilot.New(&copilot.Options{Path: fakeBinary(t), Home: f.home, Children: children(t), Getenv: env(map[string]string{"GITHUB_TOKEN": "gho_secret"})})
	t.Cleanup(func() { _ = f.Close(context.Background()) })
	if _, _, err := run(t, t.Context(), f.open(t, nil), backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	l := f.launches(t)[0]
	if strings.Contains(strings.Join(append(l.Args, l.Env...), "\n"), "gho_secret") {
		t.Error("the token is in the arguments or the environment")
	}
	if f.sent(t, `"gitHubToken":"gho_secret"`) != 1 || f.sent(t, `"provider"`) != 0 || f.sent(t, "semantic_code_search") != 0 {
		t.Errorf("%q", f.heard(t))
	}
}
