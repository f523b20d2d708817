package proc

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// local is the Starter that starts children of this process.
type local struct {
	thread  thread
	user    *User    // nil: this process's
	sweeper []string // a program that sweeps in our place; nil: we do
	orphans *Orphans // told of every start; nil: nobody reaps strangers

	mu    sync.Mutex
	procs map[ID]*os.Process // started, not reaped
	ended map[ID]Status      // where waiting cannot but reap
	kin   map[ID][]ID        // descendants seen when the group was signaled
}

// NewLocal makes the Starter that starts children of this process, and so the
// other end of one that does not. An io.Closer: it ends its thread.
func NewLocal() Starter {
	return &local{procs: map[ID]*os.Process{}, ended: map[ID]Status{}, kin: map[ID][]ID{}}
}

// User is whom children run as.
type User struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
}

// NewLocalAs is NewLocal for a process that may change its user (root, or with
// CAP_SETUID, CAP_SETGID and CAP_KILL), or is u already: children run as u. Only u can read the
// marks of its processes, so that Sweep runs sweeper, a program that calls
// SweepMain, as u too. orphans is told of every start; nil where this is not
// process 1. Linux only.
func NewLocalAs(u User, sweeper []string, orphans *Orphans) Starter {
	l := NewLocal().(*local)
	l.orphans = orphans
	if int(u.UID) != os.Getuid() || int(u.GID) != os.Getgid() { // else nothing changes, and no right is needed
		l.user, l.sweeper = &u, sweeper
	}
	return l
}

// Close ends the thread that starts children.
func (l *local) Close() error {
	l.thread.close()
	return nil
}

// Start implements Starter.
func (l *local) Start(spec Spec, files []*os.File) (ID, error) {
	var id ID
	err := error(ErrClosed)
	l.thread.do(func() { id, err = l.start(spec, files) })
	return id, err
}

func (l *local) start(spec Spec, files []*os.File) (ID, error) {
	var p *os.Process
	err := l.orphans.Start(func() (int, error) {
		var err error
		p, err = os.StartProcess(spec.Path, spec.Args, &os.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: files, Sys: attributes(l.user)})
		if err != nil {
			return 0, err
		}
		return p.Pid, nil
	})
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err // the caller names the path
		}
		return ID{}, err
	}
	// It cannot be reaped before we do it, so this is its start time even if
	// it has ended.
	id := ID{PID: p.Pid, Start: startTime(p.Pid)}
	l.mu.Lock()
	l.procs[id] = p
	l.mu.Unlock()
	return id, nil
}

func (l *local) process(id ID) (*os.Process, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.procs[id]; p != nil {
		return p, nil
	}
	return nil, os.ErrProcessDone
}

// Signal implements Starter.
func (l *local) Signal(id ID, sig syscall.Signal, group bool) error {
	var kin []ID
	if group {
		kin = descendants(id)
	}
	l.mu.Lock()
	defer l.mu.Unlock() // the pid is ours while it stands in procs
	p := l.procs[id]
	if p == nil {
		return nil
	}
	var err error
	if group {
		l.kin[id] = append(l.kin[id], kin...)
		err = signalGroup(p, sig)
	} else {
		err = p.Signal(sig)
	}
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// Wait implements Starter.
func (l *local) Wait(id ID) error {
	p, err := l.process(id)
	if err != nil {
		return err
	}
	if waitEnded(p.Pid) == nil {
		return nil
	}
	// Without a wait that leaves the process alone it is reaped here.
	status, err := l.reap(p)
	l.mu.Lock()
	delete(l.procs, id)
	l.ended[id] = status
	l.mu.Unlock()
	return err
}

// Reap implements Starter.
func (l *local) Reap(id ID) (Status, error) {
	l.mu.Lock()
	p, status := l.procs[id], l.ended[id]
	delete(l.procs, id)
	delete(l.ended, id)
	delete(l.kin, id)
	l.mu.Unlock()
	if p == nil {
		return status, nil
	}
	return l.reap(p)
}

func (l *local) reap(p *os.Process) (Status, error) {
	state, err := p.Wait()
	l.orphans.Reaped(p.Pid)
	if err != nil {
		return Status{Code: -1}, err
	}
	s := Status{Code: state.ExitCode()}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		s.Signal = ws.Signal()
	}
	return s, nil
}
