package claudecode

import (
	"time"

	"innerd/events"
)

// opening is a turn and its input, for a process that is not ready yet.
type opening struct {
	t       *turn
	content []inBlock
}

// open sends the first input. Its turn begins when claude is ready: what it
// prints before is not the turn's.
func (p *process) open(first *opening) error {
	p.mu.Lock()
	p.next = first.t
	p.mu.Unlock()
	return p.say(first.t.uuid, first.content)
}

// opens reports whether a line is the first of the turn that waits: claude's
// first answer, which is that to initialize, or what it says of the input.
func (p *process) opens(l *line) bool {
	p.mu.Lock()
	next := p.next
	p.mu.Unlock()
	return next != nil && (l.Type == lineControlResponse && l.Response.Subtype != "error" ||
		l.Type == lineLifecycle && l.CommandUUID == next.uuid)
}

// attachNext begins the turn that waits; the reader calls it.
func (p *process) attachNext() *turn {
	p.mu.Lock()
	t := p.next
	p.mu.Unlock()
	p.attach(t)
	return t
}

// attach gives what claude prints from now on to t; it must be called before
// the input that begins t is sent, or by the reader.
func (p *process) attach(t *turn) {
	t.begin()
	p.mu.Lock()
	t.begun = !p.begins
	p.turn, p.next, p.used = t, nil, true
	p.mu.Unlock()
}

// begin says what there is to say before anything of the turn.
func (t *turn) begin() {
	t.alive() // the start is over, and was a success
	t.began = time.Now()
	for _, detail := range t.notices {
		t.emit(status(events.StateNotice, detail).Data)
	}
}
