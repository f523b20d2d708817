package proc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// idle is how long a pipe of an ended child must be empty to count as read to
// the end although a grandchild still holds it.
const idle = 300 * time.Millisecond

// output reads a pipe to its end. When the child is gone, a pipe that stays
// empty is at its end too, whoever holds it.
type output struct {
	f   *os.File
	cut atomic.Bool // read no further
}

// Read implements io.Reader.
func (o *output) Read(p []byte) (int, error) {
	for waited := false; ; waited = true {
		n, err := o.f.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			if errors.Is(err, os.ErrClosed) {
				err = io.EOF
			}
			return n, err
		}
		// The deadline may have passed while nobody read: only a wait that
		// began in this call says that the pipe is empty.
		if waited || o.cut.Load() {
			return 0, io.EOF
		}
		_ = o.f.SetReadDeadline(time.Now().Add(idle))
	}
}

// ended says that the child is gone.
func (o *output) ended() { o.expire() }

// stop ends the reading, whatever is still written.
func (o *output) stop() {
	o.cut.Store(true)
	o.expire()
}

func (o *output) expire() {
	if o.f.SetReadDeadline(time.Unix(1, 0)) != nil {
		_ = o.f.Close() // a system without deadlines on pipes
	}
}

// maxTail is how much of the end of stderr is kept, in bytes.
const maxTail = 16 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if n > maxTail {
		p = p[n-maxTail:]
	}
	if over := len(t.buf) + len(p) - maxTail; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(t.buf, []byte("\uFFFD")))
}
