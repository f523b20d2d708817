package claudecode_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/modelstub"
)

func TestModelChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{}, text("one"), text("two"))
	for _, m := range []string{"claude-opus-4-5", "claude-opus-4-6"} {
		if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{Model: m}); err != nil {
			t.Fatal(err)
		}
	}
	rs := s.sc.Requests()
	if rs[0].Model != "claude-opus-4-5" || rs[1].Model != "claude-opus-4-6" {
		t.Errorf("%s, %s", rs[0].Model, rs[1].Model)
	}
	if n := len(s.sc.Side()); n != 0 {
		t.Errorf("%d further requests", n)
	}
	if got := s.b.last.Probe(t.Context()).Models; !slices.Contains(got, "opus") || slices.Contains(got, "default") {
		t.Errorf("models %q", got)
	}
	if len(rs[1].Messages) < 3 {
		t.Errorf("the new process does not know the conversation: %d messages", len(rs[1].Messages))
	}
}

func TestMaxTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	bash := modelstub.Say(modelstub.Tool("Bash", map[string]any{"command": "true", "description": "x"}))
	c, s := b.open(t, backends.Config{}, bash, bash, bash, bash)
	for i := range 2 { // of each turn, not of the process
		_, out, err := run(t, c, backendtest.Turn{}, backends.Settings{MaxTurns: 2})
		if err != nil || out.Reason != backends.ReasonMaxTurns {
			t.Error(out, err)
		}
		if n := s.sc.Count(); n != 2*(i+1) {
			t.Errorf("%d model turns", n)
		}
	}
}

// TestMaxCost: the limit is a run's own, whatever was spent before.
func TestMaxCost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{})
	spend := modelstub.Usage{Input: 1000, Output: 100}
	s.queue = []arranged{{turn: text("cheap").Uses(spend)}}
	evs, out, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil || out.Reason != backends.ReasonEndTurn {
		t.Fatal(out, err)
	}
	one := *evs[len(evs)-1].Data.(events.Usage).Cost
	s.queue = []arranged{{turn: modelstub.Say(bash("true")).Uses(spend), lasts: true}}
	for range 2 {
		before := s.sc.Count()
		evs, out, err := run(t, c, backendtest.Turn{}, backends.Settings{MaxCost: one * 2.5})
		if err != nil || out.Reason != backends.ReasonMaxCost {
			t.Fatal(out, err)
		}
		if n := s.sc.Count() - before; n != 3 {
			t.Errorf("%d model turns", n)
		}
		if u := evs[len(evs)-1].Data.(events.Usage); *u.Cost < one*2.5 || *u.Cost > one*3.5 {
			t.Errorf("cost %v of %v", *u.Cost, one*2.5)
		}
	}
	s.queue = []arranged{{turn: text("free again")}}
	if _, out, err = run(t, c, backendtest.Turn{}, backends.Settings{}); err != nil || out.Reason != backends.ReasonEndTurn {
		t.Error(out, err)
	}
}

// TestToolChoice: none is none; what claude can't enforce is asked in words.
func TestToolChoice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{})
	s.queue = []arranged{{turn: text("fine"), lasts: true}}
	for _, x := range []struct {
		choice, words string
		none          bool
	}{
		{`"none"`, "", true},
		{`"auto"`, "", false},
		{`"required"`, "must call at least one tool", false},
		{`{"type":"function","function":{"name":"a.b"}}`, "must call the tool mcp__host__a_b before", false},
		{`{"type":"tool","name":"Bash"}`, "must call the tool Bash before", false},
	} {
		set := backends.Settings{ToolChoice: json.RawMessage(x.choice), Tools: []backends.Tool{tool("a.b")}}
		if x.none {
			set.Tools = nil // the run takes them away
		}
		if _, _, err := run(t, c, backendtest.Turn{}, set); err != nil {
			t.Fatal(err)
		}
		rs := s.sc.Requests()
		r := rs[len(rs)-1]
		if got := len(r.Tools) == 0; got != x.none {
			t.Errorf("%s: offered %q", x.choice, names(r))
		}
		if said := lastText(r); x.words != "" && !strings.Contains(said, x.words) || x.words == "" && strings.Contains(said, "must call") {
			t.Errorf("%s: the model was told %q", x.choice, said)
		}
	}
}

// TestThinkingTokens: the number reaches the model where it has one; an effort
// that claude would ignore without a word is told.
func TestThinkingTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{})
	s.queue = []arranged{{turn: text("fine"), lasts: true}}
	for _, n := range []int{5000, 0, 6000} {
		effort := ""
		if n == 0 {
			effort = "no such effort"
		}
		evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{Model: "claude-opus-4-5", ThinkingTokens: n, Effort: effort})
		if err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(notices(evs), "no such effort"); told != (n == 0) {
			t.Errorf("%d: told %v", n, told)
		}
		rs := s.sc.Requests()
		if got := bytes.Contains(rs[len(rs)-1].Body, fmt.Appendf(nil, `"budget_tokens":%d`, n)); got != (n > 0) {
			t.Errorf("%d: %v", n, got)
		}
	}
}

// TestStructuredOutput: the object is the last message, each turn has its own;
// what is not of the form is asked for again, and fails in the end.
func TestStructuredOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{})
	output := func(in map[string]any) modelstub.Turn { return modelstub.Say(modelstub.Tool("StructuredOutput", in)) }
	good, bad := map[string]any{"name": "bob"}, map[string]any{"nome": 1}
	refusal := modelstub.Say(modelstub.Text("I will not.")).Stops("refusal")
	for _, x := range []struct {
		name   string
		turns  []modelstub.Turn
		said   []string
		reason string
		class  string
	}{
		{
			"tools",
			[]modelstub.Turn{modelstub.Say(modelstub.Text("I look."), bash("echo 1")), modelstub.Say(modelstub.Text("So it is:"), modelstub.Tool("StructuredOutput", good))},
			[]string{"I look.", "So it is:", `{"name":"bob"}`},
			backends.ReasonEndTurn, "",
		},
		{"again", []modelstub.Turn{output(map[string]any{"name": "eve"})}, []string{`{"name":"eve"}`}, backends.ReasonEndTurn, ""},
		{"mended", []modelstub.Turn{output(bad), output(good)}, []string{`{"name":"bob"}`}, backends.ReasonEndTurn, ""},
		{"invalid", []modelstub.Turn{output(bad), output(bad), output(bad), output(bad), output(bad), output(bad)}, nil, "", events.ErrInternal},
		{"text", []modelstub.Turn{text("Only text."), text("Only text.")}, []string{"Only text.", "Only text."}, "", events.ErrInternal},
		{"refused", []modelstub.Turn{refusal, refusal, refusal}, []string{"I will not.", "I will not."}, backends.ReasonRefusal, ""},
	} {
		s.queue = nil
		for _, turn := range x.turns {
			s.queue = append(s.queue, arranged{turn: turn})
		}
		evs, out, err := run(t, c, backendtest.Turn{}, backends.Settings{
			Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
		})
		if class(err) != x.class || out.Reason != x.reason {
			t.Errorf("%s: %+v %v", x.name, out, err)
		}
		got := texts(evs)
		if !slices.Equal(got, x.said) {
			t.Errorf("%s: said %q", x.name, got)
		}
		if x.reason == backends.ReasonEndTurn && string(out.Output) != got[len(got)-1] {
			t.Errorf("%s: output %s", x.name, out.Output)
		}
		for _, e := range evs {
			if call, ok := e.Data.(events.ToolCall); ok && call.Name == "StructuredOutput" {
				t.Errorf("%s: the answer is also a call", x.name)
			}
		}
	}
}
