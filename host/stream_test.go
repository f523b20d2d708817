package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/host"
)

const helloText = "haha\u0085\u2028 🙂\n\ndata: x"

func checkHello(t *testing.T, got []events.Event) {
	t.Helper()
	if len(got) != 10 || textOf(got) != helloText {
		t.Fatalf("%d events, text %q", len(got), textOf(got))
	}
	if _, ok := got[len(got)-1].Data.(events.End); !ok {
		t.Fatalf("the last event is %T", got[len(got)-1].Data)
	}
}

func TestStream(t *testing.T) {
	f := newFake(t, hello)
	checkHello(t, collect(t, f.client().Stream(t.Context(), prompt())))
	if f.seen().streams != 1 || len(f.seen().cancels) != 0 {
		t.Fatalf("%d connections, %d cancels", f.seen().streams, len(f.seen().cancels))
	}
}

// The first connection is cut after every possible number of bytes.
func TestStreamCutAtEveryByte(t *testing.T) {
	probe := newFake(t, hello)
	collect(t, probe.client().Stream(t.Context(), prompt()))
	total := len("data: [DONE]\n\n")
	for _, fr := range probe.frames {
		total += len(fr)
	}
	for at := range total + 1 {
		f := newFake(t, hello)
		f.plan = func(n int) fault { return fault{cut: at, cuts: n == 0} }
		checkHello(t, collect(t, f.client().Stream(t.Context(), prompt())))
		f.srv.CloseClientConnections()
	}
}

func TestStreamSurvives(t *testing.T) {
	for name, plan := range map[string]func(n int) fault{
		"no answer at all, twice":  func(n int) fault { return fault{noHeader: n < 2} },
		"a cut after each event":   func(n int) fault { return fault{cut: 300, cuts: n < 40} },
		"a server that starts":     func(n int) fault { return fault{status: map[bool]int{true: 503}[n == 1], cut: 200, cuts: n == 0} },
		"a gateway's error":        func(n int) fault { return fault{status: map[bool]int{true: 502}[n < 2]} },
		"repeated events":          func(n int) fault { return fault{repeat: 3, cut: 700, cuts: n < 2} },
		"left out events":          func(n int) fault { return fault{skip: map[bool]int64{true: 2}[n == 1], cut: 400, cuts: n == 0} },
		"a clean end too early":    func(n int) fault { return fault{noDone: n < 2} },
		"silence":                  func(n int) fault { return fault{silent: n == 1, cut: 400, cuts: n == 0} },
		"a slow start and a break": func(n int) fault { return fault{delay: 10 * time.Millisecond, cut: 900, cuts: n == 0} },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, hello)
			f.plan = plan
			c := f.client(func(o *host.Options) { o.ReadTimeout = 100 * time.Millisecond })
			checkHello(t, collect(t, c.Stream(t.Context(), prompt())))
		})
	}
}

func TestStreamPassesHeartbeats(t *testing.T) {
	f := newFake(t, hello)
	f.plan = func(int) fault { return fault{beat: true} }
	beats := 0
	for ev, err := range f.client().Stream(t.Context(), prompt()) {
		if err != nil {
			t.Fatal(err)
		}
		if h, ok := ev.Data.(events.Heartbeat); ok && h.ElapsedS == 15 {
			beats++
		}
	}
	if beats != 1 {
		t.Fatalf("%d heartbeats", beats)
	}
}

func TestStreamGivesUp(t *testing.T) {
	f := newFake(t, hello)
	f.plan = func(n int) fault { return fault{noHeader: n > 0, cut: 300, cuts: true} }
	c := f.client(func(o *host.Options) { o.GiveUp = 50 * time.Millisecond })
	err := lastError(t, c.Stream(t.Context(), prompt()))
	var e *host.Error
	if !errors.As(err, &e) || e.ErrorType != host.TypeBroken || !strings.Contains(e.Detail, "given up") {
		t.Fatalf("%v", err)
	}
	if len(f.seen().cancels) != 1 {
		t.Fatalf("a run that nobody follows was canceled %d times", len(f.seen().cancels))
	}
}

func lastError(t *testing.T, stream func(func(events.Event, error) bool)) (last error) {
	t.Helper()
	for _, err := range stream {
		if last != nil {
			t.Fatal("something came after the error")
		}
		last = err
	}
	return last
}

