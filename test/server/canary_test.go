//go:build linux

package server_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"innerd/test/server"
)

// A key that stands somewhere is found, in whatever form and wherever in a
// file, and nothing else is.
func TestLooseKeysAreFound(t *testing.T) {
	const key = "sk-secret-of-a-test"
	secrets := map[string]string{"OPENAI_API_KEY": key, "short": "x"}
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, c := range map[string]struct{ log, text, want string }{
		"none":           {log: "x sk-secret-of", text: strings.Repeat("x", 5000) + b64("sk-secret-of"), want: ""},
		"log":            {log: "a line\n" + key + "\n", want: "in the server's log"},
		"file":           {text: `{"text":"` + key + `"}`, want: "in state/runs/one/request.json"},
		"across windows": {text: strings.Repeat("y", 1<<20-5) + key, want: "in state/runs/one/request.json"},
		"far":            {text: strings.Repeat("y", 5<<20) + key + strings.Repeat("y", 1<<20), want: "in state/runs/one/request.json"},
		"base64, 0":      {text: b64(key + " and more"), want: "in base64 in state/runs/one"},
		"base64, 1":      {text: b64("a" + key), want: "in base64 in state/runs/one"},
		"base64, 2":      {text: b64("Authorization: " + "xy" + key), want: "in base64 in state/runs/one"},
		"base64, 0 more": {text: b64("Basic " + key + "ab"), want: "in base64 in state/runs/one"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			at := filepath.Join(dir, "runs", "one")
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{"request.json": c.text, "empty": "", "other": "nothing"} {
				if err := os.WriteFile(filepath.Join(at, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := strings.Join(server.Loose(secrets, c.log, t.TempDir(), dir), "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) || got != "" && !strings.Contains(got, "OPENAI_API_KEY") {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}

// A key that a process shows is found, but the one that there is no other way
// for.
func TestShownKeysAreFound(t *testing.T) {
	const key = "sk-secret-of-a-test"
	for name, c := range map[string]struct{ env, arg, want string }{
		"none":        {"NAME=sk-secret-of", "sk-secret-of", ""},
		"environment": {"NAME=a " + key, "x", "environ: …"},
		"arguments":   {"NAME=x", "--key=" + key, "cmdline: …"},
		"one way":     {"ANTHROPIC_AUTH_TOKEN=" + key, "x", ""},
		"beside it":   {"ANTHROPIC_AUTH_TOKEN=" + key, key, "cmdline: …"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "echo; read end", "sh", c.arg)
			cmd.Env = []string{"PATH=/usr/bin:/bin", c.env, "LAST=x"}
			in, err1 := cmd.StdinPipe()
			out, err2 := cmd.StdoutPipe()
			if err1 != nil || err2 != nil || cmd.Start() != nil {
				t.Fatal(err1, err2)
			}
			if _, err := out.Read(make([]byte, 1)); err != nil { // it is no copy of this process any more
				t.Error(err)
			}
			got := strings.Join(server.Shown(map[string]string{"OPENAI_API_KEY": key}, []int{cmd.Process.Pid}), "\n")
			_ = in.Close()
			_ = cmd.Wait() // read fails at the end of its input
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}
