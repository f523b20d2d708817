package toolbridge_test

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"innerd/events"
	"innerd/toolbridge"
)

func question(message, schema string) events.Request {
	return events.Request{Kind: events.KindQuestion, Message: message, Schema: json.RawMessage(schema)}
}

const nameSchema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`

func TestQuestionByText(t *testing.T) {
	for _, c := range []struct{ schema, text, want string }{
		{``, `yes`, `"yes"`},
		{``, `42`, `"42"`}, // no schema asks for words
		{`{"type":"string"}`, `{"a":1}`, `"{\"a\":1}"`},
		{nameSchema, `Ann`, `{"name":"Ann"}`},
		{nameSchema, `{"name":"Ann"}`, `{"name":"{\"name\":\"Ann\"}"}`},
		{`{"type":"object","properties":{"n":{"type":"integer"}}}`, `{"n":3}`, `{"n":3}`},
		{`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`, `Ann`, `"Ann"`},
		{`{"type":"integer"}`, `42`, `42`},
		{`{"type":"boolean"}`, `yes`, `"yes"`},
		{`{"type":7,"properties":[]}`, `true`, `true`},
	} {
		b, s, r := open(t, nil)
		p := s.Request(t.Context(), question("?", c.schema))
		if err := b.ReplyText("default", "run-1", "", c.text, nil); err != nil {
			t.Fatal(err)
		}
		a, err := p.Wait()
		if err != nil || a.Outcome != events.OutcomeAnswered || string(a.Value) != c.want {
			t.Errorf("%+v: %s %v", c, a.Value, err)
		}
		want := events.InputResolved{RequestID: p.ID(), Outcome: "answered", Value: json.RawMessage(c.want)}
		if d := cmp.Diff(events.Data(want), r.events()[1]); d != "" {
			t.Error(d)
		}
	}
}

func TestQuestionByValue(t *testing.T) {
	b, s, r := open(t, nil)
	p := s.Request(t.Context(), question("Your name?", nameSchema))
	if d := cmp.Diff(events.Data(events.InputRequired{Message: "Your name?", Schema: json.RawMessage(nameSchema), RequestID: p.ID()}), r.events()[0]); d != "" {
		t.Error(d)
	}
	for _, bad := range []toolbridge.Reply{
		{}, {Option: "allow_once"}, {Value: json.RawMessage(`{`)}, {Value: json.RawMessage(`{"name":1}`)}, {Value: json.RawMessage(`"x"`)},
	} {
		if err := b.Answer("default", "run-1", p.ID(), bad); !errors.Is(err, toolbridge.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := b.Answer("default", "run-1", p.ID(), toolbridge.Reply{Value: json.RawMessage(`{"name":"Bob"}`)}); err != nil {
		t.Fatal(err)
	}
	if a, _ := p.Wait(); string(a.Value) != `{"name":"Bob"}` || a.Result != "Bob" {
		t.Errorf("%+v", a)
	}
	p = s.Request(t.Context(), question("Your name?", nameSchema))
	if err := b.Answer("default", "run-1", p.ID(), toolbridge.Reply{Message: "Cy"}); err != nil {
		t.Fatal(err)
	}
	if a, _ := p.Wait(); string(a.Value) != `{"name":"Cy"}` {
		t.Errorf("%+v", a)
	}
}

func TestReplyTextFindsItsQuestion(t *testing.T) {
	b, s, _ := open(t, func(c *toolbridge.SessionConfig) { c.Permission = "ask" })
	reply := func(owner, run, id string) error { return b.ReplyText(owner, run, id, "x", nil) }
	if err := reply("default", "run-1", ""); !errors.Is(err, toolbridge.ErrAnswered) {
		t.Error("nothing open:", err)
	}
	perm := s.Request(t.Context(), permission("Bash", `{}`))
	first, second := s.Request(t.Context(), question("1", "")), s.Request(t.Context(), question("2", ""))
	third := s.Request(t.Context(), question("3", ""))
	for _, c := range []struct {
		owner, run, id string
		want           error
	}{
		{"eve", "run-1", "", toolbridge.ErrNotFound},
		{"default", "run-2", "", toolbridge.ErrNotFound},
		{"default", "run-1", "rq_x", toolbridge.ErrNotFound},
		{"eve", "run-1", first.ID(), toolbridge.ErrNotFound},
		{"default", "run-1", perm.ID(), toolbridge.ErrInvalid},
		{"default", "run-1", second.ID(), nil},
		{"default", "run-1", second.ID(), toolbridge.ErrAnswered},
		{"default", "run-1", "", nil},
		{"default", "run-1", first.ID(), toolbridge.ErrAnswered},
		{"default", "run-1", "", nil},
		{"default", "run-1", "", toolbridge.ErrAnswered},
	} {
		if err := reply(c.owner, c.run, c.id); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, p := range []*toolbridge.Pending{first, second, third} {
		if _, err := p.Wait(); err != nil {
			t.Error(err)
		}
	}
	s.Close(nil)
	if err := reply("default", "run-1", ""); !errors.Is(err, toolbridge.ErrNotFound) {
		t.Error("closed:", err)
	}
}

func TestQuestionWithoutAUser(t *testing.T) {
	_, s, r := open(t, func(c *toolbridge.SessionConfig) {
		c.Interactive = false
		c.Tools = []toolbridge.ToolSpec{toolbridge.AskUser()}
	})
	a, err := s.Request(t.Context(), question("?", nameSchema)).Wait()
	if err != nil || a.Outcome != events.OutcomeAnswered || string(a.Value) != `"no user is present; decide yourself"` {
		t.Errorf("%+v %v", a, err)
	}
	a, _ = s.Request(t.Context(), call(toolbridge.AskUserName, `{"question":"?"}`)).Wait()
	if a.Result != "no user is present; decide yourself" || a.IsError {
		t.Errorf("%+v", a)
	}
	if len(r.events()) != 0 {
		t.Error(r.types())
	}
}

func TestQuestionExpires(t *testing.T) {
	for name, c := range map[string]struct{ own, session, want time.Duration }{
		"default": {0, 0, 300 * time.Second}, "session": {0, 20 * time.Second, 20 * time.Second}, "own": {time.Second, 20 * time.Second, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var order []string
			rec := &recorder{}
			b := toolbridge.New(nil)
			var p *toolbridge.Pending
			s := b.Open(toolbridge.SessionConfig{
				RunID: "run-1", Owner: "default", Interactive: true, InputTimeout: c.session,
				Log: func(d events.Data) { rec.log(d); order = append(order, string(d.EventType())) },
				OnExpired: func() {
					order = append(order, "expired")
				},
			})
			defer s.Close(nil)
			begin := time.Now()
			req := question("?", "")
			req.Timeout = c.own
			p = s.Request(t.Context(), req)
			a, err := p.Wait()
			order = append(order, "told")
			if err != nil || a.Outcome != events.OutcomeExpired || !a.IsError || time.Since(begin) != c.want {
				t.Errorf("%s: %+v %v after %s", name, a, err, time.Since(begin))
			}
			if d := cmp.Diff([]string{"session.input_required", "session.input_resolved", "expired", "told"}, order); d != "" {
				t.Error(d)
			}
			if err := b.ReplyText("default", "run-1", p.ID(), "late", nil); !errors.Is(err, toolbridge.ErrAnswered) {
				t.Error(err)
			}
		})
	}
}

func TestAskUser(t *testing.T) {
	b, s, r := open(t, func(c *toolbridge.SessionConfig) { c.Tools = []toolbridge.ToolSpec{toolbridge.AskUser()} })
	p := s.Request(t.Context(), call(toolbridge.AskUserName, `{"question":"Which?","options":["a","b"]}`))
	got := r.events()[0].(events.InputRequired)
	want := events.InputRequired{Message: "Which?", RequestID: p.ID(), Schema: json.RawMessage(`{"properties":{"answer":{"enum":["a","b"],"type":"string"}},"required":["answer"],"type":"object"}`)}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if err := b.Answer("default", "run-1", p.ID(), toolbridge.Reply{Value: json.RawMessage(`{"answer":"c"}`)}); !errors.Is(err, toolbridge.ErrInvalid) {
		t.Error(err)
	}
	if err := b.Answer("default", "run-1", p.ID(), toolbridge.Reply{Value: json.RawMessage(`{"answer":"b"}`)}); err != nil {
		t.Fatal(err)
	}
	if a, _ := p.Wait(); a.Result != "b" || string(a.Value) != `{"answer":"b"}` || a.IsError {
		t.Errorf("%+v", a)
	}
	if a, _ := s.Request(t.Context(), call(toolbridge.AskUserName, `{}`)).Wait(); !a.IsError {
		t.Errorf("%+v", a)
	}
	// A host's tool of that name is the host's.
	_, s, r = open(t, func(c *toolbridge.SessionConfig) { c.Tools = []toolbridge.ToolSpec{{Name: toolbridge.AskUserName}} })
	s.Request(t.Context(), call(toolbridge.AskUserName, `{}`))
	if r.types() != "tool.execution_request" {
		t.Error(r.types())
	}
}
