//go:build linux

package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"innerd/events"
)

// tape is what one reader of a run got, byte for byte. It reads frames itself,
// and takes nothing that the profile does not allow.
type tape struct {
	name string
	on   func(events.Event) // called with every event as it comes; may be nil

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever something below changes
	lines   map[int64]string
	ids     []int64
	all     []events.Event
	beats   int
	done    bool  // [DONE] came
	err     error // how the body ended; nil while it runs, and after a clean end
	over    bool
	faults  []string
}

func newTape(name string, on func(events.Event)) *tape {
	return &tape{name: name, on: on, changed: make(chan struct{}), lines: map[int64]string{}}
}

func (p *tape) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *tape) fault(format string, args ...any) {
	p.update(func() {
		if len(p.faults) < 20 {
			p.faults = append(p.faults, p.name+": "+fmt.Sprintf(format, args...))
		}
	})
}

// read reads a body to its end.
func (p *tape) read(body io.Reader) {
	br := bufio.NewReaderSize(body, 64<<10)
	for {
		id, data, err := p.frame(br)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			p.update(func() { p.over, p.err = true, err })
			return
		}
		p.take(id, data)
	}
}

// frame reads one frame: an id or none, one line of data, a blank line. A
// frame that is cut is none.
func (p *tape) frame(br *bufio.Reader) (id int64, data string, err error) {
	line, err := p.line(br)
	if err != nil {
		return 0, "", err
	}
	if text, ok := strings.CutPrefix(line, "id: "); ok {
		if id, err = strconv.ParseInt(text, 10, 64); err != nil || id < 1 {
			p.fault("the id line %q", line)
		}
		if line, err = p.line(br); err != nil {
			return 0, "", err
		}
	}
	data, ok := strings.CutPrefix(line, "data: ")
	if !ok {
		p.fault("a line that is no data: %.200q", line)
	}
	blank, err := p.line(br)
	if blank != "" {
		p.fault("after the data a line %.200q", blank)
	}
	return id, data, err
}

func (p *tape) line(br *bufio.Reader) (string, error) {
	raw, err := br.ReadBytes('\n')
	if err != nil {
		if len(raw) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return "", err
	}
	raw = raw[:len(raw)-1]
	for _, c := range raw {
		if c < 0x20 || c >= 0x7f {
			p.fault("the byte %#x in a line", c)
			break
		}
	}
	return string(raw), nil
}

func (p *tape) take(id int64, data string) {
	if data == "[DONE]" {
		p.update(func() { p.done = true })
		return
	}
	if p.done {
		p.fault("after [DONE]: %.200q", data)
	}
	e, err := events.ParseLine([]byte(data))
	switch {
	case err != nil:
		p.fault("%v: %.200q", err, data)
		return
	case e.Type() == events.TypeHeartbeat:
		if id != 0 || e.ID != 0 {
			p.fault("a heartbeat with an id: %s", data)
		}
		p.update(func() { p.beats++ })
		return
	case e.ID != id:
		p.fault("the frame of id %d holds %.200q", id, data)
	case id <= p.last():
		p.fault("id %d after %d", id, p.last())
	}
	p.update(func() {
		p.ids, p.lines[id], p.all = append(p.ids, id), data, append(p.all, e)
	})
	if p.on != nil {
		p.on(e)
	}
}

// last is the id of the last event; only for the reading goroutine.
func (p *tape) last() int64 {
	if len(p.ids) == 0 {
		return 0
	}
	return p.ids[len(p.ids)-1]
}

// lastID is the id of the last event so far.
func (p *tape) lastID() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last()
}

// events are those that have come so far.
func (p *tape) events() []events.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// taskID is the run's id.
func (p *tape) taskID() string {
	if all := p.events(); len(all) > 0 {
		if d, ok := all[0].Data.(events.TaskID); ok {
			return d.TaskID
		}
	}
	return ""
}

// end is how the run ended, or nil.
func (p *tape) end() *events.End {
	if all := p.events(); len(all) > 0 {
		if d, ok := all[len(all)-1].Data.(events.End); ok {
			return &d
		}
	}
	return nil
}

// failure is the run's error, or nil.
func (p *tape) failure() *events.Error {
	for _, e := range p.events() {
		if d, ok := e.Data.(events.Error); ok {
			return &d
		}
	}
	return nil
}

