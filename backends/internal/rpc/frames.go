package rpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	defaultMaxFrame = 64 << 20
	// keepFrame is the largest buffer that is kept for the next message.
	keepFrame = 1 << 20
	// maxHeader is more than the longest header with a length.
	maxHeader = 64
)

var lengthHeader = []byte("content-length:")

// frame puts a message into its frame.
func frame(f Framing, body []byte) []byte {
	if f == Lines {
		return append(body, '\n') // JSON as we encode it has no line ends inside
	}
	return append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(body)), body...)
}

// ReadFrames handles Content-Length frames until r ends; nil at io.EOF between
// two of them. What stands between frames, a warning of a library say, is
// garbage and passed over; so is a message that is too long.
func (p *Peer) ReadFrames(r io.Reader) error {
	br := bufio.NewReaderSize(r, 64<<10)
	max := p.o.MaxFrame
	if max <= 0 {
		max = defaultMaxFrame
	}
	var body bytes.Buffer
	for {
		n, err := p.readHeader(br)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if n > int64(max) {
			p.garbage("a message that is too long", strconv.AppendInt(nil, n, 10))
			if _, err := io.CopyN(io.Discard, br, n); err != nil {
				return unexpected(err)
			}
			continue
		}
		// Grown by what comes, not by what was promised.
		body.Reset()
		if _, err := io.CopyN(&body, br, n); err != nil {
			return unexpected(err)
		}
		p.Handle(body.Bytes())
		if body.Cap() > keepFrame {
			body = bytes.Buffer{}
		}
	}
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readLine reads one line. One that is longer than the buffer is garbage, but
// for its end: a header may stand there that was written behind it.
func (p *Peer) readLine(br *bufio.Reader) ([]byte, error) {
	piece, err := br.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return piece, err
	}
	p.garbage("a line that is too long between messages", piece)
	var end []byte
	for errors.Is(err, bufio.ErrBufferFull) {
		end = append(end[:0], piece[len(piece)-maxHeader:]...)
		piece, err = br.ReadSlice('\n')
	}
	return append(end, piece...), err
}

// readHeader reads to the empty line that ends a header with a length.
func (p *Peer) readHeader(br *bufio.Reader) (int64, error) {
	n := int64(-1)
	for {
		line, err := p.readLine(br)
		text := bytes.TrimRight(line, "\r\n")
		switch at := bytes.Index(lower(text), lengthHeader); {
		case at >= 0:
			// What was written without an LF stands before it.
			if at > 0 {
				p.garbage("between messages", text[:at])
			}
			n = parseLength(text[at+len(lengthHeader):])
			if n < 0 {
				p.garbage("between messages", text)
			}
		case len(text) > 0:
			// Another header, or garbage, after which nothing counts.
			if !isHeader(text) {
				p.garbage("between messages", text)
				n = -1
			}
		case n >= 0 && err == nil:
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// isHeader knows the one other header that is in use, Content-Type.
func isHeader(text []byte) bool { return bytes.HasPrefix(lower(text), []byte("content-type:")) }

// lower is bytes.ToLower for ASCII alone, so that positions stay what they are.
func lower(b []byte) []byte {
	out := bytes.Clone(b)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return out
}

// parseLength is -1 for what is no length.
func parseLength(b []byte) int64 {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 62)
	if err != nil {
		return -1
	}
	return int64(n)
}
