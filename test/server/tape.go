//go:build linux

package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/events"
)

// Tape is what one reader of a run gets. Its methods may be called while it
// still comes.
type Tape struct {
	t      testing.TB
	s      *Server
	hangUp func()
	over   chan struct{} // closed when the body has ended

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every event
	all     []events.Event
	lines   []string // of all
	done    bool     // [DONE] came
	err     error    // how the body ended
}

func (p *Tape) read(body io.ReadCloser) {
	defer close(p.over)
	defer body.Close() //nolint:errcheck // only read
	br := bufio.NewReaderSize(body, 1<<16)
	for {
		line, err := br.ReadString('\n')
		data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: ")
		if ok {
			p.take(data)
		}
		if err != nil {
			p.mu.Lock()
			if err != io.EOF { //nolint:errorlint // it is never wrapped
				p.err = err
			}
			p.mu.Unlock()
			return
		}
	}
}

func (p *Tape) take(data string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if data == "[DONE]" {
		p.done = true
		return
	}
	e, err := events.ParseLine([]byte(data))
	if err == nil && e.ID > 0 { // else a heartbeat
		p.all, p.lines = append(p.all, e), append(p.lines, data)
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// Events are those that have come so far.
func (p *Tape) Events() []events.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// Lines are the events as they came, as JSON.
func (p *Tape) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// Of are the data of type T that have come so far.
func Of[T any](p *Tape) (out []T) {
	for _, e := range p.Events() {
		if d, ok := e.Data.(T); ok {
			out = append(out, d)
		}
	}
	return out
}

// Until waits for the nth event, from 1, whose data are a T.
func Until[T any](p *Tape, n int) T {
	p.t.Helper()
	var found T
	p.await(fmt.Sprintf("%T number %d", found, n), func() bool {
		all := Of[T](p)
		if len(all) >= n {
			found = all[n-1]
		}
		return len(all) >= n
	})
	return found
}

func (p *Tape) await(what string, is func() bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*Soon)
	defer cancel()
	for over := false; ; {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		if is() {
			return
		}
		if over {
			p.t.Fatalf("the stream ended without %s:\n%s", what, p)
		}
		select {
		case <-changed:
		case <-p.over:
			over = true
		case <-ctx.Done():
			p.t.Fatalf("there is no %s:\n%s", what, p)
		}
	}
}

// TaskID is the run's id; it waits for it.
func (p *Tape) TaskID() string { return Until[events.TaskID](p, 1).TaskID }

// Whole waits for the end of the run, which must be a clean one of the stream.
func (p *Tape) Whole() *Tape {
	p.t.Helper()
	select {
	case <-p.over:
	case <-time.After(3 * Soon):
		p.t.Fatalf("the run does not end:\n%s", p)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done || p.err != nil {
		p.t.Errorf("the stream ended otherwise than with [DONE]: %v", p.err)
	}
	return p
}

// HangUp ends the reading and waits until it has ended.
func (p *Tape) HangUp() {
	p.hangUp()
	<-p.over
}

// Broken waits for the end of a stream whose server dies.
func (p *Tape) Broken() {
	p.t.Helper()
	select {
	case <-p.over:
	case <-time.After(Soon):
		p.t.Error("the stream of a dead server does not end")
	}
}

// End is how the run ended; of one that has not ended, the zero one.
func (p *Tape) End() (end events.End) {
	for _, e := range Of[events.End](p) {
		end = e
	}
	return end
}

// Failure is the run's error, or nil.
func (p *Tape) Failure() *events.Error {
	for _, e := range Of[events.Error](p) {
		return &e
	}
	return nil
}

// Text is all that the agent said in messages.
func (p *Tape) Text() string {
	var out []string
	for _, m := range Of[events.Message](p) {
		out = append(out, m.Content)
	}
	return strings.Join(out, "\n")
}

// Completed waits for the end, and fails the test unless it is a success.
func (p *Tape) Completed() *Tape {
	p.t.Helper()
	if end := p.Whole().End(); end.State != events.Completed {
		p.t.Errorf("the run ended as %s (%s): %+v\n%s", end.State, end.Reason, p.Failure(), p)
	}
	return p
}

// Cancel cancels the run.
func (p *Tape) Cancel() {
	p.t.Helper()
	p.s.Do(http.MethodPost, "/tasks/"+p.TaskID()+":cancel", nil, nil)
}

func (p *Tape) String() string {
	var out []string
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		out = append(out, line[:min(len(line), 400)])
	}
	if len(out) > 60 {
		out = append(append(out[:30], "…"), out[len(out)-30:]...)
	}
	return strings.Join(out, "\n")
}

// Ended is closed when the stream has ended, or after so many milliseconds.
func (p *Tape) Ended(ms int) <-chan struct{} {
	out := make(chan struct{})
	go func() { // ends after the time
		defer close(out)
		select {
		case <-p.over:
		case <-time.After(time.Duration(ms) * time.Millisecond):
		}
	}()
	return out
}
