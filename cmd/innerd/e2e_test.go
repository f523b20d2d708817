//go:build linux || darwin

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var binary string // the innerd that is tested

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "innerd-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "innerd")
	build := exec.Command("go", "build", "-tags", "nomsgpack", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	out, err := build.CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s%v\n", out, err)
		return 1
	}
	return m.Run()
}

// home is a user's home of a test: commands in it find nobody else's server,
// state or login.
type home struct {
	t   *testing.T
	dir string
	env []string
}

func newHome(t *testing.T) *home {
	dir := t.TempDir()
	return &home{t: t, dir: dir, env: []string{
		"HOME=" + dir, "XDG_STATE_HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TERM=dumb", "TMPDIR=" + dir,
		"INNERD_STATE_DIR=" + filepath.Join(dir, "state"), "INNERD_AGENT_HOME=" + filepath.Join(dir, "agents"), // root's are in /var/lib
	}}
}

func (h *home) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = h.env
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// result is how a command went.
type result struct {
	out, err string
	code     int
}

func (h *home) run(args ...string) result { return h.runWith(nil, args...) }

func (h *home) runWith(in io.Reader, args ...string) result {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	cmd := h.command(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.t.Fatalf("%v: %v", args, err)
	}
	return result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// served is a running `innerd serve`.
type served struct {
	*home
	cmd *exec.Cmd
	url string
	log *lines
}

// serve starts a server of its own and waits until it is ready. Commands of
// the same home find it.
func (h *home) serve(args ...string) *served {
	h.t.Helper()
	s := h.start(nil, args...)
	for line := range s.log.all(h.t) {
		var rec struct {
			Msg, URL string
		}
		if json.Unmarshal([]byte(line), &rec) == nil && rec.Msg == "innerd is ready" {
			s.url = rec.URL
			h.env = append(h.env, "INNERD_SERVER="+s.url)
			return s
		}
	}
	h.t.Fatal("the server ended before it was ready")
	return nil
}

// start starts a server and does not wait.
func (h *home) start(stdin *os.File, args ...string) *served {
	h.t.Helper()
	s := &served{home: h, cmd: h.command(context.Background(), append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"}, args...)...)}
	s.cmd.Stdin = stdin
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	s.log = readLines(stderr)
	h.t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.log.wait()
	})
	return s
}

// stop ends the server by a signal and gives its exit code.
func (s *served) stop(sig syscall.Signal) int {
	s.t.Helper()
	_ = s.cmd.Process.Signal(sig)
	done := time.AfterFunc(30*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer done.Stop()
	s.log.wait()
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// lines collects the lines of a stream as they come.
type lines struct {
	mu   sync.Mutex
	got  []string
	more chan struct{}
	end  chan struct{}
}

func readLines(r io.Reader) *lines {
	l := &lines{more: make(chan struct{}), end: make(chan struct{})}
	go func() { // ends with the stream
		defer close(l.end)
		sc := bufio.NewScanner(r)
		sc.Buffer(nil, 16<<20)
		for sc.Scan() {
			l.mu.Lock()
			l.got = append(l.got, sc.Text())
			close(l.more)
			l.more = make(chan struct{})
			l.mu.Unlock()
		}
	}()
	return l
}

func (l *lines) wait() { <-l.end }

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.got, "\n") + "\n"
}

// all gives every line, those to come too, for at most a minute.
func (l *lines) all(t *testing.T) func(func(string) bool) {
	return func(yield func(string) bool) {
		t.Helper()
		late := time.After(time.Minute)
		for i := 0; ; i++ {
			line, ok := l.line(i, late)
			if !ok {
				return
			}
			if !yield(line) {
				return
			}
		}
	}
}

// line waits for the i-th line.
func (l *lines) line(i int, late <-chan time.Time) (string, bool) {
	for ended := false; ; {
		l.mu.Lock()
		n, more := len(l.got), l.more
		if i < n {
			defer l.mu.Unlock()
			return l.got[i], true
		}
		l.mu.Unlock()
		if ended {
			return "", false
		}
		select {
		case <-more:
		case <-l.end:
			ended = true
		case <-late:
			return "", false
		}
	}
}

// until waits for a line that contains s.
func (l *lines) until(t *testing.T, s string) string {
	t.Helper()
	for line := range l.all(t) {
		if strings.Contains(line, s) {
			return line
		}
	}
	t.Fatalf("%q did not come; there was:\n%s", s, l.text())
	return ""
}

func (r result) want(t *testing.T, code int, out ...string) {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.out, r.err)
	}
	for _, s := range out {
		if !strings.Contains(r.out+r.err, s) {
			t.Errorf("no %q in\nstdout: %s\nstderr: %s", s, r.out, r.err)
		}
	}
}
