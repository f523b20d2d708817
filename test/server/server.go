//go:build linux

package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Soon is how long a test waits for what should come at once, on a busy machine.
const Soon = 2 * time.Minute

// The key that hosts call with, unless a server has others, and whom it makes them.
const (
	HostKey = "dummy-key-of-the-host"
	Owner   = "host"
)

// Server is `innerd serve` on 127.0.0.1. Its fields may be changed before Start.
type Server struct {
	T      testing.TB
	Binary string
	Home   string // HOME and TMPDIR; the others are below it
	State  string
	Agents string // --agent-home
	Dir    string // --workspace
	Env    []string
	Args   []string
	Header map[string]string // of every request
	Keys   string            // INNERD_API_KEYS; "": the server makes its token

	Tells   bool     // the test tells agents its keys, and they may remember them
	Through []string // a command that is given the server's as its arguments

	url  string
	proc *Process
	seen []*Process // all that were started
}

// Process is one run of the binary.
type Process struct {
	cmd    *exec.Cmd
	stderr *Lines
	done   chan struct{} // closed when it was waited for
}

// New makes a server and does not start it. At the end of the test it is
// ended, and nothing that it started may be left; no key that the test gave
// it may stand in what it or its agents wrote, nor, at each stop and kill, where
// /proc shows it.
func New(t testing.TB, binary string) *Server {
	home := t.TempDir()
	s := &Server{
		T: t, Binary: binary, Home: home, State: filepath.Join(home, "state"), Agents: filepath.Join(home, "agents"), Dir: filepath.Join(home, "work"),
		Keys: Owner + ":" + HostKey,
		Args: []string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"},
		Env:  []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"},
	}
	if err := os.Mkdir(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.cleanup)
	return s
}

// listens finds where a server is in its log, which may be text or JSON.
var listens = regexp.MustCompile(`http://[0-9.]+:[0-9]+`)

// Start starts the server and waits until it is ready.
func (s *Server) Start() {
	s.T.Helper()
	s.StartUntil("innerd is ready")
}

// StartUntil starts the server and waits until it says in its log where it
// listens, in a line with a text. No file of a run that has ended may change by
// that, nor by a stop or a kill.
func (s *Server) StartUntil(text string) {
	s.T.Helper()
	var line string
	s.keepsEnded("the start", func() {
		s.proc = s.Launch()
		line, _ = s.proc.stderr.Until(text, Soon)
	})
	if s.url = listens.FindString(line); s.url == "" {
		s.T.Fatalf("the server does not say %q:\n%s", text, s.proc.stderr)
	}
}

// Launch starts another process of the server, and does not wait. It is ended
// with the test, as the server is.
func (s *Server) Launch() *Process {
	s.T.Helper()
	words := append(append(slices.Clone(s.Through), s.Binary), s.Args...)
	p := &Process{cmd: exec.Command(words[0], words[1:]...), done: make(chan struct{})}
	p.cmd.Dir = s.Dir
	p.cmd.Env = append(slices.Clone(s.Env), "HOME="+s.Home, "TMPDIR="+s.Home,
		"INNERD_STATE_DIR="+s.State, "INNERD_AGENT_HOME="+s.Agents, "INNERD_WORKSPACE="+s.Dir, "INNERD_API_KEYS="+s.Keys)
	stderr, err := p.cmd.StderrPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		s.T.Fatal(err)
	}
	p.stderr = ReadLines(stderr)
	go func() { // ends with the process; cleanup waits for it
		defer close(p.done)
		<-p.stderr.end
		_ = p.cmd.Wait() // its state says it all
	}()
	s.seen = append(s.seen, p)
	return p
}

// ExitCode waits for the process's end.
func (s *Server) ExitCode(p *Process) int {
	s.T.Helper()
	s.wait(p)
	return p.cmd.ProcessState.ExitCode()
}

// Log is what it wrote to stderr.
func (p *Process) Log() string { return p.stderr.String() }

// Says waits for a line of the server's log that holds a text.
func (s *Server) Says(text string) bool {
	_, ok := s.proc.stderr.Until(text, Soon)
	return ok
}

// Pid is the server's process.
func (s *Server) Pid() int { return s.proc.cmd.Process.Pid }

// Log is what all its processes wrote to stderr.
func (s *Server) Log() string {
	var out []string
	for _, p := range s.seen {
		out = append(out, p.stderr.String())
	}
	return strings.Join(out, "\n")
}

// Kill ends the server with SIGKILL and waits until it is gone.
func (s *Server) Kill() {
	s.T.Helper()
	s.hidesKeys()
	s.keepsEnded("the kill", func() {
		_ = s.proc.cmd.Process.Kill() // it may be gone
		s.wait(s.proc)
	})
}

// Stop ends the server with SIGTERM. Any other exit code than 0 fails the test.
func (s *Server) Stop() {
	s.T.Helper()
	s.hidesKeys()
	s.keepsEnded("the stop", func() {
		_ = s.proc.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
		if code := s.ExitCode(s.proc); code != 0 {
			s.T.Errorf("the server's exit code is %d", code)
		}
	})
}

// hidesKeys looks that no process that the server started shows a key.
func (s *Server) hidesKeys() {
	s.T.Helper()
	for _, where := range Shown(s.secrets(), s.Marked()) {
		s.T.Error(where)
	}
}

func (s *Server) wait(p *Process) {
	s.T.Helper()
	select {
	case <-p.done:
	case <-time.After(Soon):
		s.T.Errorf("the server does not end:\n%s", p.stderr)
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// cleanup stops what still runs, and looks for what was left.
func (s *Server) cleanup() {
	if s.proc == nil {
		return
	}
	for _, p := range s.seen {
		select {
		case <-p.done:
		default:
			if p == s.proc {
				s.Stop()
				continue
			}
			s.T.Errorf("process %d was to end by itself", p.cmd.Process.Pid)
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
	if left := s.Marked(); len(left) > 0 {
		s.T.Errorf("processes were left: %s", Describe(left))
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	dirs := []string{s.State}
	if !s.Tells {
		dirs = append(dirs, s.Agents)
	}
	for _, where := range Loose(s.secrets(), s.Log(), dirs...) {
		s.T.Error(where)
	}
	if log := s.Log(); s.T.Failed() || strings.Contains(log, "panic") || strings.Contains(log, "DATA RACE") {
		s.T.Errorf("stderr of the server:\n%s", log[max(0, len(log)-8000):])
	}
}

// Copy makes a server on a copy of this one's state, agent home and workspace,
// which lie elsewhere then. This one must have ended.
func (s *Server) Copy() *Server {
	s.T.Helper()
	c := New(s.T, s.Binary)
	c.Env, c.Args = slices.Clone(s.Env), slices.Clone(s.Args)
	for from, to := range map[string]string{s.State: c.State, s.Agents: c.Agents, s.Dir: c.Dir} {
		if err := exec.CommandContext(s.T.Context(), "cp", "-a", from+"/.", to).Run(); err != nil {
			s.T.Fatalf("copying %s: %v", from, err)
		}
	}
	return c
}

// Eventually waits for something that nothing announces.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(Soon); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not come to this: %s", what)
		}
	}
}

// For is the same server for a part of the test that neither ends it nor
// starts it: what it finds wrong is that part's.
func (s *Server) For(t testing.TB) *Server {
	c := *s
	c.T = t
	return &c
}
