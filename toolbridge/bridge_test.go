package toolbridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"innerd/events"
	"innerd/toolbridge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a run's log.
type recorder struct {
	mu  sync.Mutex
	all []events.Data
}

func (r *recorder) log(d events.Data) {
	if _, err := events.AppendLine(nil, 1, 1, d); err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, d)
}

func (r *recorder) events() []events.Data {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]events.Data(nil), r.all...)
}

func (r *recorder) types() string {
	var out []string
	for _, d := range r.events() {
		out = append(out, string(d.EventType()))
	}
	return strings.Join(out, " ")
}

func config(r *recorder) toolbridge.SessionConfig {
	return toolbridge.SessionConfig{RunID: "run-1", Owner: "default", ConversationID: "c1", Log: r.log, Interactive: true}
}

func open(t *testing.T, change func(*toolbridge.SessionConfig)) (*toolbridge.Bridge, *toolbridge.Session, *recorder) {
	t.Helper()
	r := &recorder{}
	c := config(r)
	if change != nil {
		change(&c)
	}
	b := toolbridge.New(nil)
	s := b.Open(c)
	t.Cleanup(func() { s.Close(nil) })
	return b, s, r
}

func call(tool, args string) events.Request {
	return events.Request{Kind: events.KindTool, Tool: tool, Input: json.RawMessage(args)}
}

func TestToolCall(t *testing.T) {
	b, s, r := open(t, nil)
	p := s.Request(t.Context(), events.Request{Kind: events.KindTool, NativeID: "call_0", Tool: "weather", Input: json.RawMessage(`{"city":"Köln"}`)})
	want := []events.Data{events.ToolRequest{ToolCallID: p.ID(), NativeID: "call_0", ToolName: "weather", Arguments: json.RawMessage(`{"city":"Köln"}`)}}
	if d := cmp.Diff(want, r.events()); d != "" {
		t.Fatal(d)
	}
	if got := s.Pending(); len(got) != 1 || got[0].ID != p.ID() || got[0].Tool != "weather" {
		t.Fatalf("Pending: %+v", got)
	}
	if v := b.ToolResult("default", p.ID(), toolbridge.Result{Result: "rain"}); v != toolbridge.Accepted {
		t.Fatalf("verdict %v", v)
	}
	a, err := p.Wait()
	if err != nil || a.Outcome != events.OutcomeOK || a.Result != "rain" {
		t.Fatalf("%+v %v", a, err)
	}
	want = append(want, events.ToolResolved{ToolCallID: p.ID(), Outcome: "ok", Result: "rain"})
	if d := cmp.Diff(want, r.events()); d != "" {
		t.Fatal(d)
	}
	if got := s.Pending(); len(got) != 0 {
		t.Fatalf("Pending: %+v", got)
	}
}

func TestToolResultVerdicts(t *testing.T) {
	b, s, r := open(t, nil)
	p := s.Request(t.Context(), call("x", ""))
	res := toolbridge.Result{Result: "1", Metadata: json.RawMessage(`{"a":1,"b":2}`)}
	again := toolbridge.Result{Result: "1", Metadata: json.RawMessage(`{"b":2, "a":1}`)}
	for _, step := range []struct {
		name, owner, id string
		r               toolbridge.Result
		want            toolbridge.Verdict
	}{
		{"unknown", "default", "tc_nope", res, toolbridge.NotFound},
		{"another owner", "eve", p.ID(), res, toolbridge.NotFound},
		{"first", "default", p.ID(), res, toolbridge.Accepted},
		{"retry", "default", p.ID(), again, toolbridge.Duplicate},
		{"another body", "default", p.ID(), toolbridge.Result{Result: "2"}, toolbridge.NotFound},
		{"another owner's retry", "eve", p.ID(), res, toolbridge.NotFound},
	} {
		if got := b.ToolResult(step.owner, step.id, step.r); got != step.want {
			t.Errorf("%s: %v, want %v", step.name, got, step.want)
		}
	}
	s.Close(nil)
	if got := b.ToolResult("default", p.ID(), res); got != toolbridge.Duplicate {
		t.Errorf("retry after the end: %v", got)
	}
	if got := r.types(); got != "tool.execution_request tool.execution_resolved" {
		t.Error(got)
	}
}

func TestTwoAnswersAtOnce(t *testing.T) {
	b, s, r := open(t, nil)
	for range 200 {
		p := s.Request(t.Context(), call("x", `{}`))
		verdicts := make(chan toolbridge.Verdict, 2)
		var start, wg sync.WaitGroup
		start.Add(1)
		for _, text := range []string{"a", "b"} {
			wg.Go(func() {
				start.Wait()
				verdicts <- b.ToolResult("default", p.ID(), toolbridge.Result{Result: text})
			})
		}
		start.Done()
		wg.Wait()
		if v, w := <-verdicts, <-verdicts; v == w || v+w != toolbridge.Accepted {
			t.Fatalf("verdicts %v %v", v, w)
		}
		if _, err := p.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.events()); n != 400 {
		t.Fatalf("%d events", n)
	}
}

func TestCloseCancels(t *testing.T) {
	b, s, r := open(t, nil)
	cause := errors.New("stopped")
	p, q := s.Request(t.Context(), call("x", `{}`)), s.Request(t.Context(), events.Request{Kind: events.KindQuestion, Message: "?"})
	s.Close(cause)
	for _, p := range []*toolbridge.Pending{p, q, s.Request(t.Context(), call("x", `{}`))} {
		if a, err := p.Wait(); a.Outcome != events.OutcomeCanceled || !errors.Is(err, cause) {
			t.Errorf("%+v %v", a, err)
		}
	}
	if got := r.types(); got != "tool.execution_request session.input_required tool.execution_resolved session.input_resolved" {
		t.Error(got)
	}
	if v := b.ToolResult("default", p.ID(), toolbridge.Result{}); v != toolbridge.NotFound {
		t.Errorf("late: %v", v)
	}
}

func TestContextCancels(t *testing.T) {
	_, s, r := open(t, nil)
	cause := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	p := s.Request(ctx, call("x", `{}`))
	cancel(cause)
	if a, err := p.Wait(); a.Outcome != events.OutcomeCanceled || !errors.Is(err, cause) {
		t.Errorf("%+v %v", a, err)
	}
	if a, err := s.Request(ctx, call("x", `{}`)).Wait(); a.Outcome != events.OutcomeCanceled || !errors.Is(err, cause) {
		t.Errorf("%+v %v", a, err)
	}
	if got := r.types(); got != "tool.execution_request tool.execution_resolved" {
		t.Error(got)
	}
}
