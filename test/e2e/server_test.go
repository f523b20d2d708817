//go:build linux

package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The key that tests call with, and the owner that it makes them.
const (
	key   = "dummy-e2e-key"
	owner = "e2e"
)

// soon is how long a test waits for what should come at once, on a busy machine.
const soon = 30 * time.Second

// server is `innerd serve` with a state, an agents' home and a workspace of
// its own. It can be ended in any way and started again on the same state.
type server struct {
	t                        testing.TB
	home, state, agents, dir string
	env                      []string // added to the few variables that it gets
	args                     []string
	through                  []string // a command that is given the server's as its arguments
	url                      string
	proc                     *process
	seen                     []*process // all that were started
}

// process is one run of the binary.
type process struct {
	cmd    *exec.Cmd
	stderr *lines
	done   chan struct{} // closed when it was waited for
}

// newServer makes a server and does not start it. At the end of the test it is
// ended, and nothing that it started may be left.
func newServer(t testing.TB) *server {
	home := t.TempDir()
	s := &server{
		t: t, home: home, state: filepath.Join(home, "state"), agents: filepath.Join(home, "agents"), dir: filepath.Join(home, "work"),
		args: []string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"},
	}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.env = []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TMPDIR=" + home,
		"INNERD_STATE_DIR=" + s.state, "INNERD_AGENT_HOME=" + s.agents, "INNERD_WORKSPACE=" + s.dir,
		"INNERD_API_KEYS=" + owner + ":" + key,
	}
	t.Cleanup(s.cleanup)
	return s
}

// of is the server as another test sees it, which neither starts nor stops it.
func (s *server) of(t testing.TB) *server {
	same := *s
	same.t = t
	return &same
}

// serve makes a server and starts it.
func serve(t testing.TB, args ...string) *server {
	t.Helper()
	s := newServer(t)
	s.args = append(s.args, args...)
	s.start()
	return s
}

// start starts the server and waits until it is ready.
func (s *server) start() {
	s.t.Helper()
	p := s.launch()
	line, ok := p.stderr.until(`"innerd is ready"`, soon)
	var rec struct{ URL string }
	if !ok || json.Unmarshal([]byte(line), &rec) != nil || rec.URL == "" {
		s.t.Fatalf("the server is not ready:\n%s", p.stderr)
	}
	s.url = rec.URL
}

// launch starts the server and does not wait.
func (s *server) launch() *process {
	s.t.Helper()
	words := append(append(slices.Clone(s.through), innerd), s.args...)
	p := &process{cmd: exec.Command(words[0], words[1:]...), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = s.env, s.dir
	stderr, err := p.cmd.StderrPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	p.stderr = readLines(stderr)
	go func() { // ends with the process; cleanup waits for it
		defer close(p.done)
		<-p.stderr.end
		_ = p.cmd.Wait() // its state says it all
	}()
	s.proc = p
	s.seen = append(s.seen, p)
	return p
}

// kill ends the server with SIGKILL and waits until it is gone.
func (s *server) kill() {
	_ = s.proc.cmd.Process.Kill() // it may be gone
	s.wait()
}

// stop ends the server with SIGTERM and gives its exit code.
func (s *server) stop() int {
	s.t.Helper()
	_ = s.proc.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	s.wait()
	return s.proc.cmd.ProcessState.ExitCode()
}

func (s *server) wait() {
	s.t.Helper()
	select {
	case <-s.proc.done:
	case <-time.After(soon):
		s.t.Errorf("the server does not end:\n%s", s.proc.stderr)
		_ = s.proc.cmd.Process.Kill()
		<-s.proc.done
	}
}

// cleanup stops what still runs, and looks for what was left.
func (s *server) cleanup() {
	if s.proc == nil {
		return
	}
	select {
	case <-s.proc.done:
	default:
		if code := s.stop(); code != 0 {
			s.t.Errorf("the server's exit code is %d", code)
		}
	}
	if left := s.marked(); len(left) > 0 {
		s.t.Errorf("processes were left: %s", describe(left))
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	for _, p := range s.seen {
		if s.t.Failed() || strings.Contains(p.stderr.String(), "panic") || strings.Contains(p.stderr.String(), "DATA RACE") {
			s.t.Errorf("stderr of process %d:\n%s", p.cmd.Process.Pid, p.stderr)
		}
	}
}

// id is the server's id, which begins the mark of all its children.
func (s *server) id() string {
	raw, _ := os.ReadFile(filepath.Join(s.state, "VERSION")) // none: nothing was started
	var v struct{ ID string }
	_ = json.Unmarshal(raw, &v)
	return v.ID
}

// marked are the processes that carry the server's mark.
func (s *server) marked() []int {
	id := s.id()
	if id == "" {
		return nil
	}
	return markedWith(id + ".")
}

func markedWith(prefix string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		environ, _ := os.ReadFile(path) // gone, or not ours
		for v := range bytes.SplitSeq(environ, []byte{0}) {
			if bytes.HasPrefix(v, []byte("INNERD_MARK="+prefix)) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return pids
}

func describe(pids []int) string {
	var out []string
	for _, pid := range pids {
		cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		out = append(out, fmt.Sprintf("%d %.100q", pid, bytes.ReplaceAll(cmd, []byte{0}, []byte{' '})))
	}
	return strings.Join(out, ", ")
}

// eventually waits for something that nothing announces.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not come to this: %s", what)
		}
	}
}

// lines collects the lines of a stream as they come.
type lines struct {
	mu   sync.Mutex
	got  []string
	more chan struct{} // closed and replaced at every line
	end  chan struct{}
}

func readLines(r io.Reader) *lines {
	l := &lines{more: make(chan struct{}), end: make(chan struct{})}
	go func() { // ends with the stream
		defer close(l.end)
		br := bufio.NewReader(r)
		for {
			line, err := br.ReadString('\n')
			if line != "" {
				l.mu.Lock()
				l.got = append(l.got, strings.TrimSuffix(line, "\n"))
				close(l.more)
				l.more = make(chan struct{})
				l.mu.Unlock()
			}
			if err != nil {
				return
			}
		}
	}()
	return l
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.got, "\n")
}

// until waits for a line that holds s.
func (l *lines) until(s string, limit time.Duration) (string, bool) {
	late := time.NewTimer(limit)
	defer late.Stop()
	for i := 0; ; {
		l.mu.Lock()
		for ; i < len(l.got); i++ {
			if strings.Contains(l.got[i], s) {
				line := l.got[i]
				l.mu.Unlock()
				return line, true
			}
		}
		more := l.more
		l.mu.Unlock()
		select {
		case <-more:
		case <-l.end:
			l.mu.Lock()
			n := len(l.got)
			l.mu.Unlock()
			if i == n {
				return "", false
			}
		case <-late.C:
			return "", false
		}
	}
}
