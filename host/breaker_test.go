package host_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/host"
)

// answered says who answered a request of the loop.
func answered(t *testing.T, l *host.InnerLoop) string {
	t.Helper()
	o, _, err := ask(t, l, host.Prompt("c", "hello"))
	if err != nil {
		t.Fatal(err)
	}
	if o.Fallback != nil {
		return "native"
	}
	return "agent"
}

// want checks the breaker.
func want(t *testing.T, l *host.InnerLoop, state string, failures int, left time.Duration) {
	t.Helper()
	if s := l.Breaker(); s.State != state || s.Failures != failures || s.Left != left {
		t.Errorf("the breaker is %+v; want %s, %d failures, %s left", s, state, failures, left)
	}
}

func TestFiveFailuresOpenForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		works := false
		m := &memory{answer: func(int, api.Request) any {
			if works {
				return saying("hello")
			}
			return failing(events.ErrBackendCrashed, "")
		}}
		l := newLoop(t, m, &nativeSays{text: "native"}, nil)
		for i := range 5 {
			want(t, l, host.BreakerClosed, i, 0)
			if who := answered(t, l); who != "native" {
				t.Fatalf("%s answered a failed run", who)
			}
		}
		want(t, l, host.BreakerOpen, 5, time.Minute)
		time.Sleep(59 * time.Second)
		want(t, l, host.BreakerOpen, 5, time.Second)
		if who := answered(t, l); who != "native" || m.starts != 5 {
			t.Fatalf("%s answered, %d runs", who, m.starts)
		}
		// The probe fails: a minute more, at once.
		time.Sleep(time.Second)
		want(t, l, host.BreakerHalfOpen, 5, 0)
		answered(t, l)
		want(t, l, host.BreakerOpen, 6, time.Minute)
		// The next one works.
		works = true
		time.Sleep(time.Minute)
		if who := answered(t, l); who != "agent" || m.starts != 7 {
			t.Fatalf("%s answered, %d runs", who, m.starts)
		}
		want(t, l, host.BreakerClosed, 0, 0)
		s := l.Breaker()
		if s.Successes != 1 || s.Failed != 6 || s.Opened != 2 || s.Refused != 1 || s.Message != "" {
			t.Errorf("%+v", s)
		}
		// And it takes five again.
		works = false
		for range 4 {
			answered(t, l)
		}
		want(t, l, host.BreakerClosed, 4, 0)
		works = true
		answered(t, l)
		want(t, l, host.BreakerClosed, 0, 0)
	})
}

func TestLimitsOpenAtOnce(t *testing.T) {
	limit := events.NewError(events.ErrRateLimit, "slow down")
	limit.RetryAfterS = 20
	for name, c := range map[string]struct {
		answer any
		left   time.Duration
	}{
		"rate limit":         {failing(events.ErrRateLimit, ""), 300 * time.Second},
		"quota":              {failing(events.ErrQuota, "some text"), 300 * time.Second},
		"one that says":      {[]events.Data{started, limit, events.End{State: events.Failed}}, 20 * time.Second},
		"HTTP 429":           {refusal{429, "rate_limit", ""}, 300 * time.Second},
		"HTTP 503":           {refusal{503, "rate_limit", ""}, 300 * time.Second},
		"HTTP 503 that says": {refusal{503, "", "90"}, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{answer: func(n int, _ api.Request) any {
					if n == 0 {
						return c.answer
					}
					return failing(events.ErrTimeout, "")
				}}
				l := newLoop(t, m, &nativeSays{text: "native"}, nil)
				if who := answered(t, l); who != "native" {
					t.Fatal(who)
				}
				want(t, l, host.BreakerOpen, 1, c.left)
				if !l.Breaker().Limited {
					t.Error("it is not said to be a limit")
				}
				time.Sleep(c.left - time.Nanosecond)
				answered(t, l)
				if m.starts != 1 {
					t.Errorf("%d runs while it was open", m.starts)
				}
				time.Sleep(time.Nanosecond)
				// The probe fails in another way: the usual minute follows.
				answered(t, l)
				want(t, l, host.BreakerOpen, 2, time.Minute)
				if l.Breaker().Limited {
					t.Error("it is said to be a limit")
				}
			})
		})
	}
}

func TestBadRequestsAndCancelsNeverCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer any
		m := &memory{answer: func(int, api.Request) any { return answer }}
		l := newLoop(t, m, &nativeSays{text: "native"}, nil)
		canceled := []events.Data{started, events.NewError(events.ErrCanceled, "by somebody"), events.End{State: events.Canceled, Reason: "canceled"}}
		for range 3 {
			for _, answer = range []any{
				failing(events.ErrInvalidRequest, ""), failing(events.ErrContextLength, ""),
				refusal{400, "invalid_request", ""},
				refusal{413, "too_large", ""},
				refusal{409, "busy", ""},
				canceled,
			} {
				o, _, err := ask(t, l, host.Prompt("c", "x"))
				if err != nil {
					t.Fatal(err)
				}
				if is := o.State == events.Canceled; is == (o.Fallback != nil) {
					t.Errorf("canceled %v, fallback %+v", is, o.Fallback)
				}
				want(t, l, host.BreakerClosed, 0, 0)
			}
		}
		// The caller's own cancel.
		answer = cut{started}
		for range 6 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for _, err := range l.Respond(ctx, host.Prompt("c", "x")) {
				cancel()
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		}
		want(t, l, host.BreakerClosed, 0, 0)
		if m.cancels != 6 {
			t.Errorf("%d runs were canceled", m.cancels)
		}
	})
}

// While a probe is on, the others are native; as soon as the agent is seen to
// work, they are not.
func TestOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{answer: func(n int, _ api.Request) any {
			switch n {
			case 0:
				return failing(events.ErrRateLimit, "")
			case 1:
				return saying("the probe")
			}
			return saying("after it")
		}}
		l := newLoop(t, m, &nativeSays{text: "native"}, nil)
		answered(t, l)
		time.Sleep(300 * time.Second)
		next, stop := iter.Pull2(l.Respond(t.Context(), host.Prompt("", "probe")))
		defer stop()
		if ev, _, _ := next(); ev.Type() != events.TypeTaskID {
			t.Fatalf("%v", ev)
		}
		want(t, l, host.BreakerHalfOpen, 1, 0)
		if who := answered(t, l); who != "native" {
			t.Errorf("%s answered beside the probe", who)
		}
		if ev, _, _ := next(); ev.Type() != events.TypeMessageDelta {
			t.Fatalf("%v", ev)
		}
		want(t, l, host.BreakerClosed, 0, 0)
		if who := answered(t, l); who != "agent" {
			t.Errorf("%s answered after the probe was seen to work", who)
		}
	})
}

// A canceled probe says nothing: the next one is let through.
func TestACanceledProbeIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{answer: func(n int, _ api.Request) any {
			if n == 0 {
				return failing(events.ErrQuota, "")
			}
			return saying("x")
		}}
		l := newLoop(t, m, &nativeSays{text: "native"}, nil)
		answered(t, l)
		time.Sleep(300 * time.Second)
		for range l.Respond(t.Context(), host.Prompt("", "probe")) {
			break
		}
		want(t, l, host.BreakerHalfOpen, 1, 0)
		if who := answered(t, l); who != "agent" {
			t.Errorf("%s answered", who)
		}
	})
}

func TestBreakerOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{answer: func(int, api.Request) any { return failing(events.ErrInternal, "") }}
		l := newLoop(t, m, &nativeSays{text: "native"}, &host.LoopOptions{Breaker: host.BreakerOptions{Failures: 2, Cooldown: time.Second}})
		answered(t, l)
		answered(t, l)
		want(t, l, host.BreakerOpen, 2, time.Second)
	})
}
