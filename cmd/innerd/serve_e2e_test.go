//go:build linux || darwin

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"innerd/cmd/innerd/shield"
)

func TestServeStopsWithARunOn(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			continue // the tests were started with nohup
		}
		s := newHome(t).serve()
		cmd := s.command(t.Context(), "run", "--json", "-b", "simulate", "--script", `[{"text":"a"},{"sleep_ms":60000}]`, "x")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		l := readLines(out)
		l.until(t, "message_delta")
		if code := s.stop(sig); code != 0 {
			t.Errorf("%v: exit code %d\n%s", sig, code, s.log.text())
		}
		l.until(t, `"error_type":"shutdown"`)
		l.until(t, `"type":"session.end"`)
		l.wait()
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 1 {
			t.Errorf("%v: the run's exit code %d", sig, code)
		}
	}
}

// With nohup a server outlives the terminal.
func TestServeNohup(t *testing.T) {
	signal.Ignore(syscall.SIGHUP) // children inherit it
	s := newHome(t).serve()
	signal.Reset(syscall.SIGHUP)
	_ = s.cmd.Process.Signal(syscall.SIGHUP)
	s.run("run", "-b", "simulate", "x").want(t, 0)
	if code := s.stop(syscall.SIGTERM); code != 0 || strings.Contains(s.log.text(), "hangup") {
		t.Errorf("exit code %d\n%s", code, s.log.text())
	}
}

// The state directory belongs to one server; the second names the first.
func TestServeTwice(t *testing.T) {
	s := newHome(t).serve()
	r := s.run("serve", "--listen", "127.0.0.1:0")
	r.want(t, 1, fmt.Sprintf("in use by process %d", s.cmd.Process.Pid))
	addr := strings.TrimPrefix(s.url, "http://")
	s.run("serve", "--listen", addr, "--state-dir", t.TempDir()).want(t, 1, "cannot listen", "address already in use")
}

// A server that was killed leaves a log that the next one closes; what a
// reader saw is in it.
func TestServeKilled(t *testing.T) {
	h := newHome(t)
	s := h.serve()
	addr := strings.TrimPrefix(s.url, "http://")
	cmd := s.command(t.Context(), "run", "--json", "-b", "simulate", "--script", `[{"text":"some words","chunk_bytes":1},{"sleep_ms":60000}]`, "x")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l := readLines(out)
	l.until(t, `"type":"assistant.message"`)
	s.stop(syscall.SIGKILL)
	h.start(nil, "--listen", addr)
	l.until(t, `"error_type":"adapter_restarted"`)
	l.wait()
	_ = cmd.Wait()
	var first struct {
		Data struct {
			TaskID string `json:"task_id"`
		}
	}
	if err := json.Unmarshal([]byte(l.got[0]), &first); err != nil {
		t.Fatal(err)
	}
	again := h.run("tail", "--json", first.Data.TaskID)
	if want := l.text(); withoutHeartbeats(again.out) != withoutHeartbeats(want) {
		t.Errorf("a reader saw\n%s\nand the log has\n%s", want, again.out)
	}
}

func withoutHeartbeats(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if !strings.Contains(line, `"type":"heartbeat"`) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// What stdin is does not matter: closed, or open for ever.
func TestServeWhateverStdinIs(t *testing.T) {
	h := newHome(t)
	log := filepath.Join(h.dir, "log")
	cmd := exec.Command("/bin/sh", "-c", `exec "$0" serve --listen 127.0.0.1:0 <&- >/dev/null 2>"$1"`, binary, log)
	cmd.Env = append(h.env, "INNERD_STATE_DIR="+h.dir+"/state", "INNERD_AGENT_HOME="+h.dir+"/agents")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, func() bool { raw, _ := os.ReadFile(log); return strings.Contains(string(raw), "innerd is ready") })
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("closed: %v", err)
	}

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	open := newHome(t)
	s := open.start(r)
	s.log.until(t, "innerd is ready")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("open: exit code %d", code)
	}
}

func waitUntil(t *testing.T, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to that")
		}
	}
}

