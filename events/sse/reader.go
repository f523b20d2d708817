// Package sse reads and writes frames of server-sent events. It knows nothing
// of runs.
package sse

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// DefaultMaxBytes is how long a frame may be when Options say nothing: more
// than any body that a server takes.
const DefaultMaxBytes = 256 << 20

// ErrTooLong says that a frame is longer than Options.MaxBytes. The stream
// can't be read any further.
var ErrTooLong = errors.New("sse: frame too long")

// Options of a Reader.
type Options struct {
	MaxBytes int // of the lines of one frame; 0: DefaultMaxBytes
}

// Frame is one event of a stream.
type Frame struct {
	ID    string // its own id, "" if it has none
	Event string // its type, "" if it says none
	Data  []byte // its data lines, joined by LF; valid until the next call of Next
}

const done = "[DONE]"

// Done reports whether the frame is the mark that ends a run's stream.
func (f Frame) Done() bool { return string(f.Data) == done }

// Reader reads frames as the standard says: lines end with LF, CR LF or CR and
// nothing else, a byte order mark at the beginning and comments are skipped. It
// returns a frame as soon as the bytes of it are there. One goroutine uses it.
type Reader struct {
	r    io.Reader
	max  int
	buf  []byte
	at   int   // buf[at:] is not read yet
	seen int   // buf[at:seen] holds no line end
	err  error // of r, once it is over

	begun  bool // the byte order mark is behind us
	skipLF bool // the last line ended with CR
	size   int  // bytes of this frame's lines
	lastID string

	frame   Frame
	data    []byte
	hasData bool
	some    bool // the frame has a line
}

// NewReader reads from r.
func NewReader(r io.Reader, opt *Options) *Reader {
	rd := &Reader{r: r, max: DefaultMaxBytes}
	if opt != nil && opt.MaxBytes > 0 {
		rd.max = opt.MaxBytes
	}
	return rd
}

// LastID is the last id in the frames so far, for Last-Event-ID.
func (r *Reader) LastID() string { return r.lastID }

// Next reads the next frame that has data. io.EOF: the stream ended between
// frames; io.ErrUnexpectedEOF: within one, which is lost; ErrTooLong; else the
// error of the underlying reader. An error stays.
func (r *Reader) Next() (Frame, error) {
	r.reset()
	for {
		line, err := r.line()
		if errors.Is(err, io.EOF) && r.some {
			err = io.ErrUnexpectedEOF
			r.err = err
		}
		if err != nil {
			return Frame{}, err
		}
		if len(line) > 0 {
			r.field(line)
			continue
		}
		if r.hasData {
			r.frame.Data = r.data
			return r.frame, nil
		}
		r.reset()
	}
}

func (r *Reader) reset() {
	if cap(r.data) > 1<<20 {
		r.data = nil // a rare large frame does not stay
	}
	r.frame, r.data, r.hasData, r.size, r.some = Frame{}, r.data[:0], false, 0, false
}

// field takes one line of a frame.
func (r *Reader) field(line []byte) {
	r.some = true
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		if r.hasData {
			r.data = append(r.data, '\n')
		}
		r.data, r.hasData = append(r.data, value...), true
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			r.frame.ID = string(value)
			r.lastID = r.frame.ID
		}
	case "event":
		r.frame.Event = string(value)
	}
}

// line gives the next line without its end. It does not wait for what follows
// a CR: the next line is told to skip a LF.
func (r *Reader) line() ([]byte, error) {
	for {
		if r.skipLF && r.at < len(r.buf) {
			r.skipLF = false
			if r.buf[r.at] == '\n' {
				r.at++
				r.seen = max(r.seen, r.at)
			}
		}
		if !r.skipLF && r.begin() {
			if i := lineEnd(r.buf[r.seen:]); i >= 0 {
				line := r.buf[r.at : r.seen+i]
				r.skipLF = r.buf[r.seen+i] == '\r'
				r.at = r.seen + i + 1
				r.seen = r.at
				if r.size += len(line); r.size > r.max {
					return nil, r.fail(ErrTooLong)
				}
				return line, nil
			}
			r.seen = len(r.buf)
		}
		if r.size+len(r.buf)-r.at > r.max {
			return nil, r.fail(ErrTooLong)
		}
		if r.err != nil {
			r.some = r.some || r.at < len(r.buf)
			return nil, r.err
		}
		r.fill()
	}
}

func (r *Reader) fail(err error) error {
	r.err, r.buf, r.at, r.seen = err, nil, 0, 0
	return err
}

// begin skips a byte order mark once three bytes, or what can't be one, are there.
func (r *Reader) begin() bool {
	if r.begun {
		return true
	}
	const mark = "\xef\xbb\xbf"
	head := r.buf[r.at:min(r.at+len(mark), len(r.buf))]
	switch {
	case string(head) == mark:
		r.at += len(mark)
		r.seen = r.at
	case len(head) < len(mark) && string(head) == mark[:len(head)] && r.err == nil:
		return false
	}
	r.begun = true
	return true
}

// lineEnd finds the first LF or CR.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

const (
	firstBuffer = 4 << 10
	largeBuffer = 64 << 10
)

// fill reads once. Lines that were given out are not valid any more.
func (r *Reader) fill() {
	if r.at > 0 {
		n := copy(r.buf, r.buf[r.at:])
		r.buf, r.seen, r.at = r.buf[:n], r.seen-r.at, 0
		if n == 0 && cap(r.buf) > 1<<20 {
			r.buf = nil
		}
	}
	if cap(r.buf)-len(r.buf) < firstBuffer/2 {
		r.buf = slices.Grow(r.buf, max(firstBuffer, min(cap(r.buf), largeBuffer)))
	}
	for range 100 {
		n, err := r.r.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		r.err = err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}
