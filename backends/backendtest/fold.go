package backendtest

import (
	"encoding/json"
	"slices"
	"strings"

	"innerd/events"
)

// folded is a turn as a reader has it in the end.
type folded struct {
	messages, reasoning []string // closed ones, and the one that was open at the end
	discarded           int
	tools               []tool
	succeeded           int
	requests            []request
	together            int
	usage               *events.Usage
	changes             []events.FileChange
	subagents           []*subagent
	states              []string
}

// subagent is another agent that the agent started.
type subagent struct {
	id, parent string // parent: the call that started it
	text       strings.Builder
	outputs    []string // of the tools it ran
	ended      bool
}

type tool struct {
	id    string
	input json.RawMessage
	end   *events.ToolComplete
}

type request struct {
	kind              events.RequestKind
	id, tool, outcome string
	input             []byte
}

func (r request) fits(w RequestWant) bool {
	return r.kind == w.Kind &&
		(w.Tool == "" || w.Tool == r.tool) &&
		(w.Input == "" || sameJSON([]byte(w.Input), r.input)) &&
		(w.Outcome == "" || w.Outcome == r.outcome)
}

// fold goes over the events of a turn.
func fold(log []events.Event) folded {
	f := &folder{nested: map[string][]string{}}
	for _, e := range log {
		f.event(e.Data)
	}
	f.keep()
	for _, s := range f.subagents {
		s.outputs = f.nested[s.parent]
	}
	return f.folded
}

type folder struct {
	folded
	thinks bool   // the open block is reasoning
	key    string // of the open block
	text   strings.Builder
	open   int                 // requests
	nested map[string][]string // outputs of tools by the call that started their sub-agent
}

func (f *folder) event(d events.Data) {
	switch d := d.(type) {
	case events.MessageDelta:
		f.delta(false, d.MessageID, d.Delta)
	case events.ReasoningDelta:
		f.delta(true, d.ReasoningID, d.Delta)
	case events.Message:
		f.close(false, d.MessageID, d.Content)
	case events.Reasoning:
		f.close(true, d.ReasoningID, d.Content)
	case events.Discarded:
		f.discarded++
		f.text.Reset()
	case events.ToolCall:
		f.tools = append(f.tools, tool{id: d.ID, input: d.Input})
	case events.ToolComplete:
		f.complete(d)
	case events.Usage:
		f.usage = &d
	case events.FileChange:
		f.changes = append(f.changes, d)
	case events.Status:
		f.states = append(f.states, d.State)
	case events.SubagentStart, events.SubagentDelta, events.SubagentComplete:
		f.subagent(d)
	default:
		f.request(d)
	}
}

func (f *folder) subagent(d events.Data) {
	switch d := d.(type) {
	case events.SubagentStart:
		f.subagents = append(f.subagents, &subagent{id: d.ID, parent: d.ParentID})
	case events.SubagentDelta:
		if s := f.subagentOf(d.ID); s != nil {
			s.text.WriteString(d.Text)
		}
	case events.SubagentComplete:
		if s := f.subagentOf(d.ID); s != nil {
			s.text.WriteString("\n" + d.Result)
			s.ended = true
		}
	}
}

func (f *folder) subagentOf(id string) *subagent {
	for _, s := range f.subagents {
		if s.id == id {
			return s
		}
	}
	return nil
}

func (f *folder) delta(thinks bool, key, text string) {
	if f.thinks != thinks || f.key != key {
		f.keep()
	}
	f.thinks, f.key = thinks, key
	f.text.WriteString(text)
}

func (f *folder) close(thinks bool, key, content string) {
	if f.text.Len() == 0 {
		f.delta(thinks, key, content)
	}
	f.keep()
}

// keep ends the block that is open, if there is one.
func (f *folder) keep() {
	if f.text.Len() == 0 {
		return
	}
	if f.thinks {
		f.reasoning = append(f.reasoning, f.text.String())
	} else {
		f.messages = append(f.messages, f.text.String())
	}
	f.text.Reset()
}

func (f *folder) complete(d events.ToolComplete) {
	if d.ParentID != "" {
		f.nested[d.ParentID] = append(f.nested[d.ParentID], d.Result)
		return
	}
	if d.Success {
		f.succeeded++
	}
	// From the end: an id may come again once its call has ended.
	for i, t := range slices.Backward(f.tools) {
		if t.id == d.ID {
			f.tools[i].end = &d
			return
		}
	}
}

func (f *folder) request(d events.Data) {
	switch d := d.(type) {
	case events.ToolRequest:
		f.asked(request{kind: events.KindTool, id: d.ToolCallID, tool: d.ToolName, input: d.Arguments})
	case events.PermissionRequest:
		f.asked(request{kind: events.KindPermission, id: d.RequestID, tool: d.Tool, input: d.Input})
	case events.InputRequired:
		f.asked(request{kind: events.KindQuestion, id: d.RequestID})
	case events.ToolResolved:
		f.resolved(d.ToolCallID, d.Outcome)
	case events.PermissionResolved:
		f.resolved(d.RequestID, d.Outcome)
	case events.InputResolved:
		f.resolved(d.RequestID, d.Outcome)
	}
}

func (f *folder) asked(r request) {
	f.requests = append(f.requests, r)
	f.open++
	f.together = max(f.together, f.open)
}

func (f *folder) resolved(id, outcome string) {
	for i := range f.requests {
		if f.requests[i].id == id {
			f.requests[i].outcome = outcome
			f.open--
		}
	}
}
