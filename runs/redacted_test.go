package runs

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"innerd/backends"
	"innerd/events"
	"innerd/runs/redact"
)

const secret = "the-key-of-the-run"

func redacting(t testing.TB, log appender) *recorder {
	t.Helper()
	set, err := redact.New("sk-ant-*")
	if err != nil {
		t.Fatal(err)
	}
	m := &Manager{opt: Options{Redact: set}}
	r := newRecorder(log, func(error) {})
	r.redact = m.redactor(Spec{
		Credential: &backends.Credential{Key: secret},
		Env:        map[string]string{"MY_TOKEN": "token-of-the-env", "PLAIN": "plain-of-the-env"},
	})
	return r
}

// However a text is cut into deltas, and whatever comes between, no secret is
// in any event, and each whole text is the sum of its deltas.
func TestRedactedOverDeltas(t *testing.T) {
	const said = "It is the-key-of-the-run, or token-of-the-env; sk-ant-0123456789abcdef too. plain-of-the-env the-key-of"
	const want = "It is [redacted], or [redacted]; [redacted] too. plain-of-the-env the-key-of"
	rapid.Check(t, func(rt *rapid.T) {
		log := &sliceLog{}
		r := redacting(t, log)
		deltas, sum := "", map[string]string{}
		for rest := said; rest != ""; {
			n := rapid.IntRange(1, min(len(rest), 30)).Draw(rt, "n")
			r.record(events.MessageDelta{Delta: rest[:n], MessageID: "x"})
			rest = rest[n:]
			if rapid.Bool().Draw(rt, "status") {
				r.record(events.Status{State: events.StateNotice, Detail: "and " + secret})
			}
		}
		r.record(events.ReasoningDelta{Delta: "hm, the-key-of", ReasoningID: "y"})
		r.record(events.ReasoningDelta{Delta: "-the-run", ReasoningID: "y"})
		closing, _ := r.seal(verdict{state: events.Completed}, "b", json.RawMessage(`{"k":"the-key-of-the-run"}`))
		for _, d := range append(log.got, closing...) {
			raw, err := json.Marshal(d)
			if err != nil || strings.Contains(string(raw), secret) {
				rt.Fatalf("%s %v", raw, err)
			}
			switch v := d.(type) {
			case events.MessageDelta:
				deltas += v.Delta
				sum[v.MessageID] += v.Delta
			case events.ReasoningDelta:
				sum[v.ReasoningID] += v.Delta
			case events.Message:
				if v.Content != sum[v.MessageID] || v.Content != want {
					rt.Fatalf("message %q, deltas %q", v.Content, sum[v.MessageID])
				}
			case events.Reasoning:
				if v.Content != sum[v.ReasoningID] || v.Content != "hm, [redacted]" {
					rt.Fatalf("reasoning %q, deltas %q", v.Content, sum[v.ReasoningID])
				}
			}
		}
	})
}

// The output of a tool comes in pieces too; what was held back comes at its end.
func TestRedactedToolOutput(t *testing.T) {
	log := &sliceLog{}
	r := redacting(t, log)
	r.record(events.ToolCall{ID: "a", Name: "shell", Input: json.RawMessage(`{"command":"echo the-key-of-the-run"}`)})
	for _, piece := range []string{"x the-key", "-of-the-run y the-", "key"} {
		r.record(events.ToolUpdate{ID: "a", Output: piece})
	}
	r.record(events.ToolComplete{ID: "a", Success: true, Result: "x the-key-of-the-run y the-key"})
	r.record(events.SubagentDelta{ID: "s", Text: "the-key-of"})
	r.record(events.SubagentDelta{ID: "s", Text: "-the-run"})
	r.record(events.SubagentComplete{ID: "s", Result: secret})
	output, text := "", ""
	for _, d := range log.got {
		raw, _ := json.Marshal(d)
		if strings.Contains(string(raw), secret) {
			t.Errorf("%s", raw)
		}
		switch v := d.(type) {
		case events.ToolUpdate:
			output += v.Output
		case events.SubagentDelta:
			text += v.Text
		}
	}
	if output != "x [redacted] y the-key" || text != "[redacted]" {
		t.Errorf("%q %q", output, text)
	}
}

// A text that is taken back takes what was held back of it along.
func TestRedactedDiscard(t *testing.T) {
	log := &sliceLog{}
	r := redacting(t, log)
	r.record(events.MessageDelta{Delta: "a the-key-of", MessageID: "x"})
	r.record(events.Discarded{MessageID: "x", Reason: "retry"})
	r.record(events.MessageDelta{Delta: "-the-run b", MessageID: "x"})
	r.record(events.Message{MessageID: "x", Content: "-the-run b"})
	want := []string{"Δm1 a ", "discard m1", "Δm2 -the-run b", "msg m2 -the-run b"}
	if got := shape(log.got); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q", got)
	}
}

// Of a text that was held back whole nothing is taken back. What is held back of
// pieces whose end never comes is shown at the end of the run.
func TestRedactedRest(t *testing.T) {
	log := &sliceLog{}
	r := redacting(t, log)
	r.record(events.MessageDelta{Delta: "the-key", MessageID: "x"})
	r.record(events.Discarded{MessageID: "x"})
	if len(log.got) != 0 {
		t.Errorf("%q", shape(log.got))
	}
	r.record(events.SubagentDelta{ID: "s", Text: "a the-key"})
	r.record(events.ToolUpdate{ID: "u", Output: "b the-k"})
	r.seal(verdict{state: events.Completed}, "b", nil)
	text, output := "", ""
	for _, d := range log.got {
		switch v := d.(type) {
		case events.SubagentDelta:
			text += v.ID + " " + v.Text
		case events.ToolUpdate:
			output += v.Output
		}
	}
	if text != "s a s the-key" || output != "b the-k" {
		t.Errorf("%q %q", text, output)
	}
}

// Without --redact nothing is looked at: events go in as they came.
func TestNotRedacted(t *testing.T) {
	if (&Manager{}).redactor(Spec{Credential: &backends.Credential{Key: secret}}) != nil {
		t.Error("a server that redacts nothing has a redactor")
	}
	log := &sliceLog{}
	r := newRecorder(log, func(error) {})
	r.record(events.MessageDelta{Delta: secret, MessageID: "x"})
	if got := shape(log.got); len(got) != 1 || got[0] != "Δm1 "+secret {
		t.Errorf("%q", got)
	}
}
