package host_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/host"
	"innerd/host/billing"
)

// voice is a member that plays events, and notes what it was asked.
func voice(asked *[]host.Request, events ...events.Data) host.Strategy {
	return slow(0, asked, events...)
}

// slow waits before each of its events.
func slow(d time.Duration, asked *[]host.Request, all ...events.Data) host.Strategy {
	return host.Native(func(ctx context.Context, req host.Request) iter.Seq2[events.Event, error] {
		if asked != nil {
			*asked = append(*asked, req)
		}
		return func(yield func(events.Event, error) bool) {
			for i, data := range all {
				select {
				case <-time.After(d):
				case <-ctx.Done():
					yield(events.Event{}, context.Cause(ctx))
					return
				}
				if !yield(events.Event{ID: int64(i + 1), Data: data}, nil) {
					return
				}
			}
		}
	})
}

func TestCouncil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var one, two, all []host.Request
		c := host.Council{
			Members: []host.Member{
				{Strategy: slow(time.Second, &one, saying("it is a cat")...), Backend: "claude-code", Model: "large"},
				{Name: "second", Strategy: slow(time.Second, &two, saying("it is a dog")...), System: "be brief"},
				{Name: "broken", Strategy: voice(nil, failing(events.ErrQuota, "I th")...)},
				{Name: "late", Strategy: slow(time.Hour, nil, saying("late")...)},
				{Name: "mute", Strategy: voice(nil, started, events.End{State: events.Completed})},
			},
			Synthesis: host.Member{Name: "chair", Strategy: voice(&all, saying("it is a cat or a dog")...)},
			Timeout:   time.Minute,
		}
		req := host.Prompt("chat", "what is it?")
		req.Metadata.System = "be kind"
		text := map[string]string{}   // of deltas, by member
		last := map[string]int64{}    // each member's own order
		opinions := map[string]bool{} // by member
		var verdict *host.Verdict
		for ev, err := range c.Ask(t.Context(), req) {
			if err != nil {
				t.Fatal(err)
			}
			if verdict != nil {
				t.Fatal("something came after the verdict")
			}
			verdict = ev.Verdict
			if ev.Opinion != nil {
				opinions[ev.Member] = ev.Opinion.Err == nil
			}
			if d, ok := ev.Event.Data.(events.MessageDelta); ok {
				text[ev.Member] += d.Delta
			}
			if ev.Event.Data != nil {
				if ev.Event.ID != last[ev.Member]+1 {
					t.Errorf("%s: event %d after %d", ev.Member, ev.Event.ID, last[ev.Member])
				}
				last[ev.Member] = ev.Event.ID
			}
			if ev.Synthesis != (ev.Member == "chair") {
				t.Errorf("%+v", ev)
			}
		}
		for name, want := range map[string]string{"claude-code/large": "it is a cat", "second": "it is a dog", "broken": "I th", "late": "", "mute": "", "chair": "it is a cat or a dog"} {
			if ok := opinions[name]; text[name] != want || ok != strings.Contains(want, "it is") {
				t.Errorf("%s said %q, an answer: %v", name, text[name], ok)
			}
		}
		if verdict == nil || verdict.Text() != "it is a cat or a dog" || verdict.Cost.String() != "1.5" || len(verdict.Opinions) != 5 {
			t.Fatalf("%+v", verdict)
		}
		var e *host.Error
		if !errors.As(verdict.Opinions[3].Err, &e) || e.ErrorType != events.ErrTimeout {
			t.Errorf("the late one: %v", verdict.Opinions[3].Err)
		}
		if r := one[0]; r.ContextID != "" || r.Metadata.Source != "council" || r.Metadata.Backend != "claude-code" || r.Metadata.Model != "large" ||
			r.Metadata.System != "be kind" || r.Metadata.PermissionMode != api.PermissionDeny {
			t.Errorf("%+v", r)
		}
		if two[0].Metadata.System != "be brief" {
			t.Errorf("%+v", two[0].Metadata)
		}
		got := all[0].Messages[0].Content
		for _, s := range []string{"what is it?", "it is a cat", "it is a dog", `from="second"`} {
			if strings.Count(got, s) != 1 {
				t.Errorf("the synthesis is asked %q", got)
			}
		}
		if strings.Contains(got, "I th") || all[0].Metadata.Source != "council-synthesis" {
			t.Errorf("the synthesis is asked %q", got)
		}
	})
}

