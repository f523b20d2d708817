//go:build linux

package proc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"innerd/backends/internal/proc"
)

// running starts a body and waits for the first line that it says.
func (s testSupervisor) running(t *testing.T, body string, cmd proc.Command) (*proc.Child, string) {
	t.Helper()
	first := make(chan string, 1)
	inner := cmd.OnLine
	cmd.OnLine = func(b []byte) {
		select {
		case first <- string(b):
		default:
		}
		if inner != nil {
			inner(b)
		}
	}
	c, err := s.Start(t.Context(), s.self(body, cmd))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case line := <-first:
		return c, line
	case <-time.After(time.Minute):
		t.Fatalf("%s says nothing", body)
		return nil, ""
	}
}

// stopTime is what a Stop may take here: far above what it takes on a busy
// machine, and below the grace of those that are to end by SIGTERM.
const stopTime = 25 * time.Second

// stop stops c and checks that nothing with its mark is left.
func stop(t *testing.T, c *proc.Child) proc.Exit {
	t.Helper()
	begin := time.Now()
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d > stopTime {
		t.Errorf("Stop took %v", d)
	}
	if left := marked(t, c.Mark()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	return c.Exit()
}

func TestStop(t *testing.T) {
	tests := []struct {
		body   string
		grace  time.Duration
		signal string
	}{
		{"forever", time.Minute, "terminated"},
		{"ignore-term", 50 * time.Millisecond, "killed"},
		{"stopped", time.Minute, "terminated"},
		{"forker", time.Minute, "terminated"},
		{"naked", time.Minute, "terminated"},
		{"closes-stdout", time.Minute, "terminated"},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			s, _ := supervisor(t)
			c, _ := s.running(t, tt.body, proc.Command{Grace: tt.grace})
			if e := stop(t, c); e.Signal != tt.signal || e.Code != -1 {
				t.Errorf("exit %+v", e)
			}
		})
	}
}

// A child that can say nothing any more, or be told nothing, does not live on
// for ever: whoever waits for it hears of its end.
func TestClosesItsStreams(t *testing.T) {
	for _, stream := range []string{"stdout", "stdin"} {
		t.Run(stream, func(t *testing.T) {
			s, _ := supervisor(t)
			c, _ := s.running(t, "closes-"+stream, proc.Command{Grace: 2 * time.Second})
			if err := c.Send([]byte("are you there?")); err != nil {
				t.Error(err)
			}
			await(t, c.Done())
			if e := c.Exit(); e.Signal != "terminated" || !strings.Contains(e.StderrTail, "closed its "+stream) {
				t.Errorf("exit %+v", e)
			}
		})
	}
}

func TestStopWithoutGrace(t *testing.T) {
	s, _ := supervisor(t)
	c, _ := s.running(t, "ignore-term", proc.Command{Grace: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if e := c.Exit(); e.Signal != "killed" {
		t.Errorf("exit %+v", e)
	}
}

// A grandchild that holds stdout neither keeps the child from its end nor lives on.
func TestDaemon(t *testing.T) {
	for _, body := range []string{"daemon", "naked", "session"} {
		t.Run(body, func(t *testing.T) {
			s, _ := supervisor(t)
			c, line := s.running(t, body, proc.Command{})
			pid := number(t, line)
			if body == "naked" {
				stop(t, c)
			}
			await(t, c.Done())
			eventually(t, "the grandchild is gone", func() bool { return !alive(pid) })
		})
	}
}

// One conversation's commands end; the process, and another's, go on.
func TestSweepPart(t *testing.T) {
	s, _ := supervisor(t)
	c, _ := s.running(t, "parts", proc.Command{})
	eventually(t, "both commands run", func() bool {
		return len(marked(t, c.Mark()+".A")) == 1 && len(marked(t, c.Mark()+".B")) == 1
	})
	if err := c.Sweep(t.Context(), "A"); err != nil {
		t.Fatal(err)
	}
	if a, all := marked(t, c.Mark()+".A"), marked(t, c.Mark()); len(a) != 0 || len(all) != 2 {
		t.Errorf("of A: %v, of all: %v", a, all)
	}
	stop(t, c)
}

// The same for an agent that marks its commands with a variable of its own.
func TestSweepWith(t *testing.T) {
	s, _ := supervisor(t)
	c, _ := s.running(t, "parts", proc.Command{})
	other, _ := s.running(t, "parts", proc.Command{})
	eventually(t, "all commands run", func() bool { return len(marked(t, c.Mark()+"."))+len(marked(t, other.Mark()+".")) == 4 })
	if err := c.SweepWith(t.Context(), "TEST_SESSION=A"); err != nil {
		t.Fatal(err)
	}
	if a, all := marked(t, c.Mark()+".A"), marked(t, c.Mark()); len(a) != 0 || len(all) != 2 {
		t.Errorf("of A: %v, of all: %v", a, all)
	}
	if left := marked(t, other.Mark()+"."); len(left) != 2 {
		t.Errorf("the other child's: %v", left)
	}
	if err := c.SweepWith(t.Context(), "=x"); err == nil {
		t.Error("a sweep of no variable")
	}
	stop(t, c)
	stop(t, other)
}

func TestOutput(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	tests := []struct {
		body    string
		want    []string
		notices int
		stderr  string
	}{
		{"once", nil, 0, ""},
		{"half", []string{"whole", "hal"}, 0, ""},
		{"long", []string{"next", long, "last"}, 1, ""},
		{"bytes", []string{"a\x00b", "\xff\xfe", "\u0085\u2028\r", ""}, 0, ""},
		{"stderr", nil, 0, "the end\n"},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			s, _ := supervisor(t)
			var got lines
			notices := 0
			c, err := s.Start(t.Context(), s.self(tt.body, proc.Command{
				OnLine:   got.add,
				OnNotice: func(string) { notices++ },
			}))
			if err != nil {
				t.Fatal(err)
			}
			await(t, c.Done())
			if e := c.Exit(); e.Code != 0 || !strings.HasSuffix(e.StderrTail, tt.stderr) || len(e.StderrTail) > 64<<10 {
				t.Errorf("exit %.200v", e)
			}
			if all := got.all(); len(all) != len(tt.want) {
				t.Fatalf("%d lines, want %d", len(all), len(tt.want))
			}
			for i, l := range got.all() {
				if l != tt.want[i] {
					t.Errorf("line %d: %.80q", i, l)
				}
			}
			if notices != tt.notices {
				t.Errorf("%d notices", notices)
			}
		})
	}
}