// ended waits until the body is over. The error is how.
func (p *tape) ended(ctx context.Context) error {
	err := p.await(ctx, func() bool { return p.over })
	if err != nil {
		return fmt.Errorf("%s: the stream does not end: %w", p.name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// await waits until is, called under the lock, says so, or the body is over.
func (p *tape) await(ctx context.Context, is func() bool) error {
	for {
		p.mu.Lock()
		ok, over, changed := is(), p.over, p.changed
		p.mu.Unlock()
		switch {
		case ok:
			return nil
		case over:
			return fmt.Errorf("%s: the stream is over", p.name)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s, at event %d: %w", p.name, p.lastID(), context.Cause(ctx))
		}
	}
}

// until waits for the first event of a type.
func (p *tape) until(t testing.TB, typ events.Type) events.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	find := func() int { return slices.IndexFunc(p.all, func(e events.Event) bool { return e.Type() == typ }) }
	if err := p.await(ctx, func() bool { return find() >= 0 }); err != nil {
		t.Fatalf("waiting for %s: %v\n%s", typ, err, p)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[find()]
}

// whole fails the test unless the body ended as it must and nothing was odd.
func (p *tape) whole(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	err := p.ended(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || !p.done {
		t.Errorf("%s: after event %d the body ended with %v, [DONE] %v", p.name, p.last(), err, p.done)
	}
	for _, f := range p.faults {
		t.Error(f)
	}
}

func (p *tape) String() string {
	var b strings.Builder
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, id := range p.ids {
		if i == 40 && len(p.ids) > 80 {
			fmt.Fprintf(&b, "  … %d more …\n", len(p.ids)-80)
		}
		if i < 40 || i >= len(p.ids)-40 {
			fmt.Fprintf(&b, "  %.300s\n", p.lines[id])
		}
	}
	return b.String()
}

// post starts a run and reads its stream beside the test.
func (s *server) post(b body, on func(events.Event)) *tape {
	s.t.Helper()
	return s.record("the POST", on, http.MethodPost, "/message:stream", b)
}

// follow reads a run's events after an id beside the test.
func (s *server) follow(name, taskID string, after int64) *tape {
	s.t.Helper()
	return s.record(name, nil, http.MethodGet, "/tasks/"+taskID+"/events", nil, "Last-Event-ID", strconv.FormatInt(after, 10))
}

func (s *server) record(name string, on func(events.Event), method, path string, b any, header ...string) *tape {
	s.t.Helper()
	p := newTape(name, on)
	resp, err := s.stream(s.t.Context(), method, path, b, header...)
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	if resp.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(resp.Body) // only for the message
		_ = resp.Body.Close()
		s.t.Fatalf("%s: status %d: %s", name, resp.StatusCode, answer)
	}
	over := make(chan struct{})
	go func() { // ends with the body, at the latest when the test's context ends
		defer close(over)
		defer resp.Body.Close() //nolint:errcheck // only read
		p.read(resp.Body)
	}()
	s.t.Cleanup(func() { <-over })
	return p
}

// journal is a run's log on disk by id.
func (s *server) journal(taskID string) map[int64]string {
	s.t.Helper()
	out := map[int64]string{}
	files, _ := filepath.Glob(filepath.Join(s.state, "runs", taskID, "*.jsonl"))
	if len(files) == 0 {
		s.t.Errorf("run %q has no log on disk", taskID)
	}
	for _, path := range files { // named by their first ids, so in order
		raw, err := os.ReadFile(path)
		if err != nil {
			s.t.Error(err)
		}
		if len(raw) > 0 && raw[len(raw)-1] != '\n' {
			s.t.Errorf("%s: the last line is not whole", path)
		}
		for line := range bytes.Lines(raw) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			e, err := events.ParseLine(line)
			if err != nil || e.ID != int64(len(out))+1 {
				s.t.Errorf("%s: line %d: %v: %.200q", path, len(out)+1, err, line)
				return out
			}
			out[e.ID] = string(line)
		}
	}
	return out
}

// equal fails the test where a reader saw what the log does not have, or has
// otherwise. What is complete must have seen every event.
func (s *server) equal(journal map[int64]string, complete bool, tapes ...*tape) {
	s.t.Helper()
	for _, p := range tapes {
		p.mu.Lock()
		bad := 0
		for _, id := range p.ids {
			if line, ok := journal[id]; !ok || line != p.lines[id] {
				if bad++; bad <= 3 {
					s.t.Errorf("%s saw as %d\n  %.300s\nthe log has\n  %.300s", p.name, id, p.lines[id], line)
				}
			}
		}
		if complete && len(p.ids) != len(journal) {
			s.t.Errorf("%s saw %d of %d events", p.name, len(p.ids), len(journal))
		}
		p.mu.Unlock()
		if bad > 0 {
			s.t.Errorf("%s: %d events are lost or changed", p.name, bad)
		}
	}
}
