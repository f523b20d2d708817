package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Orphans reaps what process 1 inherits. Its methods may be called at the same
// time.
//
// A wait for any child would take the exit of one that os/exec waits for. So
// every start is told of, under a lock, and a look at the list of children
// leaves those alone.
type Orphans struct {
	mu  sync.Mutex
	own map[int]struct{}
}

// NewOrphans makes an Orphans. It starts nothing: call Reap at every SIGCHLD.
func NewOrphans() *Orphans { return &Orphans{own: map[int]struct{}{}} }

// Start runs start, which starts a child and returns its pid; whoever starts
// it also waits for it, and calls Reaped afterwards.
func (o *Orphans) Start(start func() (pid int, err error)) error {
	if o == nil {
		_, err := start()
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	pid, err := start()
	if err == nil {
		o.own[pid] = struct{}{}
	}
	return err
}

// Reaped says that a child was waited for.
func (o *Orphans) Reaped(pid int) {
	if o == nil {
		return
	}
	o.mu.Lock()
	delete(o.own, pid)
	o.mu.Unlock()
}

// Reap reaps every child that has ended and was not started by Start. It
// returns how many.
func (o *Orphans) Reap() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, pid := range children() {
		if _, own := o.own[pid]; own {
			continue
		}
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG, nil)
		if err == nil && info.Signo != 0 {
			n++
		}
	}
	return n
}

// children of this process; the kernel keeps them by the thread that forked.
func children() []int {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	var pids []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // a thread that has ended: its children are another's now
		}
		for _, field := range bytes.Fields(b) {
			if pid, err := strconv.Atoi(string(field)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