// What a child does not read must not keep us from reading what it writes.
func TestNoDeadlock(t *testing.T) {
	s, _ := supervisor(t)
	var c *proc.Child
	var last string
	seen := 0
	_, err := s.Start(t.Context(), s.self("deaf", proc.Command{OnStart: func(started *proc.Child) { c = started }, OnLine: func(b []byte) {
		if seen++; seen <= 8 { // sent from the goroutine that reads
			if err := c.Send(bytes.Repeat([]byte("z"), 1<<20-1)); err != nil {
				t.Errorf("Send: %v", err)
			}
			if seen == 8 {
				c.CloseInput()
			}
		}
		last = string(b)
	}}))
	if err != nil {
		t.Fatal(err)
	}
	await(t, c.Done())
	if want := fmt.Sprint("read ", 8<<20); last != want {
		t.Errorf("%.80q, want %q", last, want)
	}
}

func TestBacklog(t *testing.T) {
	s, _ := supervisor(t)
	c, _ := s.running(t, "forever", proc.Command{})
	piece := make([]byte, 32<<20)
	var err error
	for range 9 {
		if err = c.Send(piece); err != nil {
			break
		}
	}
	if !errors.Is(err, proc.ErrBacklog) {
		t.Errorf("error %v", err)
	}
	stop(t, c) // also frees the writer
}

func TestSecrets(t *testing.T) {
	s, _ := supervisor(t)
	big := bytes.Repeat([]byte("k"), 1<<20)
	deaf, _ := s.running(t, "forever", proc.Command{Secrets: [][]byte{big, []byte("never read")}})
	var pipes lines
	other, err := s.Start(t.Context(), s.self("pipes", proc.Command{OnLine: pipes.add}))
	if err != nil {
		t.Fatal(err)
	}
	await(t, other.Done())
	own := slices.DeleteFunc(pipes.all(), func(pipe string) bool { return inheritedPipes[pipe] })
	if len(own) != 3 {
		t.Errorf("a child beside one with secrets has %q", own)
	}
	var got lines
	c, err := s.Start(t.Context(), s.self("secrets", proc.Command{Secrets: [][]byte{big, []byte("sk-1")}, OnLine: got.add}))
	if err != nil {
		t.Fatal(err)
	}
	await(t, c.Done())
	if want := "1048576 kkkkkkkkkk|4 sk-1"; strings.Join(got.all(), "|") != want {
		t.Errorf("secrets read: %q", got.all())
	}
	stop(t, deaf)
}

func TestPanicOfHandler(t *testing.T) {
	s, _ := supervisor(t)
	c, err := s.Start(t.Context(), s.self("panicker", proc.Command{OnLine: func([]byte) { panic("oh no") }}))
	if err != nil {
		t.Fatal(err)
	}
	await(t, c.Done())
	if e := c.Exit(); e.Signal != "killed" || !strings.Contains(e.StderrTail, "oh no") {
		t.Errorf("exit %+v", e)
	}
}

