//go:build linux

package faults_test

import (
	"bytes"
	"io"

	"innerd/test/proxy"
)

// place is a place in what a server says on a connection: where it is in the
// bytes so far, once it can be told. before is how far they may be passed on
// until then.
type place func(said []byte) (at, before int, found bool)

// untilFrame waits for the nth frame with an id on a connection, from 1, and
// gives where a place in it is: start is its first byte, end the line end of
// its data, before the blank line.
func untilFrame(n int, where func(said []byte, start, end int) int) place {
	return func(said []byte) (int, int, bool) {
		start := 0
		for range n {
			i := bytes.Index(said[start:], []byte("\nid: "))
			if i < 0 {
				return 0, safe(said, "\nid: "), false
			}
			start += i + 1
		}
		end := bytes.Index(said[start:], []byte("\n\n"))
		if end < 0 {
			return 0, start - 1, false
		}
		return where(said, start, start+end), 0, true
	}
}

// untilText waits for a text, and gives the place so many bytes behind its
// beginning.
func untilText(text string, behind int) place {
	return func(said []byte) (int, int, bool) {
		i := bytes.Index(said, []byte(text))
		switch {
		case i < 0:
			return 0, safe(said, text), false
		case len(said) < i+behind:
			return 0, i, false
		}
		return i + behind, 0, true
	}
}

// safe is how much of it can be passed on while a text is waited for: all but
// what may be the text's beginning. More must not be held, for a host answers
// what it has read.
func safe(said []byte, text string) int {
	for n := min(len(said), len(text)-1); n > 0; n-- {
		if string(said[len(said)-n:]) == text[:n] {
			return len(said) - n
		}
	}
	return len(said)
}

// afterLine is where the next line begins.
func afterLine(said []byte, from int) int { return from + bytes.IndexByte(said[from:], '\n') + 1 }

// inFrame are the kinds of places in a frame.
var inFrame = map[string]func(said []byte, start, end int) int{
	"in the chunk's head, or what stands for it": func(_ []byte, start, _ int) int { return start - 1 },
	"before the id":               func(_ []byte, start, _ int) int { return start },
	"in id:":                      func(_ []byte, start, _ int) int { return start + 2 },
	"in the number":               func(said []byte, start, _ int) int { return afterLine(said, start) - 2 },
	"before the id's line end":    func(said []byte, start, _ int) int { return afterLine(said, start) - 1 },
	"between id and data":         afterID(0),
	"in data:":                    afterID(3),
	"before the data":             afterID(6),
	"in the event's id":           afterID(12),
	"in the data":                 func(said []byte, start, end int) int { return (afterLine(said, start) + end) / 2 },
	"before the data's last byte": func(_ []byte, _, end int) int { return end - 1 },
	"before the data's line end":  func(_ []byte, _, end int) int { return end },
	"in the blank line":           func(_ []byte, _, end int) int { return end + 1 },
	"after the blank line":        func(_ []byte, _, end int) int { return end + 2 },
}

func afterID(n int) func(said []byte, start, end int) int {
	return func(said []byte, start, _ int) int { return afterLine(said, start) + n }
}

// elsewhere are the kinds of places that a connection has once.
var elsewhere = map[string]place{
	"before the head":      func([]byte) (int, int, bool) { return 0, 0, true },
	"in the status line":   untilText("HTTP/1.1 ", 6),
	"in the head":          untilText("\r\n", 9),
	"before the body":      untilText("\r\n\r\n", 4),
	"before [DONE]":        untilText("data: [DONE]", 0),
	"in [DONE]":            untilText("data: [DONE]", 9),
	"after [DONE]":         untilText("data: [DONE]", 12),
	"in [DONE]'s end":      untilText("data: [DONE]\n\n", 13),
	"before the body ends": untilText("data: [DONE]\n\n", 14),
	"in the body's end":    untilText("data: [DONE]\n\n", 17),
}

// cut is a connection that breaks at a place.
func cut(at place, reset bool) proxy.Fault {
	return proxy.Fault{Pass: func(host io.Writer, srv io.Reader) (bool, bool) {
		said, passed, where := pass(host, srv, at)
		if where < 0 {
			return false, false
		}
		_, _ = host.Write(said[passed:where])
		return true, reset
	}}
}

// pass passes on what the server says up to a place. It gives all that was
// said, how much of it was passed on, and the place in it; -1 where the
// server's end came first.
func pass(host io.Writer, srv io.Reader, at place) (said []byte, passed, where int) {
	buf := make([]byte, 32<<10)
	for {
		i, before, found := at(said)
		if found {
			return said, passed, max(i, passed)
		}
		if before > passed {
			if _, err := host.Write(said[passed:before]); err != nil {
				return nil, 0, -1
			}
			passed = before
		}
		n, err := srv.Read(buf)
		said = append(said, buf[:n]...)
		if err != nil {
			_, _ = host.Write(said[passed:])
			return nil, 0, -1
		}
	}
}
