package backendtest_test

import (
	"slices"
	"strings"
	"testing"

	"innerd/backends/backendtest"
	"innerd/events"
)

func numbered(data ...events.Data) (log []events.Event) {
	for i, d := range data {
		log = append(log, events.Event{ID: int64(i) + 1, Data: d})
	}
	return log
}

func TestCheckOrder(t *testing.T) {
	say := func(id, s string) events.Data { return events.MessageDelta{MessageID: id, Delta: s} }
	think := func(id, s string) events.Data { return events.ReasoningDelta{ReasoningID: id, Delta: s} }
	end := func(id string) events.Data { return events.Message{MessageID: id} }
	thought := func(id string) events.Data { return events.Reasoning{ReasoningID: id} }
	call, called := events.ToolCall{ID: "c", Name: "a"}, events.ToolComplete{ID: "c"}
	usage := events.Usage{}
	for _, test := range []struct {
		name  string
		log   []events.Data
		fault string // "" is none
	}{
		{"all in order", []events.Data{think("r", "a"), thought("r"), say("m", "b"), say("m", "b"), events.Message{MessageID: "m", Content: "bb"}, call, events.ToolUpdate{ID: "c"}, called, call, called, say("m", "again"), end("m"), usage}, ""},
		{"a message that came whole", []events.Data{events.Message{MessageID: "m", Content: "b"}, usage}, ""},
		{"a status inside a message", []events.Data{say("m", "a"), events.Status{State: "working"}, say("m", "b"), end("m"), usage}, ""},
		{"a call inside a message", []events.Data{say("m", "a"), call, called, end("m"), usage}, ""},
		{"a sub-agent's tool", []events.Data{events.ToolUpdate{ID: "x", ParentID: "c"}, events.ToolComplete{ID: "x", ParentID: "c"}, usage}, ""},
		{"a discarded message", []events.Data{say("m", "a"), events.Discarded{MessageID: "m"}, say("n", "a"), end("n"), usage}, ""},
		{"two messages at once", []events.Data{say("m", "a"), say("n", "b"), end("m"), end("n"), usage}, "while"},
		{"reasoning inside a message", []events.Data{say("m", "a"), think("r", "b"), thought("r"), end("m"), usage}, "while"},
		{"a message inside reasoning", []events.Data{think("r", "b"), say("m", "a"), end("m"), usage}, "while"},
		{"a call inside reasoning", []events.Data{think("r", "b"), call, called, thought("r"), usage}, "inside the block of reasoning"},
		{"a wrong content", []events.Data{say("m", "a"), events.Message{MessageID: "m", Content: "b"}, usage}, "not the sum"},
		{"an empty message", []events.Data{end("m"), usage}, "neither"},
		{"an empty delta", []events.Data{say("m", ""), end("m"), usage}, "empty delta"},
		{"an open message", []events.Data{say("m", "a"), usage}, "still open"},
		{"an open call", []events.Data{call, usage}, "not ended"},
		{"a call twice", []events.Data{call, call, called, usage}, "twice"},
		{"an end without a call", []events.Data{called, usage}, "not open"},
		{"output without a call", []events.Data{events.ToolUpdate{ID: "c"}, usage}, "not open"},
		{"a discard of nothing", []events.Data{events.Discarded{MessageID: "m"}, usage}, "not open"},
		{"no usage", []events.Data{say("m", "a"), end("m")}, "0 usages"},
		{"two usages", []events.Data{usage, usage}, "2 usages"},
		{"text after the usage", []events.Data{usage, say("m", "a"), end("m")}, "after the usage"},
	} {
		t.Run(test.name, func(t *testing.T) {
			faults := backendtest.CheckOrder(numbered(test.log...), true)
			found := slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, test.fault) })
			if (test.fault == "" && len(faults) > 0) || (test.fault != "" && !found) {
				t.Errorf("faults %q, want %q", faults, test.fault)
			}
		})
	}
	cut := numbered(say("m", "a"), call)
	if faults := backendtest.CheckOrder(cut, false); len(faults) > 0 {
		t.Errorf("a turn that was cut: %q", faults)
	}
}

func TestCasesAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range backendtest.Cases() {
		if c.Name == "" || c.Why == "" || seen[c.Name] || len(c.Turns) == 0 {
			t.Errorf("case %q has no name, no reason, no turn, or comes twice", c.Name)
		}
		seen[c.Name] = true
		for _, turn := range append(c.Turns, c.Beside...) {
			if turn.Prompt == "" || len(turn.Steps) == 0 {
				t.Errorf("case %q has a turn without prompt or steps", c.Name)
			}
			backendtest.Script(turn.Steps) // panics where it is no JSON
		}
	}
}