func TestCancelWhileStarting(t *testing.T) {
	s, state := supervisor(t)
	cause := errors.New("no more")
	started, refused := 0, 0
	for range 40 {
		ctx, cancel := context.WithCancelCause(t.Context())
		go cancel(cause)
		c, err := s.Start(ctx, s.self("forever", proc.Command{Grace: time.Millisecond}))
		switch {
		case err == nil:
			started++
			stop(t, c)
		case errors.Is(err, cause):
			refused++
		default:
			t.Errorf("error %v", err)
		}
	}
	t.Logf("%d started, %d refused", started, refused)
	if left := marked(t, s.id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if files, _ := os.ReadDir(filepath.Join(state, "children")); len(files) != 0 {
		t.Errorf("%d records are left", len(files))
	}
}

func TestClose(t *testing.T) {
	s, _ := supervisor(t)
	var all []*proc.Child
	for _, body := range []string{"forever", "ignore-term", "stopped"} {
		c, _ := s.running(t, body, proc.Command{Grace: 100 * time.Millisecond})
		all = append(all, c)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		await(t, c.Done())
	}
	if _, err := s.Start(t.Context(), s.self("once", proc.Command{})); !errors.Is(err, proc.ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
}

// noDescriptors leaves this process none; those that it opened for that can be
// closed one by one.
func noDescriptors(t *testing.T) (held []*os.File, release func()) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = 80
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		held = append(held, f)
	}
	release = func() {
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)
		for _, f := range held {
			_ = f.Close()
		}
		held = nil
	}
	t.Cleanup(release)
	return held, release
}

// With few descriptors left, Start works or fails cleanly at each step.
func TestNoDescriptors(t *testing.T) {
	s, state := supervisor(t)
	held, release := noDescriptors(t)
	failed, worked := 0, 0
	for n := range 20 {
		_ = held[n].Close()
		c, err := s.Start(t.Context(), s.self("once", proc.Command{}))
		if err == nil {
			worked++
			await(t, c.Done())
			continue
		}
		failed++
		if !errors.Is(err, syscall.EMFILE) {
			t.Errorf("error %v", err)
		}
	}
	release()
	if failed < 5 || worked < 3 {
		t.Errorf("%d failed, %d worked", failed, worked)
	}
	if files, _ := os.ReadDir(filepath.Join(state, "children")); len(files) != 0 {
		t.Errorf("%d records are left", len(files))
	}
	if left := marked(t, s.id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// All commands end, whatever session they went into; the process goes on.
func TestSweepCommands(t *testing.T) {
	s, _ := supervisor(t)
	c, _ := s.running(t, "parts", proc.Command{})
	eventually(t, "both commands run", func() bool { return len(marked(t, c.Mark())) == 3 })
	if err := c.SweepCommands(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := marked(t, c.Mark()); len(all) != 1 || all[0] != fmt.Sprintf("/proc/%d/environ", c.PID()) {
		t.Errorf("left: %v, the process is %d", all, c.PID())
	}
	stop(t, c)
}

// An agent in a script that waits for it is left alone as one that is our own
// child: only its commands end, all or a part of them, also those that have
// opened its pipes.
func TestSweepInAScript(t *testing.T) {
	for _, body := range []string{"parts", "parts-redirect", "wrapper", "wrapper-session", "wrapper-tee"} {
		for name, c := range map[string]struct {
			sweep func(*proc.Child) error
			left  int // commands
		}{
			"all":      {func(c *proc.Child) error { return c.SweepCommands(t.Context()) }, 0},
			"part":     {func(c *proc.Child) error { return c.Sweep(t.Context(), "A") }, 1},
			"variable": {func(c *proc.Child) error { return c.SweepWith(t.Context(), "TEST_SESSION=A") }, 1},
		} {
			t.Run(body+"/"+name, func(t *testing.T) {
				s, _ := supervisor(t)
				child, _ := s.running(t, body, proc.Command{})
				commands := func() int { return len(marked(t, child.Mark()+".")) }
				eventually(t, "both commands run", func() bool { return commands() == 2 })
				agents := len(marked(t, child.Mark())) - 2
				if err := c.sweep(child); err != nil {
					t.Fatal(err)
				}
				if got := commands(); got != c.left {
					t.Errorf("%d commands are left, want %d", got, c.left)
				}
				if got := len(marked(t, child.Mark())) - c.left; got != agents {
					t.Errorf("of the child and its agent, %d of %d are left", got, agents)
				}
				stop(t, child)
			})
		}
	}
}

// Whether a process is the agent in a script cannot be known without a
// descriptor: it is not taken for a stranger, whom the sweep would end.
func TestAgentInAScriptWithoutDescriptors(t *testing.T) {
	s, _ := supervisor(t)
	child, _ := s.running(t, "wrapper", proc.Command{})
	eventually(t, "both commands run", func() bool { return len(marked(t, child.Mark()+".")) == 2 })
	if all, err := proc.AgentOf(child.PID(), func() {}); err != nil || len(all) != 2 {
		t.Fatalf("the script and its agent: %v, %v", all, err)
	}
	release := func() {}
	all, err := proc.AgentOf(child.PID(), func() { _, release = noDescriptors(t) })
	release()
	if !errors.Is(err, syscall.EMFILE) {
		t.Errorf("what could not be read was taken for known: %v, %v", all, err)
	}
	stop(t, child)
}
