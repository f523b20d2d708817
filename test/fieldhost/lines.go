package fieldhost

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// lineReader cuts a body where Python's str.splitlines does, which is at more
// places than an SSE reader knows.
type lineReader struct {
	r *bufio.Reader
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{bufio.NewReaderSize(r, 64<<10)} }

// boundary reports whether a line ends before or at the rune.
func boundary(r rune) bool {
	switch r {
	case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}

// plain is the next line where that is whole in the buffer and nothing but its
// line feed could be an end: nearly every line, without a look at each rune.
func (l *lineReader) plain() (string, bool) {
	_, _ = l.r.Peek(1) // waits for something; what goes wrong comes again
	p, _ := l.r.Peek(l.r.Buffered())
	n := bytes.IndexByte(p, '\n')
	if n < 0 {
		return "", false
	}
	for _, c := range []byte("\r\v\f\x1c\x1d\x1e\xc2\xe2") { // the last two begin the others
		if bytes.IndexByte(p[:n], c) >= 0 {
			return "", false
		}
	}
	if !utf8.Valid(p[:n]) {
		return "", false
	}
	line := string(p[:n])
	_, _ = l.r.Discard(n + 1) // it is in the buffer
	return line, true
}

// next is the next line without its end; the last may have none. Bytes that
// are not UTF-8 become U+FFFD.
func (l *lineReader) next() (string, error) {
	if line, ok := l.plain(); ok {
		return line, nil
	}
	var b strings.Builder
	for {
		c, _, err := l.r.ReadRune()
		if err != nil {
			if errors.Is(err, io.EOF) && b.Len() > 0 {
				return b.String(), nil
			}
			return b.String(), err
		}
		if !boundary(c) {
			b.WriteRune(c)
			continue
		}
		if c == '\r' {
			if p, err := l.r.Peek(1); err == nil && p[0] == '\n' {
				_, _ = l.r.Discard(1)
			}
		}
		return b.String(), nil
	}
}
