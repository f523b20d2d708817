package ledger

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"innerd/events"
)

// ErrCut is how a body ended that has no [DONE].
var ErrCut = errors.New("the stream ended without [DONE]")

// Read reads a stream of frames up to its end, and takes nothing that the
// profile does not allow: an odd frame is a fault. A frame that is cut is none.
// It is nil after [DONE] and the end of the body.
func (r *Reader) Read(body io.Reader) error {
	f := frames{r: r, br: bufio.NewReaderSize(body, 64<<10)}
	for {
		if err := f.next(); err != nil {
			switch {
			case !errors.Is(err, io.EOF):
				return err
			case !f.done:
				return ErrCut
			}
			return nil
		}
	}
}

type frames struct {
	r    *Reader
	br   *bufio.Reader
	long []byte // a line that the buffer does not hold
	data []byte // of this frame
	done bool
}

// next reads one frame: an id or none, one line of data, a blank line.
func (f *frames) next() error {
	line, err := f.line()
	if err != nil {
		return err
	}
	id := int64(0)
	if text, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
		if id, err = strconv.ParseInt(string(text), 10, 64); err != nil || id < 1 {
			f.r.Fault("the id line %.80q", line)
		}
		if line, err = f.line(); err != nil {
			return cut(err)
		}
	}
	data, ok := bytes.CutPrefix(line, []byte("data: "))
	if !ok {
		f.r.Fault("a line that is no data: %.120q", line)
	}
	// The blank line is behind the data in the buffer: the data are looked at
	// only once it has come, and may have moved until then.
	f.data = append(f.data[:0], data...)
	blank, err := f.line()
	if err != nil {
		return cut(err)
	}
	if len(blank) > 0 {
		f.r.Fault("after the data a line %.120q", blank)
	}
	f.take(id, f.data)
	return nil
}

// cut is the error of a frame that is not whole.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (f *frames) line() ([]byte, error) {
	line, err := f.br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		f.long = append(f.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = f.br.ReadSlice('\n')
			f.long = append(f.long, line...)
		}
		line = f.long
	}
	if err != nil {
		if len(line) > 0 {
			err = cut(err)
		}
		return nil, err
	}
	line = line[:len(line)-1]
	for i, b := range line {
		if b < 0x20 || b >= 0x7f {
			f.r.Fault("the byte %#x at %d of %.120q", b, i, line)
			break
		}
	}
	return line, nil
}

func (f *frames) take(id int64, data []byte) {
	switch {
	case f.done:
		f.r.Fault("after [DONE]: %.120q", data)
	case string(data) == "[DONE]":
		f.done = true
	case TypeOf(data) == "":
		f.r.Fault("no event: %.120q", data)
	case TypeOf(data) == events.TypeHeartbeat:
		if id != 0 {
			f.r.Fault("a heartbeat with an id: %.120q", data)
		}
	case !bytes.HasPrefix(data, fmt.Appendf(nil, `{"id":%d,`, id)):
		f.r.Fault("the frame of id %d holds %.120q", id, data)
	default:
		f.r.Add(id, data)
	}
}
