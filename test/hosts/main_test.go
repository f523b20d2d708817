//go:build linux

// Package hosts_test runs hosts of innerd against the real server: the
// examples, as a user starts them, and the field host's reader.
package hosts_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/test/proxy"
	"innerd/test/server"
)

// dir has innerd and the Go examples, by the names of their folders.
var dir string

func TestMain(m *testing.M) {
	checks := "3" // of properties, whose every check is a hundred connections
	if long() {
		checks = "100"
	}
	if err := flag.Set("rapid.checks", checks); err != nil { // before the command line, which wins
		panic(err)
	}
	flag.Parse()
	var err error
	if dir, err = build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	innerd := filepath.Join(dir, "innerd")
	code := server.Main(m, &innerd)
	_ = os.RemoveAll(dir) // a folder for temporary files
	os.Exit(code)
}

func build() (string, error) {
	dir, err := os.MkdirTemp("", "innerd-hosts-")
	if err != nil {
		return "", err
	}
	if _, err := server.Build(dir); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "nomsgpack", "-o", dir+string(filepath.Separator), "innerd/examples/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the examples: %w\n%s", err, out)
	}
	return dir, nil
}

// long reports whether the long forms of tests are asked for.
func long() bool { return server.Long() }

func newServer(t testing.TB, args ...string) *server.Server {
	s := server.New(t, filepath.Join(dir, "innerd"))
	s.Args = append(s.Args, args...)
	return s
}

// scripted is a server whose simulated agent plays a script in every turn.
func scripted(t testing.TB, script string) *server.Server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, "--backend", "simulate", "--simulate-script", path)
	s.Start()
	return s
}

// example runs a file of examples with its language, or a Go example's binary.
// All that it is answered is compared with docs/openapi.json.
func example(t testing.TB, url, key, name string, args ...string) *exec.Cmd {
	t.Helper()
	return exampleAt(t, proxy.Checked(t, func() string { return url }).URL(), key, name, args...)
}

func exampleAt(t testing.TB, url, key, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*server.Soon) // a test's own ends before its cleanup does
	t.Cleanup(cancel)
	words := []string{filepath.Join(dir, name)}
	switch filepath.Ext(name) {
	case ".py":
		words = []string{python(t), "-B", filepath.Join("..", "..", "examples", name)}
	case ".mjs":
		words = []string{node(t), filepath.Join("..", "..", "examples", name)}
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "INNERD_URL=" + url, "INNERD_KEY=" + key, "PYTHONUTF8=1"}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// ran runs an example to its end.
func ran(t testing.TB, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, &errOut)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// python is Python, which must be 3.9 or newer: a test without it would look
// like one that passed.
func python(t testing.TB) string {
	t.Helper()
	return needs(t, "python3", 3, 9, "import sys; print(*sys.version_info[:2], sys.executable)", "Install Python 3.9 or newer (Debian: apt-get install python3).")
}

// node is Node, 20 or newer.
func node(t testing.TB) string {
	t.Helper()
	return needs(t, "node", 20, 0, "", "Install Node 20 or newer (https://nodejs.org, or your distribution's nodejs).")
}

func needs(t testing.TB, name string, major, minor int, script, hint string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("This test runs a host that is written for %s, which is not here. %s", name, hint)
	}
	args := []string{"--version"}
	if script != "" {
		args = []string{"-c", script}
	}
	found.Lock()
	defer found.Unlock()
	if p := found.paths[name]; p != "" {
		return p
	}
	out, err := exec.Command(path, args...).Output()
	v := strings.FieldsFunc(strings.TrimSpace(string(out)), func(r rune) bool { return r < '0' || r > '9' })
	if err != nil || len(v) < 2 {
		t.Fatalf("%s does not tell its version: %q %v. %s", path, out, err, hint)
	}
	a, _ := strconv.Atoi(v[0])
	b, _ := strconv.Atoi(v[1])
	if _, real, ok := strings.Cut(string(out), " /"); ok {
		path = "/" + strings.TrimSpace(real) // not a shim, which takes longer than the program
	}
	if a < major || a == major && b < minor {
		t.Fatalf("%s is %d.%d, and too old. %s", path, a, b, hint)
	}
	found.paths[name] = path
	return path
}

// found are the programs that were looked at.
var found = struct {
	sync.Mutex
	paths map[string]string
}{paths: map[string]string{}}
