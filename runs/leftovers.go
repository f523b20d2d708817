package runs

import (
	"context"
	"strings"

	"innerd/events"
	"innerd/events/journal"
)

// leftovers is what a log without an end left open. Of the text it holds that
// of the open block alone, which its run held too.
type leftovers struct {
	ids   []string // of open calls and requests, oldest first, and of some that were closed
	open  map[string]func(why string) events.Data
	kind  events.Type // of the open block, TypeMessage or TypeReasoning; "": none is
	id    string
	text  strings.Builder
	long  func() // called while the text is long
	files []string
	known map[string]bool // files
	last  int64           // id of the last event
	err   events.Error
	errID int64       // of err
	end   *events.End // nil: it has none
	ts    int64       // of end
}

// longLeft is from how many bytes on an open text is closed alone: closing it
// takes some times as many, and the server that a kill for want of memory ended
// had several of them.
const longLeft = 4 << 20

// leftIn reads a log; with an error, as far as it can be read. It calls long
// where the open text is, at times.
func leftIn(ctx context.Context, log *journal.Log, long func()) (*leftovers, error) {
	left := &leftovers{long: long, last: log.Last(), open: map[string]func(string) events.Data{}, known: map[string]bool{}}
	for line, err := range log.Lines(ctx, 0, leaves) {
		if err == nil {
			err = left.see(line)
		}
		if err != nil {
			return left, err
		}
	}
	return left, nil
}

// leaves says which types say something of what is open.
func leaves(t events.Type) bool {
	switch t {
	case events.TypeMessageDelta, events.TypeReasoningDelta, events.TypeMessage, events.TypeReasoning, events.TypeDiscarded,
		events.TypeToolCall, events.TypeToolComplete, events.TypeToolRequest, events.TypeToolResolved,
		events.TypePermissionRequest, events.TypePermissionResolved, events.TypeInputRequired, events.TypeInputResolved,
		events.TypeFileChange, events.TypeError, events.TypeEnd:
		return true
	}
	return false
}

// see takes a line. What closes a block has all of its text once more, and is
// not read.
func (l *leftovers) see(line []byte) error {
	switch events.Type(events.LineType(line)) {
	case events.TypeMessage, events.TypeReasoning, events.TypeDiscarded:
		l.kind = ""
		l.text.Reset()
		return nil
	}
	e, ok := events.ParseDelta(line)
	if !ok {
		var err error
		if e, err = events.ParseLine(line); err != nil {
			return err
		}
	}
	l.event(e)
	return nil
}

func (l *leftovers) event(e events.Event) {
	switch d := e.Data.(type) {
	case events.MessageDelta:
		l.delta(events.TypeMessage, d.MessageID, d.Delta)
	case events.ReasoningDelta:
		l.delta(events.TypeReasoning, d.ReasoningID, d.Delta)
	case events.ToolCall:
		l.put(d.ID, func(why string) events.Data { return events.ToolComplete{ID: d.ID, Name: d.Name, Result: why} })
	case events.ToolComplete:
		l.drop(d.ID)
	case events.ToolRequest:
		l.put(d.ToolCallID, func(string) events.Data {
			return events.ToolResolved{ToolCallID: d.ToolCallID, Outcome: events.OutcomeCanceled}
		})
	case events.ToolResolved:
		l.drop(d.ToolCallID)
	case events.PermissionRequest:
		l.put(d.RequestID, func(string) events.Data {
			return events.PermissionResolved{RequestID: d.RequestID, Outcome: events.OutcomeCanceled, By: "policy"}
		})
	case events.PermissionResolved:
		l.drop(d.RequestID)
	case events.InputRequired:
		l.put(d.RequestID, func(string) events.Data {
			return events.InputResolved{RequestID: d.RequestID, Outcome: events.OutcomeCanceled}
		})
	case events.InputResolved:
		l.drop(d.RequestID)
	case events.FileChange:
		if !l.known[d.Path] {
			l.known[d.Path] = true
			l.files = append(l.files, d.Path)
		}
	case events.Error:
		l.err, l.errID = d, e.ID
	case events.End:
		l.end, l.ts = &d, e.TS
	}
}

func (l *leftovers) put(id string, end func(string) events.Data) {
	l.open[id] = end
	l.ids = append(l.ids, id)
}

func (l *leftovers) drop(id string) {
	delete(l.open, id)
	if len(l.open) == 0 {
		l.ids = l.ids[:0]
	}
}

func (l *leftovers) delta(kind events.Type, id, delta string) {
	if l.kind != kind || l.id != id {
		l.kind, l.id = kind, id
		l.text.Reset()
	}
	if l.text.WriteString(delta); l.text.Len() > longLeft {
		l.long()
	}
}

// failed is the error that the log ends with: but for the end itself all of the
// run's was written.
func (l *leftovers) failed() (events.Error, bool) {
	return l.err, l.errID > 0 && l.errID == l.last
}

// close is the events that close what is open; before them stands the one that
// every run begins with, where the log has none.
func (l *leftovers) close(log *journal.Log, why string) []events.Data {
	var out []events.Data
	if l.last == 0 {
		m := log.Meta()
		out = append(out, events.TaskID{TaskID: m.ID, ContextID: m.ContextID, Backend: m.Backend})
	}
	for _, id := range l.ids {
		if end := l.open[id]; end != nil {
			out = append(out, end(why))
			delete(l.open, id)
		}
	}
	switch l.kind {
	case events.TypeMessage:
		out = append(out, events.Message{Content: l.text.String(), MessageID: l.id, Partial: true})
	case events.TypeReasoning:
		out = append(out, events.Reasoning{Content: l.text.String(), ReasoningID: l.id})
	}
	return out
}
