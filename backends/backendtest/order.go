package backendtest

import (
	"fmt"
	"strings"

	"innerd/events"
)

// CheckOrder reports what breaks the rules that hold for a backend's events in
// any turn; completed says that the turn ended well. They are the order rules
// of the stream but for what the run sees to: a call or a request may come
// inside a message that is still open, and a block's key may come again once
// it was closed.
func CheckOrder(log []events.Event, completed bool) []string {
	c := &checker{calls: map[string]bool{}}
	for _, e := range log {
		c.event(e)
	}
	if completed {
		c.completed()
	} else if c.usages > 1 {
		c.fault("%d usages in one run", c.usages)
	}
	return c.faults
}

// checker goes over the events of one turn.
type checker struct {
	at     int64
	faults []string

	kind   events.Type // TypeMessage or TypeReasoning while a block is open
	key    string
	sum    strings.Builder
	calls  map[string]bool // the agent's own that are open
	usages int
	ended  bool // the usage has come
}

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < 20 {
		c.faults = append(c.faults, fmt.Sprintf("event %d: ", c.at)+fmt.Sprintf(format, args...))
	}
}

func (c *checker) event(e events.Event) {
	c.at = e.ID
	if c.ended && e.Type().Basic() && e.Type() != events.TypeUsage && e.Type() != events.TypeEnd && e.Type() != events.TypeError {
		c.fault("%s after the usage", e.Type())
	}
	switch d := e.Data.(type) {
	case events.MessageDelta:
		c.delta(events.TypeMessage, d.MessageID, d.Delta)
	case events.ReasoningDelta:
		c.delta(events.TypeReasoning, d.ReasoningID, d.Delta)
	case events.Message:
		c.close(events.TypeMessage, d.MessageID, d.Content)
	case events.Reasoning:
		c.close(events.TypeReasoning, d.ReasoningID, d.Content)
	case events.Discarded:
		c.discard(d)
	case events.ToolCall:
		if c.kind == events.TypeReasoning {
			c.fault("a call inside the block of reasoning %q", c.key)
		}
		if c.calls[d.ID] {
			c.fault("call %q begins twice", d.ID)
		}
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
	case events.Usage:
		c.usages++
		c.ended = true
	}
}

func (c *checker) delta(kind events.Type, key, delta string) {
	if delta == "" {
		c.fault("an empty delta of %q", key)
	}
	if c.kind != "" && (c.kind != kind || c.key != key) {
		c.fault("a delta of %s %q while %s %q is open", kind, key, c.kind, c.key)
	}
	if c.kind != kind || c.key != key {
		c.kind, c.key = kind, key
		c.sum.Reset()
	}
	c.sum.WriteString(delta)
}

func (c *checker) close(kind events.Type, key, content string) {
	switch {
	case c.kind == "" && content == "":
		c.fault("%s %q closes with neither delta nor content", kind, key)
	case c.kind != "" && (c.kind != kind || c.key != key):
		c.fault("%s %q closes while %s %q is open", kind, key, c.kind, c.key)
	case c.kind != "" && content != "" && content != c.sum.String():
		c.fault("%s %q has a content of %d bytes that is not the sum of its deltas, %d bytes", kind, key, len(content), c.sum.Len())
	}
	c.kind, c.key = "", ""
}

func (c *checker) discard(d events.Discarded) {
	kind, key := events.TypeMessage, d.MessageID
	if d.ReasoningID != "" {
		kind, key = events.TypeReasoning, d.ReasoningID
	}
	if c.kind != kind || c.key != key {
		c.fault("%s %q is discarded, which is not open", kind, key)
	}
	c.kind, c.key = "", ""
}

// completed checks what must hold at the end of a turn that ended well.
func (c *checker) completed() {
	if c.kind != "" {
		c.fault("%s %q is still open at the end", c.kind, c.key)
	}
	for id := range c.calls {
		c.fault("call %q has not ended", id)
	}
	if c.usages != 1 {
		c.fault("%d usages in a completed run", c.usages)
	}
}
