//go:build linux

package e2e_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	on   func(events.Event) // called with events as they come, of deltas in a row with the first; may be nil

	mu      sync.Mutex
	changed chan struct{} // where somebody waits: closed at the next change
	lines   map[int64]string
	ids     []int64
	types   []events.Type  // of ids
	all     []events.Event // the first of ids, as far as somebody wanted to know
	beats   int
	done    bool  // [DONE] came
	err     error // how the body ended; nil while it runs, and after a clean end
	over    bool
	faults  []string
}

func newTape(name string, on func(events.Event)) *tape {
	return &tape{name: name, on: on, lines: map[int64]string{}}
}

func (p *tape) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
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
	if i := notASCII(raw); i >= 0 {
		p.fault("the byte %#x in a line", raw[i])
	}
	return string(raw), nil
}

// notASCII finds a byte that is no printable ASCII, or gives -1. It looks at
// eight bytes at a time: lines are long, and tests watched for races slow.
func notASCII(b []byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		below := (w - ones*0x20) & ^w & high                      // a byte under 0x20
		del := ((w ^ ones*0x7f) - ones) & ^(w ^ ones*0x7f) & high // a byte that is 0x7f
		if (w&high)|below|del != 0 {
			break
		}
	}
	for ; i < len(b); i++ {
		if b[i] < 0x20 || b[i] >= 0x7f {
			return i
		}
	}
	return -1
}

func (p *tape) take(id int64, data string) {
	if data == "[DONE]" {
		p.update(func() { p.done = true })
		return
	}
	if p.done {
		p.fault("after [DONE]: %.200q", data)
	}
	typ := typeOf(data)
	switch {
	case typ == "":
		p.fault("no event: %.200q", data)
		return
	case typ == events.TypeHeartbeat:
		if id != 0 || strings.HasPrefix(data, `{"id":`) {
			p.fault("a heartbeat with an id: %s", data)
		}
		p.update(func() { p.beats++ })
		return
	case !strings.HasPrefix(data, fmt.Sprintf(`{"id":%d,"ts":`, id)):
		p.fault("the frame of id %d holds %.200q", id, data)
	case id <= p.last():
		p.fault("id %d after %d", id, p.last())
	}
	row := (typ == events.TypeMessageDelta || typ == events.TypeReasoningDelta) && len(p.types) > 0 && p.types[len(p.types)-1] == typ
	p.update(func() { p.ids, p.lines[id], p.types = append(p.ids, id), data, append(p.types, typ) })
	if p.on != nil && !row {
		p.on(p.parse(data))
	}
}

// typeOf is the type of a line without a look at its data: floods are long.
func typeOf(line string) events.Type {
	_, rest, _ := strings.Cut(line[:min(len(line), 200)], `"type":"`)
	typ, _, ok := strings.Cut(rest, `"`)
	if !ok {
		return ""
	}
	return events.Type(typ)
}

func (p *tape) parse(line string) events.Event {
	e, err := events.ParseLine([]byte(line))
	if err != nil {
		p.fault("%v: %.200q", err, line)
		e.Data = events.Unknown{}
	}
	return e
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
	for _, id := range p.ids[len(p.all):] {
		e, err := events.ParseLine([]byte(p.lines[id]))
		if err != nil {
			p.faults = append(p.faults, fmt.Sprintf("%s: %v: %.200q", p.name, err, p.lines[id]))
			e.Data = events.Unknown{}
		}
		p.all = append(p.all, e)
	}
	return slices.Clone(p.all)
}

// first is the first event of a type.
func (p *tape) first(typ events.Type) (e events.Event, ok bool) {
	p.mu.Lock()
	i := slices.Index(p.types, typ)
	line := ""
	if i >= 0 {
		line = p.lines[p.ids[i]]
	}
	p.mu.Unlock()
	if i < 0 {
		return e, false
	}
	return p.parse(line), true
}

// taskID is the run's id.
func (p *tape) taskID() string {
	e, _ := p.first(events.TypeTaskID)
	d, _ := e.Data.(events.TaskID)
	return d.TaskID
}

// end is how the run ended, or nil.
func (p *tape) end() *events.End {
	e, _ := p.first(events.TypeEnd)
	if d, ok := e.Data.(events.End); ok {
		return &d
	}
	return nil
}

// failure is the run's error, or nil.
func (p *tape) failure() *events.Error {
	e, _ := p.first(events.TypeError)
	if d, ok := e.Data.(events.Error); ok {
		return &d
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
		ok, over := is(), p.over
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
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
	if err := p.await(ctx, func() bool { return slices.Contains(p.types, typ) }); err != nil {
		t.Fatalf("waiting for %s: %v\n%s", typ, err, p)
	}
	e, _ := p.first(typ)
	return e
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
