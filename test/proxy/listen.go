package proxy

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"innerd/test/contract"
)

// Checked makes a proxy that changes nothing: it passes on each byte as it
// comes, and how a connection ends. What a client is answered through it is
// compared with docs/openapi.json; what is not as it stands there fails the
// test, at its end.
func Checked(t testing.TB, to func() string) *Proxy {
	t.Helper()
	p := &Proxy{to: to, listen: &listener{}}
	p.start(t)
	return p
}

// listener hears connections. Its methods may be called at the same time.
type listener struct {
	mu      sync.Mutex
	heard   int // connections
	answers int
	faults  []error
}

// to gives what is to be read instead of the two sides of a connection, and
// what must be called when nothing more is: it returns when all is compared.
func (l *listener) to(client, srv net.Conn) (fromClient, fromServer io.Reader, over func()) {
	if l == nil {
		return client, srv, func() {}
	}
	asked, answered := newQueue(), newQueue()
	done := make(chan struct{})
	go func() { // ends with both queues; over waits for it
		defer close(done)
		l.add(contract.Listen(asked, answered, l.fault))
	}()
	return io.TeeReader(client, asked), io.TeeReader(srv, answered), func() {
		asked.close()
		answered.close()
		<-done
	}
}

func (l *listener) add(answers int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard++
	l.answers += answers
}

func (l *listener) fault(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, err)
}

// tell fails the test with what was wrong, when no connection is left.
func (l *listener) tell(t testing.TB) {
	t.Helper()
	for _, err := range l.faults {
		t.Error(err)
	}
	if l.heard > 0 && l.answers == 0 && !t.Failed() {
		t.Errorf("of %d connections no answer was compared with docs/openapi.json", l.heard)
	}
}

// queue keeps what is written until it is read, however much: who writes never
// waits for who compares, which takes a second for the first answer of all.
type queue struct {
	mu     sync.Mutex
	more   sync.Cond
	kept   bytes.Buffer
	closed bool
}

func newQueue() *queue {
	q := &queue{}
	q.more.L = &q.mu
	return q
}

// Write implements io.Writer. It does not fail.
func (q *queue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.more.Signal()
	return q.kept.Write(p)
}

// Read implements io.Reader: it waits for something to be there, or the end.
func (q *queue) Read(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.kept.Len() == 0 && !q.closed {
		q.more.Wait()
	}
	return q.kept.Read(p)
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Signal()
}
