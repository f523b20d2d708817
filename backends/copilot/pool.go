package copilot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

var errClosed = errors.New("copilot: closed")

// slot is one process of the pool, or the wait for it. Backend.mu guards it.
type slot struct {
	key   string
	ready chan struct{} // closed when p or err is set
	p     *process
	err   error
	refs  int // conversations that use it, or wait for it
	timer *time.Timer
}

// launch is what the conversations of one process have in common.
type launch struct {
	bin   binary
	env   map[string]string // what the request added
	login *login
}

// key is equal for launches that may share a process. It is a hash: it holds
// what came in the environment of a request.
func (l *launch) key() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00", l.bin.path, l.login.identity())
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		fmt.Fprintf(h, "%s=%s\x00", name, l.env[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// acquire gives the process of a launch, and starts it where there is none.
// The caller releases it.
func (b *Backend) acquire(ctx context.Context, l launch) (*process, error) {
	key := l.key()
	for {
		s, first, err := b.join(key)
		if err != nil {
			return nil, err
		}
		if first {
			return b.fill(ctx, s, l)
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			b.leave(s)
			return nil, context.Cause(ctx)
		}
		if s.err == nil {
			return s.p, nil
		}
		b.leave(s)
		if !s.canceled() {
			return nil, s.err
		}
		// Whoever began the start was canceled, which is not our affair.
	}
}

func (s *slot) canceled() bool {
	var c canceledStart
	return errors.As(s.err, &c)
}

// canceledStart is the failure of a start whose run was canceled.
type canceledStart struct{ cause error }

func (c canceledStart) Error() string { return "the start was canceled: " + c.cause.Error() }
func (c canceledStart) Unwrap() error { return c.cause }

// join takes a place in a slot; first: the caller must fill it.
func (b *Backend) join(key string) (s *slot, first bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, false, errClosed
	}
	s = b.pool[key]
	if s == nil {
		s, first = &slot{key: key, ready: make(chan struct{})}, true
		b.pool[key] = s
	}
	s.refs++
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	return s, first, nil
}

func (b *Backend) fill(ctx context.Context, s *slot, l launch) (*process, error) {
	p, err := b.start(ctx, l, s)
	if err != nil && ctx.Err() != nil {
		err = canceledStart{context.Cause(ctx)}
	}
	b.mu.Lock()
	s.p, s.err = p, err
	if err != nil && b.pool[s.key] == s {
		delete(b.pool, s.key)
	}
	closed := b.closed
	b.mu.Unlock()
	close(s.ready)
	if err != nil {
		return nil, err
	}
	if closed { // Close has looked at a slot that was not filled yet
		p.end(ctx)
		return nil, errClosed
	}
	return p, nil
}

// leave gives a place back. A process that nobody uses is ended after a while:
// the next conversation may come soon, and a start is seconds of CPU.
func (b *Backend) leave(s *slot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.refs--
	if s.refs > 0 || s.p == nil || b.closed || !b.runsLocked(s) {
		return
	}
	linger := max(b.o.Linger, 0)
	if b.shunned[s] {
		linger = 0
	}
	s.timer = time.AfterFunc(linger, func() { b.expire(s) })
}

// expire ends a process that was not used for a while. It runs on its timer's
// goroutine, which Close waits for.
func (b *Backend) expire(s *slot) {
	b.mu.Lock()
	if s.refs > 0 || b.closed || !b.runsLocked(s) {
		b.mu.Unlock()
		return
	}
	b.dropLocked(s)
	b.ending.Add(1)
	b.mu.Unlock()
	defer b.ending.Done()
	s.p.end(context.Background())
}

// drop forgets a process that has ended by itself.
func (b *Backend) drop(s *slot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropLocked(s)
}

func (b *Backend) dropLocked(s *slot) {
	delete(b.shunned, s)
	if b.pool[s.key] == s {
		delete(b.pool, s.key)
	}
}

// runsLocked reports whether a process has not ended, and nobody ends it.
func (b *Backend) runsLocked(s *slot) bool { return b.pool[s.key] == s || b.shunned[s] }

// Close implements backends.Backend: it ends the processes.
func (b *Backend) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	all := slices.AppendSeq(slices.Collect(maps.Values(b.pool)), maps.Keys(b.shunned))
	unpack := b.unpack
	b.mu.Unlock()
	if unpack != nil {
		unpack.cancel()
		unpack.done.Wait()
	}
	var ends sync.WaitGroup
	for _, s := range all {
		if s.timer != nil {
			s.timer.Stop()
		}
		ends.Go(func() {
			select {
			case <-s.ready:
				if s.p != nil {
					s.p.end(ctx)
				}
			case <-ctx.Done(): // whoever starts it sees that we are closed
			}
		})
	}
	ends.Wait()
	b.ending.Wait()
	return nil
}
