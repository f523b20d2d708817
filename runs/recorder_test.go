package runs

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"innerd/events"
)

// sliceLog is a log in memory.
type sliceLog struct{ got []events.Data }

func (l *sliceLog) Append(d events.Data) (int64, error) {
	l.got = append(l.got, d)
	return int64(len(l.got)), nil
}

// shape writes events short: types without prefix and what matters of each.
func shape(list []events.Data) []string {
	var out []string
	for _, d := range list {
		switch v := d.(type) {
		case events.MessageDelta:
			out = append(out, "Δ"+v.MessageID+" "+v.Delta)
		case events.ReasoningDelta:
			out = append(out, "δ"+v.ReasoningID+" "+v.Delta)
		case events.Message:
			s := "msg " + v.MessageID + " " + v.Content
			if v.Partial {
				s += " partial"
			}
			if v.Synthetic {
				s += " synthetic"
			}
			out = append(out, s)
		case events.Reasoning:
			out = append(out, "think "+v.ReasoningID+" "+v.Content)
		case events.Discarded:
			out = append(out, "discard "+v.MessageID+v.ReasoningID)
		case events.ToolCall:
			out = append(out, "call "+v.Name)
		case events.ToolComplete:
			out = append(out, "done "+v.Name+" "+v.Result)
		case events.ToolRequest:
			out = append(out, "bridge "+v.ToolName)
		case events.End:
			out = append(out, "end "+v.State+" "+v.Reason)
		case events.Error:
			out = append(out, "error "+v.ErrorType)
		default:
			out = append(out, string(d.EventType()))
		}
	}
	return out
}

func play(t *testing.T, err error, in ...events.Data) []string {
	t.Helper()
	log := &sliceLog{}
	rec := newRecorder(log, func(error) {})
	for _, d := range in {
		rec.record(d)
	}
	closing, _ := rec.seal(judge(err), "simulate", nil)
	return shape(append(log.got, closing...))
}

