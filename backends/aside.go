package backends

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"

	"innerd/events"
)

// Aside runs what a turn does beside the goroutine that reads its agent: above
// all, it waits for the host. A panic there ends the turn with an *Error of
// type internal, and nothing else.
type Aside struct {
	log  *slog.Logger
	fail context.CancelCauseFunc
	wg   sync.WaitGroup
}

// NewAside makes the Aside of a turn whose context fail ends.
func NewAside(log *slog.Logger, fail context.CancelCauseFunc) *Aside {
	return &Aside{log: log, fail: fail}
}

// Go runs f on a goroutine of its own; the caller says what ends it.
func (a *Aside) Go(f func()) {
	a.wg.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				a.log.Error("panic beside a turn", "panic", p, "stack", string(debug.Stack()))
				a.fail(Panicked(p))
			}
		}()
		f()
	})
}

// Wait waits for all that runs.
func (a *Aside) Wait() { a.wg.Wait() }

// Panicked is the error of a run in which innerd itself failed with p.
func Panicked(p any) *Error {
	return &Error{Type: events.ErrInternal, Message: fmt.Sprintf("innerd failed: %v", p)}
}

// LastWords is the last line that a process has written to stderr, as text:
// what was meant for a terminal is left out of it. "" where it said nothing.
func LastWords(stderr string) string {
	lines := strings.Split(plain(stderr), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if line := strings.TrimSpace(lines[i]); line != "" {
			return line
		}
	}
	return ""
}

// plain leaves out control sequences (ESC [ … letter, ESC ] … BEL or ESC \,
// ESC and one character) and control characters; a line that was written over
// by another becomes two.
func plain(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == 0x1b:
			i += sequence(s[i:]) - 1
		case c == '\n' || c == '\r':
			b.WriteByte('\n')
		case c == '\t':
			b.WriteByte(' ')
		case c >= ' ' && c != 0x7f:
			b.WriteByte(c)
		}
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// sequence is the length of the control sequence that s begins with.
func sequence(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
		}
		return len(s)
	case ']':
		for i := 2; i < len(s); i++ {
			switch {
			case s[i] == 0x07:
				return i + 1
			case s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\':
				return i + 2
			case s[i] == '\n':
				return i // it has no end
			}
		}
		return len(s)
	}
	return 2
}
