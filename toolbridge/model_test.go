package toolbridge_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"innerd/events"
	"innerd/toolbridge"
)

// modelCall is what the model knows of one request.
type modelCall struct {
	p      *toolbridge.Pending
	kind   events.RequestKind
	serial bool
	cancel context.CancelFunc
	shown  bool   // announced
	answer string // body of the accepted answer
	end    string // outcome; "" while it waits
}

type model struct {
	b     *toolbridge.Bridge
	s     *toolbridge.Session
	rec   *recorder
	calls []*modelCall
	over  bool
}

// TestModel plays random orders of requests, answers, retries, late answers,
// cancels and the end against a model that knows one call at a time.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{b: toolbridge.New(nil), rec: &recorder{}}
		c := config(m.rec)
		c.Permission = "ask"
		c.Tools = []toolbridge.ToolSpec{{Name: "serial"}, {Name: "parallel", Parallel: true}}
		m.s = m.b.Open(c)
		defer m.s.Close(nil)
		rt.Repeat(map[string]func(*rapid.T){
			"request": m.request,
			"answer":  m.answer,
			"cancel":  m.cancelOne,
			"close":   m.close,
			"":        m.check,
		})
	})
}

func (m *model) request(t *rapid.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &modelCall{kind: events.KindTool, cancel: cancel}
	var r events.Request
	switch kind := rapid.SampledFrom([]string{"serial", "parallel", "permission", "question"}).Draw(t, "kind"); kind {
	case "permission":
		c.kind, r = events.KindPermission, permission("Bash", `{}`)
	case "question":
		c.kind, r = events.KindQuestion, question("?", "")
	default:
		c.serial, r = kind == "serial", call(kind, `{}`)
	}
	c.p = m.s.Request(ctx, r)
	switch {
	case m.over:
		c.end = events.OutcomeCanceled
	case !c.serial || !m.serialOpen():
		c.shown = true
	}
	m.calls = append(m.calls, c)
}

func (m *model) serialOpen() bool {
	for _, c := range m.calls {
		if c.serial && c.shown && c.end == "" {
			return true
		}
	}
	return false
}

func (m *model) answer(t *rapid.T) {
	if len(m.calls) == 0 {
		t.Skip()
	}
	c := rapid.SampledFrom(m.calls).Draw(t, "call")
	owner := rapid.SampledFrom([]string{"default", "default", "eve"}).Draw(t, "owner")
	body := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "body")
	mine, open := owner == "default" && c.shown, c.shown && c.end == ""
	if c.kind != events.KindTool {
		var err error
		if c.kind == events.KindPermission {
			err = m.b.Answer(owner, "run-1", c.p.ID(), toolbridge.Reply{Option: events.AllowOnce})
		} else {
			err = m.b.ReplyText(owner, "run-1", c.p.ID(), body, nil)
		}
		want := toolbridge.ErrNotFound
		if mine {
			want = toolbridge.ErrAnswered
			if open {
				want = nil
			}
		}
		if !errors.Is(err, want) {
			t.Fatalf("%s: %v, want %v", c.p.ID(), err, want)
		}
		if mine && open {
			c.end = map[events.RequestKind]string{events.KindPermission: events.OutcomeAllowed, events.KindQuestion: events.OutcomeAnswered}[c.kind]
		}
		return
	}
	want := toolbridge.NotFound
	switch {
	case mine && open:
		want = toolbridge.Accepted
		m.end(c, events.OutcomeOK)
		c.answer = body
	case mine && c.answer == body:
		want = toolbridge.Duplicate
	}
	if got := m.b.ToolResult(owner, c.p.ID(), toolbridge.Result{Result: body}); got != want {
		t.Fatalf("%s: %v, want %v", c.p.ID(), got, want)
	}
}

// end resolves c and shows the next call of a serialised tool.
func (m *model) end(c *modelCall, outcome string) {
	c.end = outcome
	if !c.serial || !c.shown {
		return
	}
	for _, next := range m.calls {
		if next.serial && !next.shown && next.end == "" {
			next.shown = true
			return
		}
	}
}

// shownSoon waits until the log has what the end of a call lets begin: that is
// another goroutine's, where a cancel ended it.
func (m *model) shownSoon(t *rapid.T) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		logged, all := history(t, m.rec.events()), true
		for _, c := range m.calls {
			all = all && (!c.shown || logged[c.p.ID()] != "")
		}
		if all {
			return
		}
	}
}

func (m *model) cancelOne(t *rapid.T) {
	if len(m.calls) == 0 {
		t.Skip()
	}
	c := rapid.SampledFrom(m.calls).Draw(t, "call")
	c.cancel()
	if c.end == "" {
		m.end(c, events.OutcomeCanceled)
	}
	_, _ = c.p.Wait()
	m.shownSoon(t)
}

