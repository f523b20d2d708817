//go:build linux || darwin

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

func TestRunLendsATool(t *testing.T) {
	s := newHome(t).serve()
	script := `[{"reasoning":"hm"},{"call":{"tool":"upper","arguments":{"word":"abc"}}},{"text":"done"}]`
	r := s.run("run", "-b", "simulate", "--script", script, "--tool", `upper=tr a-z A-Z`,
		"--tool-schema", `upper={"type":"object","description":"shouts","properties":{"word":{"type":"string"}},"required":["word"]}`, "go")
	r.want(t, 0, `→ upper {"word":"abc"}`, `← upper {"WORD":"ABC"}`, "simulate-1")
	if !strings.Contains(r.out, `{"WORD":"ABC"}`) || !strings.HasSuffix(r.out, "done\n") || strings.Contains(r.out, "hm") {
		t.Errorf("stdout %q", r.out)
	}
}

func TestRunToolFails(t *testing.T) {
	s := newHome(t).serve()
	r := s.run("run", "-b", "simulate", "--script", `[{"call":{"tool":"bad","arguments":{}}}]`, "--tool", `bad=echo out; echo why >&2; exit 3`, "go")
	r.want(t, 0, "← bad failed: exit status 3", "exit status 3", "why")
}

func TestRunJSON(t *testing.T) {
	s := newHome(t).serve()
	r := s.run("run", "-b", "simulate", "--json", "hello \u0085 🙂")
	r.want(t, 0)
	last, text := int64(0), ""
	for line := range strings.Lines(r.out) {
		var ev struct {
			ID   int64
			Type string
			Data struct{ Delta string }
		}
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if ev.ID != last+1 {
			t.Fatalf("id %d after %d", ev.ID, last)
		}
		last = ev.ID
		if ev.Type == "assistant.message_delta" {
			text += ev.Data.Delta
		}
	}
	if text != "hello \u0085 🙂" || !strings.Contains(r.out, `"type":"session.end"`) {
		t.Fatalf("text %q of\n%s", text, r.out)
	}
}

func TestRunQuiet(t *testing.T) {
	s := newHome(t).serve()
	r := s.run("run", "-b", "simulate", "-q", "--script", `[{"retry":{"text":"half and whole"}}]`, "x")
	if r.want(t, 0); strings.Count(r.out, "half") != 1 || r.err != "" {
		t.Fatalf("%q %q", r.out, r.err)
	}
}

func TestRunStdin(t *testing.T) {
	s := newHome(t).serve()
	s.runWith(strings.NewReader("from a pipe\n"), "run", "-b", "simulate", "-").want(t, 0, "from a pipe")
}

func TestRunExitCodes(t *testing.T) {
	s := newHome(t).serve()
	failing := func(errorType string) []string {
		return []string{"run", "-b", "simulate", "--script", fmt.Sprintf(`[{"error":{"message":"as told","error_type":%q}}]`, errorType), "x"}
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{1, "execution failed: as told", failing("internal")},
		{4, "auth: unavailable: as told", failing("auth")},
		{5, "rate limit: as told", failing("rate_limit")},
		{6, "timeout: as told", failing("timeout")},
		{1, "crash", []string{"run", "-b", "simulate", "--script", `[{"crash":{"exit_code":9,"stderr":"crash"}}]`, "x"}},
		{6, "timeout", []string{"run", "-b", "simulate", "--timeout", "100ms", "--script", `[{"sleep_ms":60000}]`, "x"}},
		{2, "script[0]", []string{"run", "-b", "simulate", "--script", `[{"nonsense":1}]`, "x"}},
		{2, "backend", []string{"run", "-b", "nobody", "x"}},
		{2, "empty", []string{"run", " "}},
		{2, "unknown flag", []string{"run", "--nonsense", "x"}},
		{2, "run [flags] PROMPT", []string{"run"}},
		{2, "quote it", []string{"run", "two", "words"}},
		{2, "innerd tail --help", []string{"tail"}},
		{2, "unknown command", []string{"nonsense"}},
		{2, "NAME=COMMAND", []string{"run", "--tool", "x", "y"}},
		{2, "host:port", []string{"serve", "--listen", "127.0.0.1:-1"}},
		{2, "host:port", []string{"serve", "--listen", "127.0.0.1:99999"}},
		{3, "no server at", []string{"run", "--server", "http://127.0.0.1:1", "x"}},
		{2, "HTTP 404", []string{"tail", "no-such-task"}},
		{0, "innerd", []string{"version"}},
		{0, "innerd", []string{"--version"}},
	} {
		s.run(c.args...).want(t, c.code, c.says)
	}
	s.env = append(s.env, "INNERD_API_KEY=wrong")
	s.run("run", "x").want(t, 4, "401")
}

