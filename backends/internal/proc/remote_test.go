//go:build linux

package proc_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"innerd/backends/internal/proc"
)

func init() {
	childBodies["sweeper"] = func() {
		if err := proc.SweepMain(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
	}
	childBodies["whoami"] = func() {
		_, _ = os.Stdout.WriteString(strconv.Itoa(os.Getuid()) + " " + strconv.Itoa(os.Getgid()) + "\n")
		time.Sleep(time.Hour)
	}
}

// socketpair is two ends of one connection.
func socketpair(t *testing.T) (near, far *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn := func(fd int) *net.UnixConn {
		f := os.NewFile(uintptr(fd), "socket")
		defer f.Close()
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		return c.(*net.UnixConn)
	}
	return conn(fds[0]), conn(fds[1])
}

// served is a near end whose far end is served with s until the test's end.
func served(t *testing.T, s proc.Starter) (*net.UnixConn, proc.Starter) {
	t.Helper()
	near, far := socketpair(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := proc.ServeStarter(context.WithoutCancel(t.Context()), far, s); err != nil {
			t.Errorf("the far end: %v", err)
		}
	})
	t.Cleanup(func() {
		_ = near.Close()
		wg.Wait()
		_ = s.(io.Closer).Close()
	})
	return near, proc.NewRemote(near)
}

// with runs tests of Supervisors whose children are started by s.
func with(t *testing.T, s func(*testing.T) proc.Starter, tests map[string]func(*testing.T)) {
	t.Helper()
	old := starter
	starter = s
	defer func() { starter = old }()
	for name, test := range tests {
		t.Run(name, test)
	}
}

// lifeTests are those that a Starter can break.
var lifeTests = map[string]func(*testing.T){
	"Plain": TestPlain, "Stop": TestStop, "StopWithoutGrace": TestStopWithoutGrace,
	"Daemon": TestDaemon, "SweepPart": TestSweepPart, "SweepInAScript": TestSweepInAScript, "Output": TestOutput, "NoDeadlock": TestNoDeadlock, "Secrets": TestSecrets,
	"CancelWhileStarting": TestCancelWhileStarting, "Close": TestClose,
}

// Children at the other end of a socket live and end like one's own.
func TestOverASocket(t *testing.T) {
	with(t, func(t *testing.T) proc.Starter { _, s := served(t, proc.NewLocal()); return s }, lifeTests)
	with(t, func(t *testing.T) proc.Starter { _, s := served(t, proc.NewLocal()); return s },
		map[string]func(*testing.T){"StartErrors": TestStartErrors}) // its folders are one's own
}

// Children run as another user, whose marks only that user can read.
func TestAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may start processes of another user")
	}
	nobody := proc.User{UID: 65534, GID: 65534}
	dir := copyOfProgram(t)
	sweeper := []string{"/usr/bin/env", childVar + "=sweeper", "GORACE=atexit_sleep_ms=0", dir}
	as := func(t *testing.T) proc.Starter {
		_, s := served(t, proc.NewLocalAs(nobody, sweeper, nil))
		return s
	}
	old := program
	program = dir
	defer func() { program = old }()
	with(t, as, lifeTests)
	with(t, as, map[string]func(*testing.T){"whoami": func(t *testing.T) {
		s, _ := supervisor(t)
		c, line := s.running(t, "whoami", proc.Command{Dir: "/"})
		if line != "65534 65534" {
			t.Errorf("it runs as %q", line)
		}
		stop(t, c)
	}})
}

// copyOfProgram can be read by everybody; the one that go test makes cannot.
func copyOfProgram(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "proc-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "program")
	if out, err := exec.Command("cp", os.Args[0], path).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// A server that is killed takes its agents with it.
func TestNearEndGone(t *testing.T) {
	near, far := socketpair(t)
	local := proc.NewLocal()
	served := make(chan error, 1)
	go func() { served <- proc.ServeStarter(t.Context(), far, local) }() // ends with near
	s := testSupervisor{proc.New(proc.Options{Starter: proc.NewRemote(near), ServerID: "T-near"}), "T-near"}
	c, _ := s.running(t, "forker", proc.Command{})
	if err := near.Close(); err != nil { // as the kernel does for one that is killed
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if left := marked(t, c.Mark()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	_ = local.(io.Closer).Close()
	if err := s.Close(t.Context()); err == nil {
		t.Error("nothing says that the end of a child was not seen")
	}
}

// Errors are the same at both ends: hosts are told what is missing.
func TestRemoteErrors(t *testing.T) {
	_, r := served(t, proc.NewLocal())
	_, err := r.Start(proc.Spec{Path: "/none", Args: []string{"none"}}, nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
	stranger := proc.ID{PID: os.Getpid(), Start: 1}
	if err := r.Signal(stranger, syscall.SIGKILL, false); err != nil {
		t.Errorf("a process of nobody's: %v", err)
	}
	if err := r.Wait(stranger); err == nil {
		t.Error("a stranger can be waited for")
	}
	if _, err := r.Start(proc.Spec{Path: "/bin/true"}, make([]*os.File, 65)); err == nil {
		t.Error("65 files went through")
	}
	if err := r.(io.Closer).Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Start(proc.Spec{Path: "/bin/true"}, nil); !errors.Is(err, proc.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A far end that is gone is said, not waited for.
func TestFarEndGone(t *testing.T) {
	near, far := socketpair(t)
	r := proc.NewRemote(near)
	go func() { // ends with the first bytes
		_, _ = far.Read(make([]byte, 1))
		_ = far.Close()
	}()
	if err := r.Wait(proc.ID{PID: 1}); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("%v", err)
	}
	_ = r.(io.Closer).Close()
}

// Process 1 reaps what it inherits and leaves alone what it waits for.
func TestOrphans(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	o := proc.NewOrphans()
	done := make(chan struct{})
	var reaper sync.WaitGroup
	var reaped int
	reaper.Go(func() { // ends with done
		for {
			select {
			case <-done:
				return
			default:
				reaped += o.Reap()
			}
		}
	})
	wrong := 0
	for i := range 100 {
		want := i % 50
		cmd := exec.Command("/bin/sh", "-c", "(sleep 0.01 &) ; exit "+strconv.Itoa(want))
		if err := o.Start(func() (int, error) {
			if err := cmd.Start(); err != nil {
				return 0, err
			}
			return cmd.Process.Pid, nil
		}); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		o.Reaped(cmd.Process.Pid)
		if cmd.ProcessState.ExitCode() != want {
			wrong++
		}
	}
	for end := time.Now().Add(time.Minute); childrenIn(t, "RSDZ") > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	close(done)
	reaper.Wait()
	if wrong > 0 || reaped != 100 || zombies(t) > 0 {
		t.Errorf("%d wrong ends, %d of 100 orphans reaped, %d zombies", wrong, reaped, zombies(t))
	}
}

func zombies(t *testing.T) int { return childrenIn(t, "Z") }

// childrenIn counts children of this process by their state.
func childrenIn(t *testing.T, states string) int {
	t.Helper()
	n := 0
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		_, rest, _ := strings.Cut(string(b), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) && strings.Contains(states, fields[0]) {
			n++
		}
	}
	return n
}
