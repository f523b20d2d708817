//go:build linux

package parity_test

import (
	"net"
	"net/http"
	"strings"
	"time"

	"innerd/events"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// failing is a run that a model's failure ends.
type failing struct {
	turn   modelstub.Turn
	class  string
	phrase string // the message begins so
}

var errorRows = []row{
	{"error-bad-key", fails(failing{turn: modelstub.Fail(401), class: events.ErrAuth, phrase: "auth: unavailable: "})},
	{"error-rate-limit", rateLimit},
	{"error-quota", fails(failing{turn: modelstub.NoCredit(), class: events.ErrQuota, phrase: "rate limit (quota): "})},
	{"error-overloaded", fails(failing{turn: modelstub.Overloaded(), class: events.ErrOverloaded, phrase: "overloaded: "})},
	{"error-unknown-model", fails(failing{turn: modelstub.Fail(404), class: events.ErrModelUnavailable, phrase: "model unavailable: "})},
	{"error-context-too-long", fails(failing{turn: modelstub.ContextTooLong(), class: events.ErrContextLength, phrase: "context too long: "})},
	{"error-cut-stream", fails(failing{turn: modelstub.Say(modelstub.Text("half a sentence").Cut(modelstub.CutReset)).CutWhole(modelstub.CutReset), class: events.ErrOverloaded})},
	{"error-refused-connection", refused},
	{"error-no-first-byte", noFirstByte},
	{"error-no-login", noLogin},
}

// most is how often a model may be asked for one run that fails.
const most = 8

func fails(f failing) func(*world) {
	return func(w *world) {
		k := w.talk(nil)
		p := k.post("Hello.", nil, always(f.turn, obj{"error": obj{"error_type": f.class, "message": "as the row wants it"}})).Whole()
		failed(w, p, f)
		if n := k.asks(); n > most {
			w.Errorf("the model was asked %d times", n)
		}
		// The conversation goes on when the model is well again.
		k.messages = nil
		if next := k.run("Again.", nil, say("Here I am.")); !strings.Contains(next.Text(), "Here I am.") {
			w.Errorf("then it said %q", next.Text())
		}
	}
}

func failed(w *world, p *server.Tape, f failing) {
	w.Helper()
	e := p.Failure()
	if e == nil || p.End().State != events.Failed || p.End().Reason != f.class {
		w.Fatalf("it ended as %+v with %+v", p.End(), e)
	}
	if e.ErrorType != f.class || !strings.HasPrefix(e.Message, f.phrase) || len(e.Message) <= len(f.phrase) {
		w.Errorf("the error is %+v", *e)
	}
}

// rateLimit: a limit of seconds and one of minutes. Where its time is known,
// runs of that time are refused before they begin.
func rateLimit(w *world) {
	for _, after := range []time.Duration{2 * time.Second, 2 * time.Minute} {
		w.alone() // all its runs are refused for that time
		k := w.talk(nil)
		sim := obj{"error": obj{"error_type": events.ErrRateLimit, "message": "as the row wants it", "retry_after_s": after.Seconds()}}
		p := k.post("Hello.", nil, always(modelstub.RateLimited(after), sim)).Whole()
		failed(w, p, failing{class: events.ErrRateLimit, phrase: "rate limit: "})
		if n := k.asks(); n > most {
			w.Errorf("the model was asked %d times", n)
		}
		told := p.Failure().RetryAfterS
		if untold := w.a.untold == after; untold != (told == 0) || told > after.Seconds() {
			w.Errorf("a limit of %v is told as %v s; untold is %v", after, told, untold)
		}
		body := obj{"context_id": "another", "messages": []any{message("user", "Hello.")}, "metadata": with(k.meta, obj{"task_id": "after-the-limit"})}
		if k.sc == nil {
			body["metadata"].(obj)["agent_options"] = scripted(w, []step{say("Hello.")})
		} else {
			k.model.arrange([]step{say("Hello.")})
		}
		status, answer := w.s.Call(http.MethodPost, "/message:send", body)
		over := time.Since(time.UnixMilli(failedAt(p))).Seconds() > told // a busy machine may take longer than a short limit
		if want := map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusOK}[told > 0]; status != want && !(over && status == http.StatusOK) {
			w.Errorf("a limit of %v (told as %v s): the next run gets status %d: %s", after, told, status, answer)
		}
	}
}

// failedAt is when a run's error was told, in milliseconds.
func failedAt(p *server.Tape) (ts int64) {
	for _, e := range p.Events() {
		if e.Type() == events.TypeError {
			ts = e.TS
		}
	}
	return ts
}

// inTime is for what would otherwise last as long as a turn may, 15 minutes.
const inTime = 3 * time.Minute

// refused: nobody listens where the model should be.
func refused(w *world) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	_ = ln.Close() // nobody else takes the port in this test's time
	k := w.talk(obj{"credentials": obj{"api_key": "sk-dummy", "base_url": url}})
	began := time.Now()
	p := k.post("Hello.", nil).Whole()
	failed(w, p, failing{class: events.ErrOverloaded})
	retries := 0
	for _, s := range server.Of[events.Status](p) {
		if s.State == events.StateRetrying {
			retries++
		}
	}
	if retries == 0 || retries > most { // nobody is there who could count
		w.Errorf("it told %d times that it tries again", retries)
	}
	if took := time.Since(began); took > inTime {
		w.Errorf("it took %v", took)
	}
}

// noFirstByte: a model that takes the request and never answers ends with the
// turn's time, and is hung up on.
func noFirstByte(w *world) {
	k := w.talk(obj{"timeout_s": 3})
	began := time.Now()
	p := k.post("Hello.", nil, always(modelstub.NoAnswer(), obj{"stall": true})).Whole()
	failed(w, p, failing{class: events.ErrTimeout, phrase: "timeout: "})
	if took := time.Since(began); took > inTime {
		w.Errorf("it took %v", took)
	}
	if k.sc != nil {
		if err := k.sc.AwaitIdle(w.Context()); err != nil {
			w.Error(err)
		}
		if n := k.asks(); n > 2 {
			w.Errorf("the model was asked %d times", n)
		}
	}
	k.meta["timeout_s"], k.messages = 60, nil
	k.run("Again.", nil, say("Here I am."))
}

// noLogin: without any key the run says at once what to do.
func noLogin(w *world) {
	k := w.talk(nil)
	delete(k.meta, "credentials")
	began := time.Now()
	p := k.post("Hello.", nil, say("Never said.")).Whole()
	failed(w, p, failing{class: events.ErrAuth, phrase: "auth: unavailable: "})
	if took := time.Since(began); took > inTime {
		w.Errorf("it took %v", took)
	}
	if k.asks() != 0 {
		w.Error("the model was asked")
	}
}
