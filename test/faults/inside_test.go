//go:build linux

package faults_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// insideEnv is set where the tests run in a mount namespace of their own: the
// path of the innerd under test.
const insideEnv = "INNERD_FAULTS_BINARY"

const rowMark = "row of the table: "

// inside has a test run in a mount namespace of its own, so that it can make
// small file systems and read-only ones without the machine seeing any. It
// reports whether it is in there; otherwise the test has been run, beside
// others, and is over.
func inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) != "" {
		return true
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "10m")
	cmd.Env = append(os.Environ(), insideEnv+"="+innerd, "INNERD_REPORT=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: syscall.CLONE_NEWNS}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 { // who is not root is root in a user namespace
		cmd.SysProcAttr.Unshareflags = 0
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: gid, Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if _, row, ok := strings.Cut(line, rowMark); ok {
			rows.add(t, strings.TrimSpace(row))
		}
	}
	t.Logf("in a mount namespace:\n%s", out)
	if err != nil {
		t.Errorf("in a mount namespace of its own, which needs root or user namespaces: %v", err)
	}
	return false
}

// disk is a small file system in memory. Make it before the server that uses
// it, so that it goes after that.
type disk struct {
	t    testing.TB
	path string
}

func newDisk(t testing.TB, size string) *disk {
	d := &disk{t, t.TempDir()}
	if err := syscall.Mount("innerd-faults", d.path, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("a file system in memory: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(d.path, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return d
}

// readOnly makes it read-only, or writable again.
func (d *disk) readOnly(is bool) {
	d.t.Helper()
	flags := uintptr(syscall.MS_REMOUNT)
	if is {
		flags |= syscall.MS_RDONLY
	}
	if err := syscall.Mount("innerd-faults", d.path, "tmpfs", flags, ""); err != nil {
		d.t.Fatalf("remount: %v", err)
	}
}

// fill takes all the space that is left, and goes on with what becomes free
// until the disk has been full for a while. free gives it back.
func (d *disk) fill() (free func()) {
	d.t.Helper()
	path := filepath.Join(d.path, "ballast")
	f, err := os.Create(path)
	if err != nil {
		d.t.Fatal(err)
	}
	for full, size := 0, 1<<20; full < 10; {
		if _, err := f.Write(make([]byte, size)); err != nil && size > 4<<10 {
			size /= 2
		} else if err != nil {
			full++
			poll()
		}
	}
	free = func() {
		_ = f.Close() // again is no harm
		_ = os.Remove(path)
	}
	d.t.Cleanup(free)
	return free
}

// hog takes all the space that is left, and at once what becomes free, as a
// command of an agent may, until it is told to free it.
func (d *disk) hog() (free func()) {
	d.t.Helper()
	path := filepath.Join(d.path, "hogged")
	f, err := os.Create(path)
	if err != nil {
		d.t.Fatal(err)
	}
	stop, over := make(chan struct{}), make(chan struct{})
	go func() { // ends with free, at the latest with the test
		defer close(over)
		piece := make([]byte, 4<<10)
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := f.Write(piece); err != nil {
					time.Sleep(20 * time.Microsecond)
				}
			}
		}
	}()
	free = sync.OnceFunc(func() {
		close(stop)
		<-over
		_ = f.Close()
		_ = os.Remove(path)
	})
	d.t.Cleanup(free)
	return free
}