// A missing server is an error at once, not a pause.
func TestStreamUnreachable(t *testing.T) {
	f := newFake(t, hello)
	c := f.client(func(o *host.Options) { o.MinBackoff, o.MaxBackoff = time.Hour, time.Hour })
	f.srv.Close()
	err := lastError(t, c.Stream(t.Context(), prompt()))
	var e *host.Error
	if !errors.As(err, &e) || e.ErrorType != host.TypeUnreachable || e.Status != 0 {
		t.Fatalf("%v", err)
	}
}

func TestStreamRefused(t *testing.T) {
	for _, status := range []int{302, 400, 401, 404, 409, 413} {
		f := newFake(t, hello)
		f.plan = func(int) fault { return fault{status: status} }
		err := lastError(t, f.client().Stream(t.Context(), prompt()))
		var e *host.Error
		if !errors.As(err, &e) || e.Status != status || e.Detail != "as planned" || e.ErrorType != "internal" {
			t.Errorf("%d: %v", status, err)
		}
		if len(f.seen().cancels) != 0 {
			t.Errorf("%d: a run that was not taken was canceled", status)
		}
	}
}

func TestStreamLeftCancels(t *testing.T) {
	for _, detach := range []bool{false, true} {
		f := newFake(t, func(f *fake) { f.begin(); <-f.canceled })
		req := prompt()
		req.Metadata.Detach = detach
		for range f.client().Stream(t.Context(), req) {
			break
		}
		want := 1
		if detach {
			want = 0
			close(f.canceled)
		}
		if len(f.seen().cancels) != want {
			t.Errorf("detach %v: %d cancels", detach, len(f.seen().cancels))
		}
	}
}

func TestStreamContextEnds(t *testing.T) {
	f := newFake(t, func(f *fake) { f.begin(); <-f.canceled })
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for _, err := range f.client().Stream(ctx, prompt()) {
		last = err
		cancel(cause)
	}
	if !errors.Is(last, cause) || len(f.seen().cancels) != 1 {
		t.Fatalf("%v, %d cancels", last, len(f.seen().cancels))
	}
}

// Types that were not asked for don't come after a break either.
func TestStreamKeepsItsFilter(t *testing.T) {
	f := newFake(t, func(f *fake) {
		f.begin()
		f.say(events.Status{State: events.StateWorking}, events.MessageDelta{Delta: "x", MessageID: "m"}, events.Message{Content: "x", MessageID: "m"})
		f.end()
	})
	f.plan = func(n int) fault { return fault{cut: 200, cuts: n == 0} }
	req := prompt()
	req.Metadata.Events = api.Events{api.EventsBasic}
	var types []events.Type
	for ev, err := range f.client().Stream(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, ev.Type())
	}
	if len(types) != 5 || types[1] != events.TypeMessageDelta {
		t.Fatalf("%v", types)
	}
}

func TestFollow(t *testing.T) {
	f := newFake(t, hello)
	c := f.client()
	collect(t, c.Stream(t.Context(), prompt()))
	f.plan = func(n int) fault { return fault{cut: 100, cuts: n == 1} }
	var ids []int64
	for ev, err := range c.Follow(t.Context(), f.taskID(), 7) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, ev.ID)
	}
	if len(ids) != 3 || ids[0] != 8 {
		t.Fatalf("%v", ids)
	}
}

func TestFollowNothingLeftAndGone(t *testing.T) {
	f := newFake(t, hello)
	f.extra = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Last-Event-ID") == "10" {
			w.WriteHeader(http.StatusNoContent)
		} else {
			writeJSON(w, http.StatusGone, api.Gone{Error: api.Error{Detail: "gone", ErrorType: "not_found"}, Oldest: 5, Latest: 10})
		}
		return true
	}
	for range f.client().Follow(t.Context(), "t", 10) {
		t.Fatal("something came")
	}
	var e *host.Error
	if err := lastError(t, f.client().Follow(t.Context(), "t", 99)); !errors.As(err, &e) || e.Status != 410 || e.Oldest != 5 || e.Latest != 10 {
		t.Fatalf("%v", err)
	}
}

