//go:build linux

package proc_test

import (
	"bytes"
	"context"
	"errors"
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