func (m *model) close(*rapid.T) {
	m.s.Close(errors.New("over"))
	m.over = true
	for _, c := range m.calls {
		if c.end == "" {
			c.end = events.OutcomeCanceled
		}
	}
}

func (m *model) check(t *rapid.T) {
	open, logged := 0, history(t, m.rec.events())
	for _, c := range m.calls {
		if c.end != "" {
			if a, _ := c.p.Wait(); a.Outcome != c.end {
				t.Fatalf("%s: %s, want %s", c.p.ID(), a.Outcome, c.end)
			}
		}
		if c.shown && c.end == "" {
			open++
		}
		want := ""
		if c.shown {
			want = "shown " + c.end
		}
		if got := logged[c.p.ID()]; got != want {
			t.Fatalf("%s: log %q, want %q", c.p.ID(), got, want)
		}
	}
	if got := len(m.s.Pending()); got != open {
		t.Fatalf("%d pending, want %d", got, open)
	}
}

// history folds a log into "shown outcome" per request, and fails where a
// request is announced twice, resolved twice, or resolved before it is
// announced.
func history(t interface{ Fatalf(string, ...any) }, log []events.Data) map[string]string {
	out := map[string]string{}
	show := func(id string) {
		if out[id] != "" {
			t.Fatalf("%s announced twice", id)
		}
		out[id] = "shown "
	}
	end := func(id, outcome string) {
		if out[id] != "shown " {
			t.Fatalf("%s resolved as %s after %q", id, outcome, out[id])
		}
		out[id] += outcome
	}
	for _, d := range log {
		switch d := d.(type) {
		case events.ToolRequest:
			show(d.ToolCallID)
		case events.PermissionRequest:
			show(d.RequestID)
		case events.InputRequired:
			show(d.RequestID)
		case events.ToolResolved:
			end(d.ToolCallID, d.Outcome)
		case events.PermissionResolved:
			end(d.RequestID, d.Outcome)
		case events.InputResolved:
			end(d.RequestID, d.Outcome)
		}
	}
	return out
}

// TestStress lets everything happen at once: whatever wins, each announced
// request is resolved once, in the log before its waiter hears of it.
func TestStress(t *testing.T) {
	for range 20 {
		stress(t)
	}
}

func stress(t *testing.T) {
	b, rec := toolbridge.New(nil), &recorder{}
	c := config(rec)
	c.Permission = "ask"
	c.ToolTimeout = 2 * time.Millisecond
	c.Tools = []toolbridge.ToolSpec{{Name: "serial"}, {Name: "parallel", Parallel: true}}
	s := b.Open(c)
	var wg sync.WaitGroup
	for range 60 {
		r := []events.Request{call("serial", `{}`), call("parallel", `{}`), permission("x", `{}`), question("?", "")}[rand.IntN(4)]
		pick := rand.IntN(4)
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := s.Request(ctx, r)
			accepted := 0
			var answers sync.WaitGroup
			var mu sync.Mutex
			for i := range 2 {
				answers.Go(func() {
					ok := b.ToolResult("default", p.ID(), toolbridge.Result{Result: fmt.Sprint(i)}) == toolbridge.Accepted ||
						b.Answer("default", "run-1", p.ID(), toolbridge.Reply{Option: events.Deny}) == nil ||
						pick > 1 && b.ReplyText("default", "run-1", p.ID(), "x", nil) == nil
					if ok {
						mu.Lock()
						defer mu.Unlock()
						accepted++
					}
				})
			}
			if pick == 0 {
				cancel()
			}
			if pick == 1 {
				wg.Go(func() { s.Close(nil) })
			}
			answers.Wait()
			if pick > 1 && r.Kind != events.KindTool && accepted == 0 {
				cancel()
			}
			a, _ := p.Wait()
			logged := history(t, rec.events())[p.ID()] // at this moment, not later
			if logged != "" && logged != "shown "+a.Outcome {
				t.Errorf("%s: told %s, logged %q", p.ID(), a.Outcome, logged)
			}
			byHost := a.Outcome == events.OutcomeOK || a.Outcome == events.OutcomeDenied || a.Outcome == events.OutcomeAnswered
			if accepted > 1 || (accepted == 1) != byHost {
				t.Errorf("%s: %d accepted, outcome %s", p.ID(), accepted, a.Outcome)
			}
		})
	}
	wg.Wait()
	s.Close(nil)
	for id, state := range history(t, rec.events()) {
		if state == "shown " {
			t.Errorf("%s was never resolved", id)
		}
	}
	if got := s.Pending(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
