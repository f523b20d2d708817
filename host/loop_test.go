package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/host"
)

func typesOf(all []events.Event) string {
	var out []string
	for _, ev := range all {
		out = append(out, strings.TrimPrefix(string(ev.Type()), "assistant."))
	}
	return strings.Join(out, " ")
}

// Usage is attributed, and comes where it stood: before the end.
func TestLoopDelegates(t *testing.T) {
	m := &memory{answer: func(_ int, r api.Request) any {
		if r.Metadata.Backend != "simulate" {
			t.Errorf("backend %q", r.Metadata.Backend)
		}
		return saying("hello")
	}}
	l := newLoop(t, m, &nativeSays{}, &host.LoopOptions{Backend: "simulate"})
	o, all, err := ask(t, l, host.Prompt("c", "x"))
	if err != nil || typesOf(all) != "session.task_id message_delta message usage session.end" {
		t.Fatalf("%s %v", typesOf(all), err)
	}
	if o.Usage.Backend != "a2a:simulate" || *o.Usage.Cost != 0.5 || o.Text() != "hello" || o.Err() != nil {
		t.Errorf("%+v", o)
	}
}

// A run that breaks after its usage has not completed: it is not billed.
func TestUsageOnlyOfCompletedAnswers(t *testing.T) {
	whole := saying("hello")
	for name, answer := range map[string]any{
		"broken before the end": cut(whole[:len(whole)-1]),
		"failed all the same":   append(whole[:len(whole)-1:len(whole)-1], events.NewError(events.ErrStorage, ""), events.End{State: events.Failed}),
	} {
		m := &memory{answer: func(int, api.Request) any { return answer }}
		l := newLoop(t, m, &nativeSays{text: "and native"}, nil)
		_, all, err := ask(t, l, host.Prompt("c", "x"))
		if err != nil {
			t.Fatal(err)
		}
		var billed []string
		for _, ev := range all {
			if u, ok := ev.Data.(events.Usage); ok {
				billed = append(billed, u.Backend)
			}
		}
		if strings.Join(billed, " ") != "native" {
			t.Errorf("%s: billed %v", name, billed)
		}
	}
}

// What was said before a failure stands once: it is closed, the event says
// where the native answer begins, and the native loop knows what was done.
func TestFallbackAfterAPartialAnswer(t *testing.T) {
	args := json.RawMessage(`{"n":1}`)
	begun := []events.Data{
		started,
		events.ReasoningDelta{Delta: "hm", ReasoningID: "r1"},
		events.Reasoning{Content: "hm", ReasoningID: "r1"},
		events.MessageDelta{Delta: "I look.", MessageID: "m1"},
		events.Message{Content: "I look.", MessageID: "m1"},
		events.ToolRequest{ToolCallID: "tc1", ToolName: "look", Arguments: args},
		events.ToolResolved{ToolCallID: "tc1", Outcome: events.OutcomeOK, Result: "seen"},
		events.MessageDelta{Delta: "said twice", MessageID: "m2"},
		events.Discarded{MessageID: "m2"},
		events.MessageDelta{Delta: "It is ü", MessageID: "m3"},
	}
	for name, answer := range map[string]any{
		"the stream breaks": cut(begun),
		"the run fails": append(begun[:len(begun):len(begun)], events.Message{Content: "It is ü", MessageID: "m3", Partial: true},
			events.NewError(events.ErrBackendCrashed, "gone"), events.End{State: events.Failed}),
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{answer: func(int, api.Request) any { return answer }}
			native := &nativeSays{text: "ber all."}
			l := newLoop(t, m, native, nil)
			req := host.Prompt("c", "x")
			req.Tools = []host.ToolDef{host.Tool("look", "", func(context.Context, struct{}) (string, error) { return "seen", nil })}
			o, all, err := ask(t, l, req)
			if err != nil {
				t.Fatal(err)
			}
			want := "session.task_id reasoning_delta reasoning message_delta message tool.execution_request tool.execution_resolved message_delta discarded " +
				"message_delta message host.fallback message_delta message usage session.end"
			if got := typesOf(all); got != want {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
			fb, said := o.Fallback, "I look.\n\nIt is ü"
			if fb.Said != said || fb.From != len(said) || fb.Reason != host.FallbackFailed || fb.TaskID != started.TaskID || fb.Breaker.Failures != 1 || fb.Message == "" {
				t.Errorf("%+v", fb)
			}
			if text := o.Text(); text[:fb.From] != said || text[fb.From:] != "\n\nber all." {
				t.Errorf("the turn's text is %q", text)
			}
			got := native.got[0]
			if len(req.Messages) != 1 || len(got.Messages) != 4 || got.Fallback != fb {
				t.Fatalf("the native loop got %+v", got.Messages)
			}
			if got.Messages[1].Content != said || got.Messages[2].ToolCalls[0].Name != "look" || got.Messages[3].Content != "seen" {
				t.Errorf("the native loop got %+v", got.Messages)
			}
		})
	}
}

// Without a native loop a failure is what it is anywhere.
func TestLoopWithoutNative(t *testing.T) {
	m := &memory{answer: func(n int, _ api.Request) any {
		if n == 0 {
			return failing(events.ErrRateLimit, "")
		}
		return saying("x")
	}}
	l := newLoop(t, m, nil, nil)
	o, _, err := ask(t, l, host.Prompt("c", "x"))
	if err != nil || o.State != events.Failed || o.Failure.ErrorType != events.ErrRateLimit || o.Fallback != nil {
		t.Fatalf("%+v %v", o, err)
	}
	var e *host.Error
	if _, _, err := ask(t, l, host.Prompt("c", "x")); !errors.As(err, &e) || e.ErrorType != events.ErrRateLimit || e.RetryAfter == 0 {
		t.Errorf("while it is open: %v", err)
	}
}