func TestCouncilWithoutEnoughAnswers(t *testing.T) {
	c := host.Council{
		Members: []host.Member{
			{Name: "a", Strategy: voice(nil, failing(events.ErrQuota, "")...)},
			{Name: "b", Strategy: voice(nil, saying("yes")...)},
		},
		Synthesis: host.Member{Name: "chair", Strategy: voice(nil, saying("never")...)},
		Enough:    2,
		Billing:   billing.None{},
	}
	var verdict *host.Verdict
	var last error
	for ev, err := range c.Ask(t.Context(), host.Prompt("", "?")) {
		if last = err; ev.Verdict != nil {
			verdict = ev.Verdict
		}
	}
	if last == nil || !strings.Contains(last.Error(), "1 of 2") || !strings.Contains(last.Error(), "a: quota") || verdict == nil || verdict.Synthesis != nil || verdict.Cost.Sign() != 0 {
		t.Fatalf("%v %+v", last, verdict)
	}
	for _, err := range (&host.Council{}).Ask(t.Context(), host.Prompt("", "?")) {
		if err == nil {
			t.Error("an empty council")
		}
	}
}

// Leaving the council ends all of its runs first.
func TestCouncilLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		endless := host.Native(func(ctx context.Context, _ host.Request) iter.Seq2[events.Event, error] {
			return func(yield func(events.Event, error) bool) {
				defer func() { ended++ }()
				if yield(events.Event{Data: started}, nil) {
					<-ctx.Done()
				}
			}
		})
		c := host.Council{Members: []host.Member{{Strategy: endless}}, Synthesis: host.Member{Strategy: endless}}
		for range c.Ask(t.Context(), host.Prompt("", "?")) {
			break
		}
		if ended != 1 {
			t.Errorf("%d members have ended", ended)
		}
	})
}

func TestTurn(t *testing.T) {
	var asked []host.Request
	req := host.Prompt("chat", "hello")
	o, err := host.Collect(host.Turn(t.Context(), voice(&asked, saying("hi")...), req))
	if err != nil || o.Text() != "hi" {
		t.Fatalf("%+v %v", o, err)
	}
	if m := asked[0].Metadata; m.Source != "chat" || m.PermissionMode != api.PermissionDeny || m.Detach || asked[0].ContextID != "chat" {
		t.Errorf("%+v", m)
	}
	req.Tools = []host.ToolDef{host.Tool("buy", "", buy)}
	if _, err := host.Collect(host.Turn(t.Context(), voice(&asked), req)); err == nil || len(asked) != 1 {
		t.Errorf("a turn with tools: %v", err)
	}
}

func TestOutcome(t *testing.T) {
	o := &host.Outcome{}
	for _, d := range []events.Data{
		started,
		events.ReasoningDelta{Delta: "no", ReasoningID: "r0"},
		events.Discarded{ReasoningID: "r0"},
		events.ReasoningDelta{Delta: "hm", ReasoningID: "r1"},
		events.Reasoning{Content: "hm", ReasoningID: "r1"},
		events.MessageDelta{Delta: "ha", MessageID: "m1"},
		events.MessageDelta{Delta: "ha", MessageID: "m1"},
		events.Message{Content: "haha", MessageID: "m1"},
		events.MessageDelta{Delta: "whole", MessageID: "m2"},
		events.Message{Content: "whole", MessageID: "m2"},
		events.Discarded{MessageID: "m2"},
		events.MessageDelta{Delta: "cut", MessageID: "m3"},
	} {
		o.Add(events.Event{Data: d})
	}
	if o.Text() != "haha\n\ncut" || o.Final() != "haha" || o.Shown != "hahawholecut" || strings.Join(o.Reasoning, "|") != "hm" || o.TaskID != started.TaskID {
		t.Errorf("%+v, text %q", o, o.Text())
	}
	var e *host.Error
	if err := o.Err(); !errors.As(err, &e) || e.ErrorType != host.TypeBroken {
		t.Errorf("%v", err)
	}
	limit := events.NewError(events.ErrRateLimit, "slow")
	limit.RetryAfterS = 2
	o.Add(events.Event{Data: limit})
	o.Add(events.Event{Data: events.End{State: events.Failed, Reason: events.ErrRateLimit}})
	if err := o.Err(); !errors.As(err, &e) || e.ErrorType != events.ErrRateLimit || e.RetryAfter != 2*time.Second {
		t.Errorf("%v", err)
	}
}
