//go:build linux

package parity_test

import (
	"net"
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
	phrase string  // the message begins so
	after  float64 // retry_after_s, at least
}

var errorRows = []row{
	{"error-bad-key", fails(failing{turn: modelstub.Fail(401), class: events.ErrAuth, phrase: "auth: unavailable: "})},
	{"error-rate-limit", fails(failing{turn: modelstub.RateLimited(2 * time.Second), class: events.ErrRateLimit, phrase: "rate limit: ", after: 1})},
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
		if f.after > 0 { // all runs of the server are refused for that time
			w.alone()
		}
		k := w.talk(nil)
		sim := obj{"error_type": f.class, "message": "as the row wants it"}
		if f.after > 0 {
			sim["retry_after_s"] = 2
		}
		p := k.post("Hello.", nil, always(f.turn, obj{"error": sim})).Whole()
		failed(w, p, f)
		if n := k.asks(); n > most {
			w.Errorf("the model was asked %d times", n)
		}
		// The conversation goes on when the model is well again.
		if e := p.Failure(); e != nil {
			time.Sleep(time.Duration(e.RetryAfterS*1000+100) * time.Millisecond)
		}
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
	if f.after > 0 && w.a.partly["error-rate-limit"] != "" { // the agent does not pass it on
		if f.after = 0; e.RetryAfterS != 0 {
			w.Error("the time is told after all")
		}
	}
	if e.ErrorType != f.class || !strings.HasPrefix(e.Message, f.phrase) || len(e.Message) <= len(f.phrase) || e.RetryAfterS < f.after {
		w.Errorf("the error is %+v", *e)
	}
}

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
	if took := time.Since(began); took > 45*time.Second {
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
	if took := time.Since(began); took > 20*time.Second {
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
	if took := time.Since(began); took > 10*time.Second {
		w.Errorf("it took %v", took)
	}
	if k.asks() != 0 {
		w.Error("the model was asked")
	}
}