func TestRecorderOrder(t *testing.T) {
	crash := errors.New("gone")
	cases := map[string]struct {
		err  error
		in   []events.Data
		want []string
	}{
		"message closed with its sum": {
			in: []events.Data{
				events.MessageDelta{MessageID: "a", Delta: "ha"},
				events.MessageDelta{MessageID: "a", Delta: "ha"},
				events.Message{MessageID: "a", Content: "something else"},
			},
			want: []string{"Δm1 ha", "Δm1 ha", "msg m1 haha", "assistant.usage", "end completed end_turn"},
		},
		"message without deltas gets one": {
			in:   []events.Data{events.Message{MessageID: "a", Content: "whole"}},
			want: []string{"Δm1 whole", "msg m1 whole", "assistant.usage", "end completed end_turn"},
		},
		"a turn without text has no message": {
			in:   []events.Data{events.Message{MessageID: "a"}, events.Message{MessageID: "b", Content: "x"}},
			want: []string{"Δm1 x", "msg m1 x", "assistant.usage", "end completed end_turn"},
		},
		"reasoning is closed before text": {
			in: []events.Data{
				events.ReasoningDelta{ReasoningID: "r", Delta: "hm"},
				events.MessageDelta{MessageID: "a", Delta: "x"},
				events.Reasoning{ReasoningID: "r", Content: "hm"},
				events.Message{MessageID: "a"},
			},
			want: []string{"δr1 hm", "think r1 hm", "Δm2 x", "msg m2 x", "assistant.usage", "end completed end_turn"},
		},
		"a call closes the open message": {
			in: []events.Data{
				events.MessageDelta{MessageID: "a", Delta: "x"},
				events.ToolCall{ID: "call_0", Name: "Bash"},
				events.Message{MessageID: "a"},
				events.ToolComplete{ID: "call_0", Result: "ok"},
			},
			want: []string{"Δm1 x", "msg m1 x", "call Bash", "done Bash ok", "assistant.usage", "end completed end_turn"},
		},
		"a discarded message is said again": {
			in: []events.Data{
				events.MessageDelta{MessageID: "a", Delta: "x"},
				events.Discarded{MessageID: "a"},
				events.MessageDelta{MessageID: "b", Delta: "x y"},
				events.Message{MessageID: "b"},
			},
			want: []string{"Δm1 x", "discard m1", "Δm2 x y", "msg m2 x y", "assistant.usage", "end completed end_turn"},
		},
		"what was never shown is not discarded": {
			in:   []events.Data{events.Discarded{MessageID: "a"}, events.Message{MessageID: "b", Content: "y"}},
			want: []string{"Δm1 y", "msg m1 y", "assistant.usage", "end completed end_turn"},
		},
		"a crash closes all": {
			err: crash,
			in: []events.Data{
				events.ToolCall{ID: "call_0", Name: "Bash"}, events.MessageDelta{MessageID: "a", Delta: "x"},
			},
			want: []string{"call Bash", "Δm1 x", "done Bash execution failed: gone", "msg m1 x partial", "error internal", "end failed internal"},
		},
		"equal native ids one after the other": {
			in: []events.Data{
				events.ToolCall{ID: "call_0", Name: "A"},
				events.ToolComplete{ID: "call_0", Result: "1"},
				events.ToolCall{ID: "call_0", Name: "B"},
				events.ToolComplete{ID: "call_0", Result: "2"},
				events.Message{MessageID: "m", Content: "x"},
			},
			want: []string{"call A", "done A 1", "call B", "done B 2", "Δm1 x", "msg m1 x", "assistant.usage", "end completed end_turn"},
		},
		"silent work says so": {
			in: []events.Data{events.ToolCall{ID: "c", Name: "A"}, events.ToolComplete{ID: "c", Result: "1"}},
			want: []string{
				"call A", "done A 1", "Δm1 (no text)", "msg m1 (no text) synthetic", "assistant.usage", "end completed end_turn",
			},
		},
		"an empty turn is a failure": {
			want: []string{"error empty_turn", "end failed empty_turn"},
		},
		"a bridged call alone is an answer": {
			in:   []events.Data{events.ToolRequest{ToolCallID: "tc_1", ToolName: "t"}},
			want: []string{"bridge t", "assistant.usage", "end completed end_turn"},
		},
		"the run's own types are not a backend's": {
			in:   []events.Data{events.End{}, events.Error{}, events.TaskID{}, events.Heartbeat{}, events.Message{MessageID: "a", Content: "x"}},
			want: []string{"Δm1 x", "msg m1 x", "assistant.usage", "end completed end_turn"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, play(t, c.err, c.in...)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A run that a limit of its host's has ended before anything was said is no
// empty turn: run again, it would end the same way.
func TestRecorderLimitedTurn(t *testing.T) {
	for reason, empty := range map[string]bool{"max_cost": false, "max_turns": false, "tool_call_limit": false, "end_turn": true, "stop_sequence": true} {
		log := &sliceLog{}
		rec := newRecorder(log, func(error) {})
		_, v := rec.seal(verdict{state: events.Completed, reason: reason}, "b", nil)
		if got := v.err != nil && v.err.ErrorType == events.ErrEmptyTurn; got != empty {
			t.Errorf("%s: %+v", reason, v)
		}
		if !empty && v.reason != reason {
			t.Errorf("%s became %s", reason, v.reason)
		}
	}
}

func TestRecorderCallLimit(t *testing.T) {
	log := &sliceLog{}
	var cause error
	rec := newRecorder(log, func(err error) { cause = err })
	rec.callLimit = 1
	rec.record(events.ToolCall{ID: "1", Name: "A"})
	rec.record(events.ToolComplete{ID: "1", Result: "1"})
	if rec.over() || cause != nil {
		t.Fatal("over before the limit was passed")
	}
	rec.record(events.ToolCall{ID: "2", Name: "B"})
	if !rec.over() || !errors.Is(cause, errToolLimit) {
		t.Fatalf("the call above the limit was let in: cause %v", cause)
	}
	rec.record(events.ToolComplete{ID: "2", Result: "never ran"})
	if rec.admit() {
		t.Error("a bridged call was let in after the limit")
	}
	if got := strings.Join(shape(log.got), ","); got != "call A,done A 1" {
		t.Errorf("log: %s", got)
	}
	if v := judge(cause); v.state != events.Completed || v.reason != "tool_call_limit" {
		t.Errorf("verdict %+v", v)
	}
}

func TestRecorderSummariesUseServerIDs(t *testing.T) {
	log := &sliceLog{}
	rec := newRecorder(log, func(error) {})
	rec.record(events.ToolRequest{ToolCallID: "tc_9", NativeID: "call_0", ToolName: "t"})
	rec.record(events.Message{MessageID: "a", Content: "x", ToolCalls: []events.CallSummary{{ID: "call_0", Name: "t"}, {ID: "unknown", Name: "u"}}})
	msg := log.got[len(log.got)-1].(events.Message)
	if len(msg.ToolCalls) != 1 || msg.ToolCalls[0].ID != "tc_9" || string(msg.ToolCalls[0].Arguments) != "{}" {
		t.Errorf("tool_calls %+v", msg.ToolCalls)
	}
}

// TestRecorderKeepsItsPromises plays any order of events and checks the rules
// that hosts rely on.
func TestRecorderKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log := &sliceLog{}
		rec := newRecorder(log, func(error) {})
		key := rapid.SampledFrom([]string{"a", "b", ""})
		text := rapid.SampledFrom([]string{"x", "x", "", "y\u0085z"})
		for range rapid.IntRange(0, 40).Draw(rt, "n") {
			k, s := key.Draw(rt, "key"), text.Draw(rt, "text")
			rec.record(rapid.SampledFrom([]events.Data{
				events.MessageDelta{MessageID: k, Delta: s},
				events.ReasoningDelta{ReasoningID: k, Delta: s},
				events.Message{MessageID: k, Content: s},
				events.Reasoning{ReasoningID: k, Content: s},
				events.Discarded{MessageID: k},
				events.Discarded{ReasoningID: k},
				events.ToolCall{ID: k, Name: "n", Input: json.RawMessage(s)},
				events.ToolComplete{ID: k},
				events.ToolRequest{ToolCallID: "tc", NativeID: k},
				events.Status{State: "working"},
				events.FileChange{Path: k},
			}).Draw(rt, "event"))
		}
		var err error
		if rapid.Bool().Draw(rt, "crash") {
			err = errors.New("crash")
		}
		closing, _ := rec.seal(judge(err), "simulate", nil)
		rec.record(events.MessageDelta{MessageID: "late", Delta: "late"})
		checkStream(rt, append(log.got, closing...))
	})
}

func checkStream(t *rapid.T, list []events.Data) {
	open, sum := "", ""
	calls := map[string]bool{}
	for i, d := range list {
		switch v := d.(type) {
		case events.MessageDelta:
			open, sum = follow(t, open, sum, "m"+v.MessageID, v.Delta)
		case events.ReasoningDelta:
			open, sum = follow(t, open, sum, "r"+v.ReasoningID, v.Delta)
		case events.Message:
			if open != "m"+v.MessageID || v.Content != sum || sum == "" {
				t.Fatalf("%d: message %q closes %q with %q, deltas were %q", i, v.MessageID, open, v.Content, sum)
			}
			open, sum = "", ""
		case events.Reasoning:
			if open != "r"+v.ReasoningID || v.Content != sum {
				t.Fatalf("%d: reasoning %q closes %q", i, v.ReasoningID, open)
			}
			open, sum = "", ""
		case events.Discarded:
			if open == "m"+v.MessageID || open == "r"+v.ReasoningID {
				open, sum = "", ""
			}
		case events.ToolCall:
			if open != "" || calls[v.ID] {
				t.Fatalf("%d: call in the open block %q, or its id again", i, open)
			}
			calls[v.ID] = true
		case events.ToolComplete:
			delete(calls, v.ID)
		case events.ToolRequest:
			if open != "" {
				t.Fatalf("%d: bridged call in the open block %q", i, open)
			}
		case events.End:
			if i != len(list)-1 || open != "" || len(calls) > 0 {
				t.Fatalf("%d: end with %q and %d calls open, of %d", i, open, len(calls), len(list))
			}
		}
	}
	if _, ok := list[len(list)-1].(events.End); !ok {
		t.Fatal("no end")
	}
}

func follow(t *rapid.T, open, sum, id, delta string) (string, string) {
	if open != "" && open != id {
		t.Fatalf("delta of %s in the open block %s", id, open)
	}
	if delta == "" {
		t.Fatal("empty delta")
	}
	return id, sum + delta
}

// seenLog looks at the run in the moment in which an event becomes visible.
type seenLog struct {
	l       *live
	waiting []bool
}

func (s *seenLog) Append(events.Data) (int64, error) {
	s.waiting = append(s.waiting, s.l.waiting())
	return 1, nil
}

// TestARunWaitsBeforeItsRequestIsSeen: a host that sees a call may start a run
// on the same context at once. Queued behind the one that waits for the call,
// both would wait for ever.
func TestARunWaitsBeforeItsRequestIsSeen(t *testing.T) {
	for _, pair := range [][2]events.Data{
		{events.ToolRequest{ToolCallID: "tc"}, events.ToolResolved{ToolCallID: "tc"}},
		{events.PermissionRequest{RequestID: "rq"}, events.PermissionResolved{RequestID: "rq"}},
		{events.InputRequired{RequestID: "rq"}, events.InputResolved{RequestID: "rq"}},
	} {
		l := &live{}
		log := &seenLog{l: l}
		l.rec = newRecorder(log, func(error) {})
		l.logRequest(pair[0])
		l.logRequest(pair[1])
		if diff := cmp.Diff([]bool{true, false}, log.waiting); diff != "" {
			t.Errorf("%s: waiting when seen (-want +got)\n%s", pair[0].EventType(), diff)
		}
	}
}
