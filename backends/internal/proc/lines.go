package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

const (
	// DefaultMaxLine is the longest line that is delivered, in bytes.
	DefaultMaxLine = 64 << 20
	// keepLine is the largest buffer that is kept for the next long line.
	keepLine = 1 << 20
)

// ReadLines calls line for each line of r, without its LF, and for what stands
// after the last one; the slice is valid during the call. Any byte may be in a
// line. One longer than max (0: DefaultMaxLine) is left out: notice, which may
// be nil, is told, and the next line comes as ever. It returns nil at io.EOF,
// else r's error.
//
// bufio.Scanner would end for good at a line that is too long, and a decoder
// of JSON at one that is none; agents print warnings between their JSON.
func ReadLines(r io.Reader, max int, line func([]byte), notice func(string)) error {
	if max <= 0 {
		max = DefaultMaxLine
	}
	br := bufio.NewReaderSize(r, 64<<10)
	var long []byte // the line so far, when it is longer than br's buffer
	skip := false   // this line is too long
	for {
		piece, err := br.ReadSlice('\n')
		end := err == nil
		if end {
			piece = piece[:len(piece)-1]
		}
		if !skip && len(long)+len(piece) > max {
			skip = true
			if notice != nil {
				notice(tooLong(long, piece, max))
			}
			long = nil
		}
		switch {
		case skip:
			skip = !end
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, piece...)
		case len(long) > 0:
			long = append(long, piece...)
			line(long)
			if long = long[:0]; cap(long) > keepLine {
				long = nil
			}
		case end || len(piece) > 0:
			line(piece)
		}
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

func tooLong(long, piece []byte, max int) string {
	begin := long
	if len(begin) == 0 {
		begin = piece
	}
	return fmt.Sprintf("a line of more than %d bytes was left out; it begins with %q", max, begin[:min(len(begin), 80)])
}