// A start that is refused by a limit, or for good, is an error at once; a
// server that is not up yet is waited for, but not for ever.
func TestStreamStartRefused(t *testing.T) {
	for name, c := range map[string]struct {
		answer refusal
		within time.Duration
		starts func(int) bool
	}{
		"rate limit": {refusal{503, "rate_limit", ""}, 0, func(n int) bool { return n == 1 }},
		"429":        {refusal{429, "", ""}, 0, func(n int) bool { return n == 1 }},
		"come later": {refusal{503, "", "60"}, 0, func(n int) bool { return n == 1 }},
		"a gateway":  {refusal{502, "", ""}, time.Minute, func(n int) bool { return n > 5 }},
		"no reason":  {refusal{503, "", ""}, time.Minute, func(n int) bool { return n > 5 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{answer: func(int, api.Request) any { return c.answer }}
				began := time.Now()
				err := lastError(t, m.client(t).Stream(t.Context(), prompt()))
				var e *host.Error
				if !errors.As(err, &e) || !errors.As(errors.Join(err, e.Err), &e) || time.Since(began) > c.within || !c.starts(m.starts) {
					t.Errorf("%v after %v, %d starts", err, time.Since(began), m.starts)
				}
			})
		})
	}
}

// A run that the server does not know any more, and a log that has moved on,
// are errors, not a second run.
func TestStreamLost(t *testing.T) {
	for status, latest := range map[int]int64{404: 0, 410: 3} {
		f := newFake(t, hello)
		f.plan = func(n int) fault { return fault{cut: 300, cuts: n == 0} }
		f.extra = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/events") {
				return false
			}
			writeJSON(w, status, api.Gone{Error: api.Error{Detail: "gone", ErrorType: "not_found"}, Oldest: latest, Latest: latest})
			return true
		}
		var e *host.Error
		if err := lastError(t, f.client().Stream(t.Context(), prompt())); !errors.As(err, &e) || e.Status != status || e.Latest != latest {
			t.Errorf("%d: %v", status, err)
		}
		if f.seen().posts != 1 || len(f.seen().cancels) != 1 {
			t.Errorf("%d: %d posts, %d cancels", status, f.seen().posts, len(f.seen().cancels))
		}
	}
}

// A whole stream has a deadline, whatever its connections do; its run is
// canceled then.
func TestStreamDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{answer: func(int, api.Request) any { return cut{started} }}
		c, err := host.New("http://sandbox", &host.Options{Deadline: time.Minute, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := m.RoundTrip(r)
			if err == nil && r.URL.Path == "/message:stream" {
				resp.Body = io.NopCloser(io.MultiReader(resp.Body, hangs{r.Context()}))
			}
			return resp, err
		})})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var e *host.Error
		if err := lastError(t, c.Stream(t.Context(), prompt())); !errors.As(err, &e) || e.ErrorType != events.ErrTimeout || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if m.cancels != 1 {
			t.Errorf("%d cancels", m.cancels)
		}
	})
}

// hangs is a body that says nothing until its request is given up.
type hangs struct{ ctx context.Context }

func (h hangs) Read([]byte) (int, error) {
	<-h.ctx.Done()
	return 0, context.Cause(h.ctx)
}

// A question whose answer does not fit is asked again, with the reason.
func TestQuestionAskedAgain(t *testing.T) {
	f := newFake(t, func(f *fake) {
		f.begin()
		f.say(events.InputRequired{RequestID: "q1", Message: "color?"})
		f.waitFor(func() bool { return len(f.answers["q1"]) == 1 })
		f.end()
	})
	f.extra = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/requests/") && r.ContentLength < 20 {
			writeJSON(w, 400, api.Error{Detail: "the answer does not fit: too short", ErrorType: "invalid_request"})
			return true
		}
		return false
	}
	var refused []string
	req := prompt()
	req.Question = func(_ context.Context, q host.Question) (json.RawMessage, error) {
		refused = append(refused, q.Refused)
		return json.Marshal(strings.Repeat("red", len(refused)*len(refused)))
	}
	collect(t, f.client().Stream(t.Context(), req))
	if len(refused) < 2 || refused[0] != "" || !strings.Contains(refused[1], "too short") || len(f.seen().answers["q1"]) != 1 {
		t.Errorf("%q, answers %v", refused, f.seen().answers)
	}
}
