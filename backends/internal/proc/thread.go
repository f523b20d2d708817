package proc

import (
	"runtime"
	"sync"
)

// thread runs functions, one after another, on one operating system thread
// that lives until close.
//
// Pdeathsig is sent when the thread that started a child ends, not when its
// process does. Threads of ordinary goroutines end whenever a goroutine that
// is locked to one returns, and a child started there would be killed in the
// middle of its work. So every child is started here: the thread ends with
// the process, or at close, when no child is left.
type thread struct {
	mu     sync.Mutex
	jobs   chan func()
	ended  chan struct{}
	closed bool
}

// do runs f and waits for it; false: the thread was closed.
func (t *thread) do(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock() // also while f runs: close waits for it
	if t.closed {
		return false
	}
	if t.jobs == nil {
		t.jobs, t.ended = make(chan func()), make(chan struct{})
		go t.loop()
	}
	done := make(chan struct{})
	t.jobs <- func() {
		defer close(done)
		f()
	}
	<-done
	return true
}

// loop ends at close. It never unlocks, so that the thread ends with it.
func (t *thread) loop() {
	defer close(t.ended)
	runtime.LockOSThread()
	for f := range t.jobs {
		f()
	}
}

func (t *thread) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	if t.jobs != nil {
		close(t.jobs)
		<-t.ended
	}
}
