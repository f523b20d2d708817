//go:build unix

package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
)

// ServeStarter is the far end of NewRemote: it does with s what is asked for
// over conn, until conn ends; then it ends and reaps every process that was
// started and not reaped, so that no agent outlives a server that was killed.
// It closes conn. The error is nil when the near end closed it.
func ServeStarter(ctx context.Context, conn *net.UnixConn, s Starter) error {
	f := &far{conn: conn, starter: s, procs: map[ID]string{}, sweeps: map[uint64]context.CancelFunc{}}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	err := f.serve(ctx)
	_ = conn.Close()
	f.calls.Wait() // ends: what they wait for is killed by end
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	return err
}

type far struct {
	conn    *net.UnixConn
	starter Starter
	calls   sync.WaitGroup

	writing sync.Mutex

	mu     sync.Mutex
	over   bool          // nothing is started any more
	procs  map[ID]string // not reaped, with their marks
	sweeps map[uint64]context.CancelFunc
}

func (f *far) serve(ctx context.Context) error {
	defer f.end(context.WithoutCancel(ctx))
	for {
		var a ask
		files, err := receive(f.conn, &a)
		if err != nil {
			return err
		}
		if a.Op == "cancel" {
			f.cancel(a.N)
			closeAll(files)
			continue
		}
		// A sweep is known before the next message is read: it may cancel it.
		sweep, done := f.sweepContext(ctx, a)
		f.calls.Go(func() { // ends when it is answered; end sees to that
			defer done()
			f.answer(sweep, a, files)
		})
	}
}

func (f *far) sweepContext(ctx context.Context, a ask) (context.Context, func()) {
	if a.Op != "sweep" {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	f.mu.Lock()
	f.sweeps[a.N] = cancel
	f.mu.Unlock()
	return ctx, func() {
		cancel()
		f.mu.Lock()
		delete(f.sweeps, a.N)
		f.mu.Unlock()
	}
}

func (f *far) cancel(n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cancel := f.sweeps[n]; cancel != nil {
		cancel()
	}
}

func (f *far) answer(ctx context.Context, a ask, files []*os.File) {
	defer closeAll(files)
	out := reply{N: a.N}
	out.Err = newFault(f.do(ctx, a, files, &out))
	f.writing.Lock()
	defer f.writing.Unlock()
	if err := send(f.conn, out, nil); err != nil {
		_ = f.conn.Close() // the near end is gone, or would wait for ever
	}
}

func (f *far) do(ctx context.Context, a ask, files []*os.File, out *reply) (err error) {
	switch {
	case a.Op == "start" && a.Spec != nil && a.Files == len(files):
		out.ID, err = f.start(*a.Spec, files)
	case a.Op == "sweep" && a.Target != nil:
		err = f.starter.Sweep(ctx, *a.Target)
	case !f.knows(a.ID): // no other process is touched
		if a.Op == "wait" {
			err = os.ErrProcessDone
		}
	case a.Op == "wait":
		err = f.starter.Wait(a.ID)
	case a.Op == "signal":
		err = f.starter.Signal(a.ID, a.Signal, a.Group)
	case a.Op == "reap":
		out.Status, err = f.reap(a.ID)
	default:
		err = fmt.Errorf("%w: %q", errProtocol, a.Op)
	}
	return err
}

func (f *far) start(spec Spec, files []*os.File) (ID, error) {
	f.mu.Lock()
	defer f.mu.Unlock() // end must not miss one
	if f.over {
		return ID{}, ErrClosed
	}
	id, err := f.starter.Start(spec, files)
	if err == nil {
		f.procs[id] = markOf(spec.Env)
	}
	return id, err
}

func (f *far) knows(id ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.procs[id]
	return ok
}

func (f *far) reap(id ID) (Status, error) {
	_ = f.starter.Wait(id) // until it has ended, end must be able to kill it
	status, err := f.starter.Reap(id)
	f.mu.Lock()
	delete(f.procs, id)
	f.mu.Unlock()
	return status, err
}

// end kills what is left, which ends the waits for it, and reaps it.
func (f *far) end(ctx context.Context) {
	f.mu.Lock()
	f.over = true
	left := f.procs
	f.procs = map[ID]string{}
	for _, cancel := range f.sweeps {
		cancel()
	}
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	for id, mark := range left {
		_ = f.starter.Signal(id, syscall.SIGKILL, true)
		if mark != "" {
			_ = f.starter.Sweep(ctx, Target{IDs: []ID{id}, Mark: mark})
		}
		_, _ = f.starter.Reap(id)
	}
}

func markOf(env []string) string {
	for _, kv := range env {
		if mark, ok := strings.CutPrefix(kv, markName+"="); ok {
			return mark
		}
	}
	return ""
}
