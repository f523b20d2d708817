//go:build linux || darwin

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// waits starts a server that waits for its configuration.
func (h *home) waits(args ...string) *served {
	h.t.Helper()
	s := h.start(nil, args...)
	line := s.log.until(h.t, "waiting for POST /init")
	var rec struct{ URL string }
	if err := json.Unmarshal([]byte(line), &rec); err != nil {
		h.t.Fatal(err)
	}
	s.url = rec.URL
	return s
}

// call makes one call and returns its status and body.
func call(t *testing.T, c *http.Client, method, url, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

const lateBody = `{"keys":["late:late-secret"],"credentials":{"claude-code":{"api_key":"late-agent-key","base_url":"http://127.0.0.1:1"}},"env":{"LATE":"1"},"now":"2020-01-01T00:00:00Z"}`

// A server can be started before anybody knows whose it will be.
func TestLateInit(t *testing.T) {
	h := newHome(t)
	h.env = append(h.env, "INNERD_INIT_KEY=bootstrap")
	s := h.waits()
	for _, tt := range []struct {
		method, path, key, body string
		status                  int
		says                    string
	}{
		{"GET", "/health", "", "", 200, `"ok"`},
		{"GET", "/ready", "", "", 503, "waiting for POST /init"},
		{"POST", "/message:send", "bootstrap", "{}", 401, "waits for"},
		{"GET", "/init", "bootstrap", "", 405, "POST"},
		{"POST", "/init", "", lateBody, 401, "bootstrap key"},
		{"POST", "/init", "wrong", lateBody, 401, "bootstrap key"},
		{"POST", "/init", "bootstrap", "{", 400, "ends too soon"},
		{"POST", "/init", "bootstrap", "[]", 400, "must be a JSON object"},
		{"POST", "/init", "bootstrap", `{"keys":"a"}`, 400, "keys: it cannot be a string"},
		{"POST", "/init", "bootstrap", `{"keys":["host:"]}`, 400, `secret of the key \"host\" is empty`},
		{"POST", "/init", "bootstrap", `{"keys":["host:a\nb"]}`, 400, "control character"},
		{"POST", "/init", "bootstrap", `{"keys":["a:b"],"now":"yesterday"}`, 400, "now: must be"},
		{"POST", "/init", "bootstrap", `{"keys":["a:b"],"workspace":"/none"}`, 400, "not a directory"},
		{"POST", "/init", "bootstrap", `{"keys":["a:b"],"env":{"A":"\u0000"}}`, 400, "NUL"},
		{"POST", "/init", "bootstrap", `{"keys":["a:b"],"credentials":{"codex":{"base_url":"ftp://x"}}}`, 400, "credentials.codex: base_url"},
		{"POST", "/init", "bootstrap", `{"keys":["a:b"],"credentials":{"codex":{"api_key":"a\nb"}}}`, 400, "control character"},
		{"POST", "/init", "bootstrap", `{"keys":["a:b"],"token":"x"}`, 400, "token"},
		{"POST", "/init", "bootstrap", `{"keys":[]}`, 400, "keys: at least one"},
		{"POST", "/init", "bootstrap", `{"keys":["a:b"],"credentials":{"gpt":{}}}`, 400, `no agent \"gpt\"`},
		{"POST", "/init", "bootstrap", `{"keys":["a:b"],"workspace":"w"}`, 400, "not an absolute path"},
		{"POST", "/init", "bootstrap", `{"keys":["a:b"],"env":{"A=B":"x"}}`, 400, "cannot be a variable"},
		{"POST", "/init", "bootstrap", strings.Repeat(" ", 2<<20) + lateBody, 413, "1 MiB"},
		{"POST", "/init", "bootstrap", lateBody, 200, "clock_skew_ms"},
		{"POST", "/init", "bootstrap", lateBody, 409, "has been configured"},
	} {
		status, body := call(t, http.DefaultClient, tt.method, s.url+tt.path, tt.key, tt.body)
		if status != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s %s with %q and %.60s: %d %s", tt.method, tt.path, tt.key, tt.body, status, body)
		}
	}
	s.log.until(t, "innerd is ready")
	for key, want := range map[string]int{"late-secret": 200, "bootstrap": 401, "": 401} {
		if status, body := call(t, http.DefaultClient, "GET", s.url+"/backends", key, ""); status != want {
			t.Errorf("key %q: %d %s", key, status, body)
		}
	}
	if !strings.Contains(s.log.text(), "clock of this machine is not the caller's") {
		t.Error("a wrong clock was not said")
	}
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, secret := range []string{"late-secret", "late-agent-key", "bootstrap"} {
		if files := filesWith(t, h.dir, secret); len(files) > 0 || strings.Contains(s.log.text(), secret) {
			t.Errorf("%s is in %v or the log", secret, files)
		}
	}
}

// filesWith lists the files below dir that have text in them.
func filesWith(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Without a key only a socket is asked, which nobody else can open.
func TestLateInitBySocket(t *testing.T) {
	h := newHome(t)
	h.dir, _ = os.MkdirTemp("/tmp", "innerd-late-") // a socket's name is short
	t.Cleanup(func() { _ = os.RemoveAll(h.dir) })
	h.env = append(h.env, "INNERD_STATE_DIR="+h.dir+"/state", "INNERD_AUTH=required")
	s := h.start(nil, "--await-init")
	line := s.log.until(t, "waiting for POST /init")
	socket := filepath.Join(h.dir, "state", "init.sock")
	if !strings.Contains(line, socket) {
		t.Errorf("%s", line)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer c.CloseIdleConnections()
	if status, body := call(t, c, "POST", "http://unix/init", "", lateBody); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	s.log.until(t, "innerd is ready")
	if _, err := os.Stat(socket); err == nil {
		t.Error("the socket is still there")
	}
}

func TestStopWhileWaiting(t *testing.T) {
	h := newHome(t)
	h.env = append(h.env, "INNERD_INIT_KEY=bootstrap")
	s := h.waits()
	begin := time.Now()
	if code := s.stop(syscall.SIGTERM); code != 0 || time.Since(begin) > 25*time.Second { // stop kills after 30 s
		t.Errorf("exit code %d after %v\n%s", code, time.Since(begin), s.log.text())
	}
}
