package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServesAScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(file, []byte(`{"key": "", "turns": [{"blocks": [{"text": "you said {{prompt}}", "chunk": 100}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var stderr strings.Builder
	done := make(chan int)
	go func() { done <- run(ctx, []string{"--script", file}, in, &stderr) }()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(strings.TrimSpace(url)+"/v1/messages", "application/json",
		strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(body), "you said hi") {
		t.Errorf("%v\n%s", err, body)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	stop()
	if code := <-done; code != 0 {
		t.Errorf("code %d: %s", code, stderr.String())
	}
}

func TestRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(file, []byte(`{"turns": [{"bloks": []}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		code int
		says string
	}{
		"flag":    {[]string{"--nonsense"}, 2, "nonsense"},
		"file":    {[]string{"--script", "/nowhere/script.json"}, 1, "/nowhere/script.json"},
		"script":  {[]string{"--script", file}, 1, "bloks"},
		"address": {[]string{"--listen", "nowhere"}, 1, "nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr strings.Builder
			if code := run(t.Context(), tt.args, io.Discard, &stderr); code != tt.code || !strings.Contains(stderr.String(), tt.says) {
				t.Errorf("code %d: %s", code, stderr.String())
			}
		})
	}
}
