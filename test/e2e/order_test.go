//go:build linux

package e2e_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"innerd/events"
)

// checkOrder holds a whole log against the order rules of the profile.
func checkOrder(t testing.TB, log []events.Event) {
	t.Helper()
	c := &order{calls: map[string]bool{}, requests: map[string]bool{}, used: map[string]bool{}}
	for i, e := range log {
		c.at = e.ID
		if e.ID != int64(i)+1 {
			c.fault("stands in place %d", i+1)
		}
		c.event(e)
	}
	c.end(log)
	for _, f := range c.faults {
		t.Error(f)
	}
}

// order goes over a log. Only basic events count for the rules of blocks.
type order struct {
	at     int64
	faults []string

	kind     events.Type // TypeMessage or TypeReasoning while a block is open
	key      string
	text     strings.Builder
	again    bool            // a block was discarded and has not come again
	calls    map[string]bool // the agent's own that are open
	requests map[string]bool // that are open
	used     map[string]bool // ids of calls, requests and blocks
	usage    bool
	closing  bool // the last events have begun
	failed   *events.Error
	finished bool // a message with a finish_reason has come
	last     bool // session.end has come
}

func (c *order) fault(format string, args ...any) {
	if len(c.faults) < 20 {
		c.faults = append(c.faults, fmt.Sprintf("event %d: ", c.at)+fmt.Sprintf(format, args...))
	}
}

func (c *order) event(e events.Event) {
	typ := e.Type()
	if (typ == events.TypeTaskID) != (e.ID == 1) {
		c.fault("is %s", typ)
	}
	if c.last {
		c.fault("%s after session.end", typ)
	}
	if c.closing && typ != events.TypeError && typ != events.TypeEnd {
		c.fault("%s after the usage or the error", typ)
	}
	if c.failed != nil && typ != events.TypeEnd {
		c.fault("%s after session.error", typ)
	}
	c.block(e.Data)
	c.call(e.Data)
	c.request(e.Data)
	switch d := e.Data.(type) {
	case events.Usage:
		if c.usage {
			c.fault("a second usage")
		}
		c.usage, c.closing = true, true
	case events.Error:
		c.failed, c.closing = &d, true
		if d.Message == "" || d.ErrorType == "" {
			c.fault("an error without words: %+v", d)
		}
	case events.End:
		c.last = true
	}
}

// block is rules (a), (b), (c) and (e).
func (c *order) block(d events.Data) {
	switch d := d.(type) {
	case events.MessageDelta:
		c.delta(events.TypeMessage, d.MessageID, d.Delta)
	case events.ReasoningDelta:
		c.delta(events.TypeReasoning, d.ReasoningID, d.Delta)
	case events.Message:
		c.shut(events.TypeMessage, d.MessageID, d.Content)
		if c.finished && !d.Synthetic {
			c.fault("a message after the one that has the finish_reason")
		}
		c.finished = d.FinishReason != ""
	case events.Reasoning:
		c.shut(events.TypeReasoning, d.ReasoningID, d.Content)
	case events.Discarded:
		if c.kind == "" || c.key != d.MessageID+d.ReasoningID {
			c.fault("%q is discarded, but %s %q is open", d.MessageID+d.ReasoningID, c.kind, c.key)
		}
		c.kind, c.again = "", true
	default:
		if d.EventType().Basic() && c.kind != "" {
			c.fault("%s inside %s %q", d.EventType(), c.kind, c.key)
		}
	}
}

func (c *order) delta(kind events.Type, key, delta string) {
	if delta == "" {
		c.fault("an empty delta")
	}
	if c.kind == "" {
		if c.used["block "+key] {
			c.fault("the id %q is used again", key)
		}
		c.used["block "+key] = true
		c.kind, c.key, c.again = kind, key, false
		c.text.Reset()
	}
	if c.kind != kind || c.key != key {
		c.fault("a delta of %q inside %s %q", key, c.kind, c.key)
	}
	c.text.WriteString(delta)
}

func (c *order) shut(kind events.Type, key, content string) {
	switch {
	case c.kind != kind || c.key != key:
		c.fault("%s %q closes, but %s %q is open", kind, key, c.kind, c.key)
	case content == "" || content != c.text.String():
		c.fault("%s %q holds %d bytes, its deltas %d", kind, key, len(content), c.text.Len())
	}
	c.kind = ""
}

// call is the agent's own tools, rule (d).
func (c *order) call(d events.Data) {
	switch d := d.(type) {
	case events.ToolCall:
		c.fresh("call "+d.ID, d.ID)
		c.calls[d.ID] = true
	case events.ToolUpdate:
		if d.ParentID == "" && !c.calls[d.ID] {
			c.fault("output of call %q, which is not open", d.ID)
		}
	case events.ToolComplete:
		if d.ParentID == "" && !c.calls[d.ID] {
			c.fault("end of call %q, which is not open", d.ID)
		}
		delete(c.calls, d.ID)
	}
}

var callID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (c *order) fresh(key, id string) {
	if !callID.MatchString(id) {
		c.fault("the id %q", id)
	}
	if c.used[key] {
		c.fault("%s is used again", key)
	}
	c.used[key] = true
}

// request is what waits for the host: each is resolved once.
func (c *order) request(d events.Data) {
	switch d := d.(type) {
	case events.ToolRequest:
		c.open(d.ToolCallID)
		c.fresh("call "+d.ToolCallID, d.ToolCallID) // never an assistant.tool_call too
		if len(d.Arguments) == 0 || d.Arguments[0] != '{' {
			c.fault("arguments %s", d.Arguments)
		}
	case events.PermissionRequest:
		c.open(d.RequestID)
	case events.InputRequired:
		c.open(d.RequestID)
	case events.ToolResolved:
		c.resolve(d.ToolCallID)
	case events.PermissionResolved:
		c.resolve(d.RequestID)
	case events.InputResolved:
		c.resolve(d.RequestID)
	}
}

func (c *order) open(id string) {
	c.fresh("request "+id, id)
	c.requests[id] = true
}

func (c *order) resolve(id string) {
	if !c.requests[id] {
		c.fault("request %q is resolved, which is not open", id)
	}
	delete(c.requests, id)
}

// end is rule (f).
func (c *order) end(log []events.Event) {
	if len(log) == 0 {
		c.fault("there are no events")
		return
	}
	end, ok := log[len(log)-1].Data.(events.End)
	if !ok {
		c.fault("the last event is %s", log[len(log)-1].Type())
		return
	}
	if c.kind != "" || len(c.calls) > 0 || len(c.requests) > 0 {
		c.fault("open at the end: %s %q, calls %v, requests %v", c.kind, c.key, c.calls, c.requests)
	}
	completed := end.State == events.Completed
	switch {
	case completed && (!c.usage || c.failed != nil || c.again):
		c.fault("completed with usage %v, error %+v, something discarded that did not come again %v", c.usage, c.failed, c.again)
	case !completed && (c.usage || c.failed == nil):
		c.fault("%s with usage %v, error %+v", end.State, c.usage, c.failed)
	case c.failed != nil && (end.State == events.Canceled) != (c.failed.ErrorType == events.ErrCanceled):
		c.fault("%s with the error %+v", end.State, c.failed)
	case end.Reason == "":
		c.fault("an end without a reason")
	}
}
