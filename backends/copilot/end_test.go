package copilot_test

import (
	"slices"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

var allQuiet = event(`{"type":"session.idle","data":{}}`)

// TestQuietAlone: a session that says it is quiet has ended its turn, also where
// it did not say before that its model has stopped.
func TestQuietAlone(t *testing.T) {
	t.Parallel()
	quiet := allQuiet
	for name, c := range map[string]struct {
		script []act
		want   []string
	}{
		"at the end":        {[]act{say("one"), quiet}, []string{"one"}},
		"before it goes on": {[]act{say("one"), quiet, event(`{"type":"assistant.turn_start","data":{}}`), say("two"), quiet}, []string{"one", "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, rec, out, err := play(t, backends.Settings{}, backendtest.Turn{}, c.script...)
			if err != nil || out.Reason != backends.ReasonEndTurn || !slices.Equal(messages(rec), c.want) {
				t.Errorf("%+v, %v, %q", out, err, messages(rec))
			}
		})
	}
}

// TestQuietOfBefore: what tells of the end of a turn before does not end one that
// has not begun.
func TestQuietOfBefore(t *testing.T) {
	t.Parallel()
	aborted := event(`{"type":"session.idle","data":{"aborted":true}}`)
	begun := send("i1")
	f := newFake(t, acts(begun[:1], []act{aborted, allQuiet}, begun[1:2], []act{aborted, allQuiet}, begun[2:], []act{say("one")}, stop)...)
	rec, _, err := run(t, t.Context(), f.open(t, nil), backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(messages(rec), []string{"one"}) {
		t.Errorf("%v, %q", err, messages(rec))
	}
}

// TestAbortedByNobody is a failure, and an end.
func TestAbortedByNobody(t *testing.T) {
	t.Parallel()
	_, rec, _, err := play(t, backends.Settings{}, backendtest.Turn{},
		event(`{"type":"assistant.message_delta","data":{"messageId":"m","deltaContent":"half"}}`),
		event(`{"type":"assistant.idle","data":{"aborted":true}}`), event(`{"type":"session.idle","data":{"aborted":true}}`))
	if class(err) != events.ErrInternal || !slices.Equal(messages(rec), []string{"half"}) {
		t.Errorf("%v, %q", err, messages(rec))
	}
}

// TestUnconfirmed: of a message that was not confirmed it is not known that it is
// whole, unless the model's account of it has come; nor does copilot know it in
// the next turn.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	half := event(`{"type":"assistant.message_delta","data":{"messageId":"m","deltaContent":"half"}}`)
	ended := event(`{"type":"assistant.turn_end","data":{"turnId":"0"}}`)
	for name, c := range map[string]struct {
		script  []act
		partial bool
		finish  string
	}{
		"cut":                        {[]act{half, ended}, true, ""},
		"cut after an answer":        {[]act{event(used), say("one"), event(`{"type":"assistant.turn_start","data":{}}`), half, ended}, true, ""},
		"accounted for":              {[]act{half, event(used), ended}, false, "end_turn"},
		"accounted for, and no word": {[]act{half, event(`{"type":"assistant.usage","data":{"outputTokens":2}}`), ended}, false, ""},
		"confirmed":                  {[]act{half, event(`{"type":"assistant.message","data":{"messageId":"m","content":"half"}}`), ended}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, rec, out, err := play(t, backends.Settings{}, backendtest.Turn{}, acts(c.script, stop)...)
			var last events.Message
			for _, e := range rec.Events() {
				if m, ok := e.Data.(events.Message); ok {
					last = m
				}
			}
			if said := messages(rec); err != nil || said[len(said)-1] != "half" || last.Partial != c.partial || last.FinishReason != c.finish || out.Stored == c.partial {
				t.Errorf("%+v, %v, %q, %+v", out, err, said, last)
			}
		})
	}
}

// TestCallWithoutAnEnd: a call whose end copilot did not tell ends with the turn.
func TestCallWithoutAnEnd(t *testing.T) {
	t.Parallel()
	_, rec, _, err := play(t, backends.Settings{}, backendtest.Turn{}, acts([]act{
		event(`{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"view","arguments":{"path":"x"}}}`),
		event(`{"type":"tool.execution_start","data":{"toolCallId":"d","toolName":"grep","arguments":{"pattern":"x"}}}`),
		event(`{"type":"tool.execution_complete","data":{"toolCallId":"d","success":true,"result":{"content":"found"}}}`),
		say("ok"),
	}, stop)...)
	ends := map[string]events.ToolComplete{}
	for _, e := range rec.Events() {
		if d, ok := e.Data.(events.ToolComplete); ok {
			ends[d.ID] = d
		}
	}
	if c := ends["c"]; err != nil || c.Success || c.Name != "view" || c.Result != "copilot did not say how this call ended" || !ends["d"].Success {
		t.Errorf("%v, %+v", err, ends)
	}
}
