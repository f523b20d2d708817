//go:build unix

package proc

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A remote Starter asks a process with more rights, over a socket that both
// inherited. A message is its length in four bytes, then JSON; the files of a
// start travel beside its first byte.

// ask is one call; an answer has its number.
type ask struct {
	N      uint64         `json:"n"`
	Op     string         `json:"op"` // start, wait, signal, sweep, reap; cancel ends the sweep of that number
	Spec   *Spec          `json:"spec,omitempty"`
	Files  int            `json:"files,omitempty"`
	ID     ID             `json:"id,omitzero"`
	Signal syscall.Signal `json:"signal,omitempty"`
	Group  bool           `json:"group,omitempty"`
	Target *Target        `json:"target,omitempty"`
}

type reply struct {
	N      uint64 `json:"n"`
	ID     ID     `json:"id,omitzero"`
	Status Status `json:"status,omitzero"`
	Err    *fault `json:"err,omitempty"`
}

// fault is an error as plain data: callers test for errno and for a LeftError.
type fault struct {
	Text  string        `json:"text"`
	Errno syscall.Errno `json:"errno,omitempty"`
	Left  []int         `json:"left,omitempty"`
}

func newFault(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Text: err.Error()}
	var left *LeftError
	if errors.As(err, &left) {
		f.Text, f.Left = left.Cause.Error(), left.PIDs
	}
	errors.As(err, &f.Errno)
	return f
}

func (f *fault) error() error {
	switch {
	case f == nil:
		return nil
	case f.Errno != 0:
		return f.Errno
	case f.Left != nil:
		return &LeftError{PIDs: f.Left, Cause: errors.New(f.Text)}
	}
	return errors.New(f.Text)
}

const (
	maxMessage = 64 << 20 // an environment and arguments have their limits in the kernel, far below
	maxFiles   = 64
)

// errProtocol is what a peer that is not ours says.
var errProtocol = errors.New("proc: not a message of a starter")

// send writes one message. Not for two at once.
func send(conn *net.UnixConn, msg any, files []*os.File) error {
	body, err := json.Marshal(msg)
	if err != nil {
		return err
	}
	out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	out = append(out, body...)
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		n, _, err := conn.WriteMsgUnix(out, unix.UnixRights(fds...), nil)
		if err != nil {
			return err
		}
		out = out[n:]
	}
	_, err = conn.Write(out)
	return err
}

// receive reads one message into msg and returns the files beside it, which
// are the caller's.
func receive(conn *net.UnixConn, msg any) (files []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
			files = nil
		}
	}()
	var head [4]byte
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, oobn, flags, _, err := conn.ReadMsgUnix(head[:], oob)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	if files, err = rights(oob[:oobn]); err != nil {
		return files, err
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return files, fmt.Errorf("%w: files were lost; too many are open", errProtocol)
	}
	if _, err := io.ReadFull(conn, head[n:]); err != nil {
		return files, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxMessage {
		return files, errProtocol
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(conn, body); err != nil {
		return files, err
	}
	if err := json.Unmarshal(body, msg); err != nil {
		return files, fmt.Errorf("%w: %w", errProtocol, err)
	}
	return files, nil
}

func rights(oob []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "inherited"))
		}
	}
	return files, nil
}

// remote is the near end.
type remote struct {
	conn *net.UnixConn

	writing sync.Mutex // around send

	mu      sync.Mutex
	reading bool
	last    uint64
	waiting map[uint64]chan reply
	err     error // why the far end is gone
	ended   chan struct{}
}

// NewRemote makes the Starter whose far end ServeStarter serves at the other
// side of conn. An io.Closer: it closes conn, and the far end then ends every
// process that is left.
func NewRemote(conn *net.UnixConn) Starter {
	return &remote{conn: conn, waiting: map[uint64]chan reply{}, ended: make(chan struct{})}
}

// Close ends the connection and its reader.
func (r *remote) Close() error {
	r.mu.Lock()
	reading := r.reading
	r.reading = true // none begins any more
	if r.err == nil {
		r.err = ErrClosed
	}
	r.mu.Unlock()
	err := r.conn.Close()
	if reading {
		<-r.ended
	}
	return err
}

// read ends with the connection.
func (r *remote) read() {
	defer close(r.ended)
	for {
		var a reply
		files, err := receive(r.conn, &a)
		closeAll(files) // there are none
		if err != nil {
			r.fail(err)
			return
		}
		r.mu.Lock()
		ch := r.waiting[a.N]
		delete(r.waiting, a.N)
		r.mu.Unlock()
		if ch != nil {
			ch <- a
		}
	}
}

func (r *remote) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = fmt.Errorf("proc: the process that starts agents is gone: %w", err)
	}
	for n, ch := range r.waiting {
		delete(r.waiting, n)
		close(ch)
	}
}

// begin gives a call its number and the place of its answer.
func (r *remote) begin() (uint64, chan reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return 0, nil, r.err
	}
	if !r.reading {
		r.reading = true
		go r.read() // Close waits for it
	}
	r.last++
	ch := make(chan reply, 1)
	r.waiting[r.last] = ch
	return r.last, ch, nil
}

func (r *remote) write(a ask, files []*os.File) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := send(r.conn, a, files); err != nil {
		_ = r.conn.Close() // half a message may be out
		return err
	}
	return nil
}

// call asks and waits; while it does, the end of done asks the far end to stop.
func (r *remote) call(done <-chan struct{}, a ask, files []*os.File) (reply, error) {
	n, answer, err := r.begin()
	if err != nil {
		return reply{}, err
	}
	a.N = n
	if err := r.write(a, files); err != nil {
		return reply{}, err
	}
	for {
		select {
		case got, ok := <-answer:
			if !ok {
				r.mu.Lock()
				defer r.mu.Unlock()
				return reply{}, r.err
			}
			return got, got.Err.error()
		case <-done:
			done = nil
			if err := r.write(ask{N: n, Op: "cancel"}, nil); err != nil {
				return reply{}, err
			}
		}
	}
}

// Start implements Starter.
func (r *remote) Start(spec Spec, files []*os.File) (ID, error) {
	if len(files) > maxFiles {
		return ID{}, fmt.Errorf("proc: %d files are too many for one process", len(files))
	}
	a, err := r.call(nil, ask{Op: "start", Spec: &spec, Files: len(files)}, files)
	return a.ID, err
}

// Wait implements Starter.
func (r *remote) Wait(id ID) error {
	_, err := r.call(nil, ask{Op: "wait", ID: id}, nil)
	return err
}

// Signal implements Starter.
func (r *remote) Signal(id ID, sig syscall.Signal, group bool) error {
	_, err := r.call(nil, ask{Op: "signal", ID: id, Signal: sig, Group: group}, nil)
	return err
}

// Sweep implements Starter. After Close the far end has ended all there was.
func (r *remote) Sweep(ctx context.Context, t Target) error {
	_, err := r.call(ctx.Done(), ask{Op: "sweep", Target: &t}, nil)
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// Reap implements Starter.
func (r *remote) Reap(id ID) (Status, error) {
	a, err := r.call(nil, ask{Op: "reap", ID: id}, nil)
	return a.Status, err
}