func TestRunNoUsableAgent(t *testing.T) {
	h := newHome(t)
	h.env = append(h.env, "INNERD_CLAUDE_CODE_PATH="+filepath.Join(h.dir, "none"))
	h.run("run", "x").want(t, 3, "backend unavailable: ")
}

// Ctrl-C ends the run, with its events, and the tool that runs for it; so does
// a terminal that goes away.
func TestRunInterrupted(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) { // by who started the tests
			t.Run(sig.String(), func(t *testing.T) { testRunInterrupted(t, sig) })
		}
	}
}

func testRunInterrupted(t *testing.T, sig syscall.Signal) {
	s := newHome(t).serve()
	mark := filepath.Join(s.dir, "pid")
	cmd := s.command(t.Context(), "run", "--json", "-b", "simulate", "--script", `[{"call":{"tool":"wait","arguments":{}}}]`,
		"--tool", "wait=echo $$ > "+mark+"; sleep 600", "x")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l := readLines(out)
	l.until(t, "tool.execution_request")
	pid := waitForFile(t, mark)
	_ = cmd.Process.Signal(sig)
	l.until(t, `"type":"session.end","data":{"state":"canceled"`)
	l.wait()
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	if err := exec.Command("kill", "-0", pid).Run(); err == nil {
		t.Errorf("the tool's command %s is still there", pid)
	}
	s.run("ps").want(t, 0, "canceled")
}

func waitForFile(t *testing.T, path string) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if raw, _ := os.ReadFile(path); strings.HasSuffix(string(raw), "\n") {
			return strings.TrimSpace(string(raw))
		}
	}
	t.Fatalf("%s did not appear", path)
	return ""
}

// Twice quits, though the server does not answer the cancel.
func TestRunInterruptedTwice(t *testing.T) {
	canceled := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the end of the connection end the context
		switch {
		case r.URL.Path == "/message:stream":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 1\ndata: {\"id\":1,\"type\":\"session.task_id\",\"data\":{\"task_id\":\"t\"}}\n\n")
			fmt.Fprint(w, "id: 2\ndata: {\"id\":2,\"type\":\"tool.execution_request\",\"data\":{\"tool_call_id\":\"c\",\"tool_name\":\"wait\",\"arguments\":{}}}\n\n")
			_ = http.NewResponseController(w).Flush()
		case strings.HasSuffix(r.URL.Path, ":cancel"):
			close(canceled)
		default:
			fmt.Fprint(w, "{}")
			return
		}
		<-r.Context().Done()
	}))
	defer srv.Close()
	h := newHome(t)
	mark := filepath.Join(h.dir, "pid")
	cmd := h.command(t.Context(), "run", "--server", srv.URL, "--tool", "wait=echo $$ > "+mark+"; sleep 600", "x")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := waitForFile(t, mark)
	_ = cmd.Process.Signal(syscall.SIGINT)
	<-canceled
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Fatalf("exit code %d", code)
	}
	waitUntil(t, func() bool { return exec.Command("kill", "-0", pid).Run() != nil })
}

func TestRunAsksOnTheTerminal(t *testing.T) {
	s := newHome(t).serve()
	script := `[{"permission":{"tool":"bash","input":{"command":"rm x"},"output":"ran it","exit_code":0}},{"text":"next"},` +
		`{"permission":{"tool":"curl","input":{}}},{"ask":{"message":"your name?","schema":{"type":"string"}}},` +
		`{"ask":{"message":"colour?","schema":{"type":"object","properties":{"c":{"type":"string","enum":["red","blue"]}}}}},{"text":"bye"}]`
	cmd := s.command(t.Context(), "run", "-b", "simulate", "--permission", "ask", "--interactive", "--script", script, "x")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 200})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	term := &screen{t: t, f: tty}
	term.until("? bash {\"command\":\"rm x\"}", "> ")
	term.types("maybe\n")
	term.until("> ")
	term.types("y\n")
	term.until("next", "? curl", "> ")
	term.types("n\n")
	term.until("? your name?", "> ")
	term.types("Ada\n")
	term.until("? colour?", "(red, blue) > ")
	term.types("green\n")
	term.until("that does not fit: ", "(red, blue) > ")
	term.types("blue\n")
	term.until("bye")
	term.rest()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, term.seen)
	}
	page := s.run("ps", "--json")
	var tasks []struct{ ID string }
	if err := json.Unmarshal([]byte(page.out), &tasks); err != nil || len(tasks) != 1 {
		t.Fatalf("%v %s", err, page.out)
	}
	log := s.run("tail", "--json", tasks[0].ID)
	log.want(t, 0, `"outcome":"allowed","by":"host"`, `"outcome":"denied","by":"host"`, `"value":"Ada"`)
}