// A log that nobody reads any more does not end the server.
func TestServeOutlivesItsLog(t *testing.T) {
	h := newHome(t)
	h.env = append(h.env, "INNERD_STATE_DIR="+h.dir+"/state", "INNERD_AGENT_HOME="+h.dir+"/agents", "INNERD_LOG_LEVEL=debug")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := h.command(t.Context(), "serve", "--listen", "127.0.0.1:0", "--log-format", "json")
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	buf := make([]byte, 64<<10)
	var url string
	for seen := ""; url == ""; {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		seen += string(buf[:n])
		if _, rest, ok := strings.Cut(seen, `"url":"`); ok {
			url, _, _ = strings.Cut(rest, `"`)
		}
	}
	_ = r.Close()
	h.env = append(h.env, "INNERD_SERVER="+url)
	h.run("run", "-b", "simulate", "hello").want(t, 0, "hello")
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestServeAuth(t *testing.T) {
	h := newHome(t)
	h.env = append(h.env, "INNERD_API_KEYS=ci:s3cret")
	s := h.serve()
	if got := status(t, s.url+"/tasks", ""); got != 401 {
		t.Errorf("no key: %d", got)
	}
	if got := status(t, s.url+"/health", ""); got != 200 {
		t.Errorf("health: %d", got)
	}
	if got := status(t, s.url+"/tasks", "s3cret"); got != 200 {
		t.Errorf("key: %d", got)
	}
	field := newHome(t)
	field.env = append(field.env, "SANDBOX_ADAPTER_ENABLED=true", "SANDBOX_ADAPTER_BACKEND=simulate", "A2A_COPILOT_TIMEOUT=never")
	s = field.serve()
	s.log.until(t, "EVERYBODY")
	if !strings.Contains(s.log.until(t, "A2A_COPILOT_TIMEOUT"), `"level":"WARN"`) {
		t.Error("a bad variable of the field was not warned of")
	}
	if got := status(t, s.url+"/tasks", ""); got != 200 {
		t.Errorf("open: %d", got)
	}
	s.run("run", "the default agent").want(t, 0, "the default agent")
	s.run("run", "--permission", "ask", "x").want(t, 2, "permission")
}

func status(t *testing.T, url, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// No key stays where other processes can read it, and all of them still work.
func TestServeHidesKeys(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	h := newHome(t)
	for _, name := range append(shield.Names(), "INNERD_CLAUDE_CODE_API_KEY", "INNERD_X_API_KEY") {
		if name == "INNERD_INIT_KEY" {
			continue // it would wait for its configuration
		}
		h.env = append(h.env, name+"=dummy-"+strings.ToLower(name))
	}
	s := h.serve()
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.cmd.Process.Pid))
	if err != nil {
		t.Skipf("not even we may read it: %v", err) // not root
	}
	if strings.Contains(string(environ), "dummy-") || !strings.Contains(string(environ), "INNERD_STATE_DIR=") {
		t.Errorf("%q", strings.ReplaceAll(string(environ), "\x00", "\n"))
	}
	if got := status(t, s.url+"/tasks", "dummy-ii_agent_a2a_api_keys"); got != 200 {
		t.Errorf("a key from the environment does not work: %d", got)
	}
	limits, _ := os.ReadFile(fmt.Sprintf("/proc/%d/limits", s.cmd.Process.Pid))
	for line := range strings.Lines(string(limits)) {
		if f := strings.Fields(line); strings.HasPrefix(line, "Max open files") && f[3] != f[4] {
			t.Errorf("%q: not raised", line)
		}
	}
}

func TestServeRefuses(t *testing.T) {
	h := newHome(t)
	file := filepath.Join(h.dir, "file")
	if err := os.WriteFile(file, []byte(`[{"nonsense":1}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(h.dir, "state")
	for says, args := range map[string][]string{
		"nonsense":                    {"--simulate-script", file},
		"is in --state-dir":           {"--agent-home", dir + "/agents"},
		"must be a port":              {"--port", "http"},
		"must be one of":              {"--backend", "gpt"},
		"must be host:port":           {"--listen", "18100"},
		"no such file":                {"--api-key-file", file + "x"},
		"unknown flag: --no-such-one": {"--no-such-one"},
	} {
		h.run(append([]string{"serve", "--listen", "127.0.0.1:0", "--state-dir", dir, "--agent-home", h.dir + "/agents"}, args...)...).want(t, 2, says)
	}
}

// A template with an empty variable makes no key that anybody can guess.
func TestServeRefusesEmptySecrets(t *testing.T) {
	h := newHome(t)
	file := filepath.Join(h.dir, "keys")
	if err := os.WriteFile(file, []byte("ci:good\nhost:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run("serve", "--listen", "127.0.0.1:0", "--api-key-file", file).want(t, 2, `secret of the key "host" is empty`)
	h.env = append(h.env, "INNERD_API_KEYS=ci:good,host:")
	h.run("serve", "--listen", "127.0.0.1:0").want(t, 2, `secret of the key "host" is empty`)
}

func TestDoctor(t *testing.T) {
	s := newHome(t).serve()
	r := s.run("doctor", "--claude-code-path", "/none", "--listen", strings.TrimPrefix(s.url, "http://"))
	r.want(t, 3, "claude-code", "simulate", "an innerd answers there", "can be written", "promises nothing against a hostile")
}

// A link in the agents' home that leads out of it is not followed: doctor names
// it, and no other.
func TestDoctorNamesLinks(t *testing.T) {
	h := newHome(t)
	agents, elsewhere := filepath.Join(h.dir, "agents"), t.TempDir()
	if err := errors.Join(
		os.MkdirAll(filepath.Join(agents, "real"), 0o700), os.Symlink("real", filepath.Join(agents, "copilot")),
		os.Symlink(elsewhere, filepath.Join(agents, "codex")),
		os.MkdirAll(filepath.Join(agents, "claude"), 0o700), os.Symlink(elsewhere, filepath.Join(agents, "claude", "attachments")),
		os.WriteFile(filepath.Join(agents, "simulate"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	r := h.run("doctor", "--listen", "127.0.0.1:0")
	r.want(t, 1, filepath.Join(agents, "codex")+" is a link", filepath.Join(agents, "claude", "attachments")+" is a link", "mount")
	for _, no := range []string{"copilot", "simulate"} {
		if strings.Contains(r.out, filepath.Join(agents, no)) {
			t.Errorf("%s is no link that leads elsewhere: %s", no, r.out)
		}
	}
}

func TestCompletion(t *testing.T) {
	h := newHome(t)
	h.run("__complete", "run", "--backend", "").want(t, 0, "simulate", "claude-code")
	h.run("completion", "bash").want(t, 0, "innerd")
	h.run("__complete", "tail", "").want(t, 0, ":4") // no server: nothing, and no files either
	s := h.serve()
	s.run("run", "-b", "simulate", "the prompt")
	s.run("__complete", "tail", "").want(t, 0, "run-", "completed the prompt")
	if r := s.run("__complete", "cancel", ""); strings.Contains(r.out, "run-") {
		t.Errorf("a run that has ended cannot be canceled: %s", r.out)
	}
}
