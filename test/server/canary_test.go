//go:build linux

package server_test

import (
	"encoding/base64"
	"os"
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
		"file":           {text: `{"text":"` + key + `"}`, want: "in runs/one/request.json"},
		"across windows": {text: strings.Repeat("y", 1<<20-5) + key, want: "in runs/one/request.json"},
		"far":            {text: strings.Repeat("y", 5<<20) + key + strings.Repeat("y", 1<<20), want: "in runs/one/request.json"},
		"base64, 0":      {text: b64(key + " and more"), want: "in base64 in runs/one"},
		"base64, 1":      {text: b64("a" + key), want: "in base64 in runs/one"},
		"base64, 2":      {text: b64("Authorization: " + "xy" + key), want: "in base64 in runs/one"},
		"base64, 0 more": {text: b64("Basic " + key + "ab"), want: "in base64 in runs/one"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			at := filepath.Join(dir, "runs", "one")
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{"request.json": c.text, "empty": "", "other": "nothing"} {
				if err := os.WriteFile(filepath.Join(at, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := strings.Join(server.Loose(secrets, c.log, dir), "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) || got != "" && !strings.Contains(got, "OPENAI_API_KEY") {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}
