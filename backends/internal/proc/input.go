package proc

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// maxQueue bounds what waits for a child that does not read, in bytes.
const maxQueue = 256 << 20

// input is a child's stdin: a queue and the one goroutine that writes it, so
// that whoever reads the child's output never waits for the child to read.
type input struct {
	f    *os.File
	wake chan struct{} // holds one token; sent after every change

	mu     sync.Mutex
	queue  [][]byte
	size   int  // bytes in queue and in the write under way
	closed bool // nothing more is taken
	gone   bool // nothing more is written either
}

func newInput(f *os.File) *input { return &input{f: f, wake: make(chan struct{}, 1)} }

func (in *input) send(b []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.closed:
		return ErrClosed
	case in.size+len(b) > maxQueue:
		return ErrBacklog
	}
	in.queue = append(in.queue, b)
	in.size += len(b)
	in.signal()
	return nil
}

// close lets the writer finish what waits, and then gives the child its EOF.
func (in *input) close() {
	in.mu.Lock()
	in.closed = true
	in.mu.Unlock()
	in.signal()
}

// abort drops what waits and frees a writer that is stuck.
func (in *input) abort() {
	in.mu.Lock()
	in.closed, in.gone = true, true
	in.queue, in.size = nil, 0
	in.mu.Unlock()
	_ = in.f.Close()
	in.signal()
}

func (in *input) signal() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// run writes until the input is closed, or the child reads no more: then it
// returns true.
func (in *input) run() bool {
	defer in.abort()
	for {
		b, ok := in.next()
		if !ok {
			return false
		}
		if _, err := in.f.Write(b); err != nil {
			return errors.Is(err, syscall.EPIPE)
		}
		in.mu.Lock()
		in.size = max(0, in.size-len(b))
		in.mu.Unlock()
	}
}

// next waits for the next piece; false: there will be none.
func (in *input) next() ([]byte, bool) {
	for {
		in.mu.Lock()
		if len(in.queue) > 0 {
			b := in.queue[0]
			in.queue[0] = nil
			in.queue = in.queue[1:]
			in.mu.Unlock()
			return b, true
		}
		end := in.closed
		in.mu.Unlock()
		if end {
			return nil, false
		}
		<-in.wake
	}
}