func TestStrictStart(t *testing.T) {
	for name, c := range map[string]struct {
		m    *memory
		opt  host.LoopOptions
		says string
	}{
		"no server":    {&memory{health: errDial}, host.LoopOptions{}, "no server at http://sandbox"},
		"not usable":   {&memory{}, host.LoopOptions{Backend: "codex"}, "install it"},
		"no such":      {&memory{}, host.LoopOptions{Backend: "nobody"}, "no usable agent nobody"},
		"refused keys": {&memory{}, host.LoopOptions{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				_, err := host.NewInnerLoop(t.Context(), c.m.client(t), &nativeSays{}, &c.opt)
				if c.says == "" {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("%v", err)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("it took %v", took)
				}
				c.opt.AllowMissing = true
				l, err := host.NewInnerLoop(t.Context(), c.m.client(t), &nativeSays{text: "native"}, &c.opt)
				if err != nil {
					t.Fatal(err)
				}
				if c.m.health != nil {
					if o, _, err := ask(t, l, host.Prompt("", "x")); err != nil || o.Fallback == nil || o.Text() != "native" {
						t.Errorf("%+v %v", o, err)
					}
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		m := &memory{health: errDial}
		time.AfterFunc(7*time.Second, func() { m.set(nil) })
		if _, err := host.NewInnerLoop(t.Context(), m.client(t), nil, &host.LoopOptions{StartTimeout: time.Minute}); err != nil {
			t.Errorf("a server that comes up: %v", err)
		}
	})
	if _, err := host.NewInnerLoop(t.Context(), nil, &nativeSays{}, nil); err == nil || !strings.Contains(err.Error(), "URL") {
		t.Errorf("no client: %v", err)
	}
	if _, err := host.NewInnerLoop(t.Context(), nil, nil, &host.LoopOptions{AllowMissing: true}); err == nil {
		t.Error("neither client nor native loop")
	}
	l, err := host.NewInnerLoop(t.Context(), nil, &nativeSays{text: "native"}, &host.LoopOptions{AllowMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	if o, _, err := ask(t, l, host.Prompt("", "x")); err != nil || o.Fallback.Reason != host.FallbackMissing {
		t.Errorf("%+v %v", o, err)
	}
}

// Two turns of one conversation, and the host's compaction, never meet; other
// conversations do not wait; a tool's own turn does not wait for the turn that
// it is a part of; the native loop may take the lock.
func TestOneLockForEachConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{answer: func(n int, r api.Request) any {
			if r.Metadata.Source == "fail" {
				return failing(events.ErrInternal, "")
			}
			return saying("x")
		}}
		var l *host.InnerLoop
		l = newLoop(t, m, host.Native(func(ctx context.Context, req host.Request) iter.Seq2[events.Event, error] {
			release, err := l.Lock(ctx, req.ContextID)
			if err != nil {
				t.Error(err)
				return host.Say("", nil)
			}
			release()
			return host.Say("native", nil)
		}), nil)
		next, stop := iter.Pull2(l.Respond(t.Context(), host.Prompt("c", "x")))
		defer stop()
		next()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.Lock(ctx, "c"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the lock was taken during a turn: %v", err)
		}
		if release, err := l.Lock(t.Context(), "other"); err != nil {
			t.Error(err)
		} else {
			release()
			release()
		}
		for ok := true; ok; {
			_, _, ok = next()
		}
		release, err := l.Lock(t.Context(), "c")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, err := range l.Respond(ctx, host.Prompt("c", "x")) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a turn ran during a compaction: %v", err)
			}
		}
		release()
		failed := host.Prompt("c", "x")
		failed.Metadata.Source = "fail"
		if o, _, err := ask(t, l, failed); err != nil || o.Text() != "native" {
			t.Errorf("%+v %v", o, err)
		}
	})
}

func TestNestedTurnDoesNotWaitForItself(t *testing.T) {
	inner := make(chan string, 1)
	f := newFake(t, oneCall("nested"))
	f.extra = alive(f)
	l, err := host.NewInnerLoop(t.Context(), f.client(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	req := host.Prompt("c", "x")
	req.Tools = []host.ToolDef{host.Tool("nested", "", func(ctx context.Context, _ struct{}) (string, error) {
		release, err := l.Lock(ctx, "c")
		if err != nil {
			return "", err
		}
		release()
		inner <- "free"
		return "ok", nil
	})}
	if o, _, err := ask(t, l, req); err != nil || o.Text() != "ok" || len(inner) != 1 {
		t.Fatalf("%+v %v", o, err)
	}
}

// Leaving the loop cancels the run, and waits for its end.
func TestLoopLeftCancels(t *testing.T) {
	f := newFake(t, func(f *fake) { f.begin(); <-f.canceled })
	f.extra = alive(f)
	l, err := host.NewInnerLoop(t.Context(), f.client(), &nativeSays{text: "no"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range l.Respond(t.Context(), host.Prompt("c", "x")) {
		break
	}
	if len(f.seen().cancels) != 1 || !f.seen().ended {
		t.Fatalf("%d cancels, ended %v", len(f.seen().cancels), f.seen().ended)
	}
	if release, err := l.Lock(t.Context(), "c"); err != nil {
		t.Error(err)
	} else {
		release()
	}
}