// screen reads a terminal.
type screen struct {
	t    *testing.T
	f    *os.File
	seen string
	at   int
}

// until reads until each text has come, one after another.
func (s *screen) until(texts ...string) {
	s.t.Helper()
	for _, want := range texts {
		for {
			if i := strings.Index(s.seen[s.at:], want); i >= 0 {
				s.at += i + len(want)
				break
			}
			if !s.read() {
				s.t.Fatalf("%q did not come; there was:\n%s", want, s.seen)
			}
		}
	}
}

func (s *screen) read() bool {
	buf := make([]byte, 4096)
	n, err := s.f.Read(buf)
	s.seen += string(buf[:n])
	return err == nil
}

func (s *screen) types(text string) {
	if _, err := s.f.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) rest() {
	for s.read() {
	}
}

// A reader that leaves, like head, takes the run with it.
func TestRunOutputIsLeft(t *testing.T) {
	s := newHome(t).serve()
	cmd := s.command(t.Context(), "run", "--json", "-b", "simulate", "--script", `[{"flood":{"deltas":100000,"bytes":40,"per_second":1000}}]`, "x")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = out.Read(make([]byte, 100))
	_ = out.Close()
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	s.run("ps").want(t, 0, "canceled")
}

// Where nobody can be asked, ask is a deny.
func TestRunAsksNobody(t *testing.T) {
	s := newHome(t).serve()
	cmd := s.command(t.Context(), "run", "--json", "-b", "simulate", "--permission", "ask", "--script", `[{"permission":{"tool":"bash","input":{}}},{"text":"on"}]`, "x")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), `"outcome":"denied"`) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// A question would wait minutes for a user who is not there.
func TestRunInteractiveWithoutATerminal(t *testing.T) {
	s := newHome(t).serve()
	cmd := s.command(t.Context(), "run", "-b", "simulate", "--interactive", "x")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), "no terminal is there") {
		t.Fatalf("exit code %d: %s", code, out)
	}
}

func TestPrivateServer(t *testing.T) {
	h := newHome(t)
	h.run("run", "-b", "simulate", "-C", "talk", "first thing").want(t, 0, "first thing")
	second := h.run("run", "--json", "-b", "simulate", "-C", "talk", "second thing")
	second.want(t, 0, `"mode":"continue"`)
	h.run("run", "--json", "-b", "simulate", "-C", "talk", "third thing").want(t, 0, `"mode":"continue"`)
	if _, err := os.Stat(filepath.Join(h.dir, "innerd-private", "state", "VERSION")); err != nil {
		t.Error(err)
	}
	if out, _ := exec.Command("pgrep", "-f", h.dir).Output(); len(out) > 0 {
		t.Errorf("left: %s", out)
	}
}

// A second one at the same time has a state of its own.
func TestPrivateServersAtOnce(t *testing.T) {
	h := newHome(t)
	first := h.command(t.Context(), "run", "--json", "-b", "simulate", "--script", `[{"text":"a"},{"sleep_ms":60000}]`, "x")
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	l := readLines(out)
	l.until(t, "message_delta")
	h.run("run", "-b", "simulate", "meanwhile").want(t, 0, "meanwhile")
	_ = first.Process.Signal(syscall.SIGINT)
	l.wait()
	_ = first.Wait()
	if code := first.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	if left, _ := filepath.Glob(filepath.Join(h.dir, "innerd-[0-9]*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestPrivateServerUsesThisDirectory(t *testing.T) {
	h := newHome(t)
	cmd := h.command(t.Context(), "run", "-b", "simulate", "x")
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	requests, _ := filepath.Glob(filepath.Join(h.dir, "innerd-private", "state", "runs", "*", "request.json"))
	if len(requests) != 1 {
		t.Fatal(requests)
	}
	raw, _ := os.ReadFile(requests[0])
	if !strings.Contains(string(raw), cmd.Dir) {
		t.Errorf("%s", raw)
	}
}
