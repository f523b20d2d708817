package runs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"innerd/events"
	"innerd/events/journal"
	"innerd/runs"
)

// What closes a run is made of its events, whatever they are.
func TestWhatIsLeftOpen(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := append([]events.Data{events.TaskID{TaskID: "run-0001"}}, rapid.SliceOfN(rapid.Custom(someEvent), 0, 60).Draw(rt, "events")...)
		s, err := journal.Open("", &journal.Options{Logger: discard})
		if err != nil {
			rt.Fatal(err)
		}
		l, err := s.Create(journal.RunMeta{ID: "run-0001"})
		if err != nil {
			rt.Fatal(err)
		}
		for _, d := range list {
			if _, err := l.Append(d); err != nil {
				rt.Fatal(err)
			}
		}
		if diff := cmp.Diff(stillOpen(list), closedBy(runs.Closing(l)), cmpopts.EquateEmpty()); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func someEvent(t *rapid.T) events.Data {
	id := fmt.Sprint("id", rapid.IntRange(0, 5).Draw(t, "id"))
	text := rapid.OneOf(rapid.String(), rapid.Just("\u2028\"\\\n😀")).Draw(t, "text")
	return rapid.SampledFrom([]events.Data{
		events.MessageDelta{MessageID: id, Delta: text},
		events.ReasoningDelta{ReasoningID: id, Delta: text},
		events.Message{MessageID: id, Content: text},
		events.Reasoning{ReasoningID: id, Content: text},
		events.Discarded{MessageID: id},
		events.ToolCall{ID: "c" + id, Name: text},
		events.ToolComplete{ID: "c" + id},
		events.ToolUpdate{ID: "c" + id, Output: text},
		events.ToolRequest{ToolCallID: "r" + id},
		events.ToolResolved{ToolCallID: "r" + id},
		events.PermissionRequest{RequestID: "p" + id},
		events.PermissionResolved{RequestID: "p" + id},
		events.InputRequired{RequestID: "q" + id, Message: text},
		events.InputResolved{RequestID: "q" + id},
		events.Status{State: events.StateNotice, Detail: text},
	}).Draw(t, "event")
}

// stillOpen says in words what a list of events leaves open.
func stillOpen(list []events.Data) (open []string) {
	block, text := "", ""
	begin := func(b, delta string) {
		if b != block {
			block, text = b, ""
		}
		text += strings.ToValidUTF8(delta, "\ufffd")
	}
	begins := func(id string) { open = append(slices.DeleteFunc(open, func(s string) bool { return s == id }), id) }
	ends := func(id string) { open = slices.DeleteFunc(open, func(s string) bool { return s == id }) }
	for _, d := range list {
		switch v := d.(type) {
		case events.MessageDelta:
			begin("message "+v.MessageID, v.Delta)
		case events.ReasoningDelta:
			begin("reasoning "+v.ReasoningID, v.Delta)
		case events.Message, events.Reasoning, events.Discarded:
			block, text = "", ""
		case events.ToolCall:
			begins(v.ID)
		case events.ToolComplete:
			ends(v.ID)
		case events.ToolRequest:
			begins(v.ToolCallID)
		case events.ToolResolved:
			ends(v.ToolCallID)
		case events.PermissionRequest:
			begins(v.RequestID)
		case events.PermissionResolved:
			ends(v.RequestID)
		case events.InputRequired:
			begins(v.RequestID)
		case events.InputResolved:
			ends(v.RequestID)
		}
	}
	slices.Sort(open)
	if block != "" {
		open = append(open, block+": "+text)
	}
	return open
}

// closedBy says the same of the events that close it.
func closedBy(list []events.Data) (open []string) {
	block := ""
	for _, d := range list {
		switch v := d.(type) {
		case events.Message:
			block = "message " + v.MessageID + ": " + v.Content
		case events.Reasoning:
			block = "reasoning " + v.ReasoningID + ": " + v.Content
		case events.ToolComplete:
			open = append(open, v.ID)
		case events.ToolResolved:
			open = append(open, v.ToolCallID)
		case events.PermissionResolved:
			open = append(open, v.RequestID)
		case events.InputResolved:
			open = append(open, v.RequestID)
		}
	}
	slices.Sort(open)
	if block != "" {
		open = append(open, block)
	}
	return open
}
