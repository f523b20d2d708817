package claudecode_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

func TestCrashInTurn(t *testing.T) {
	f := openFake(t, false, "", act{Expect: userLine}, say("I am"), act{Stderr: "out of luck"}, act{Exit: exit(3)})
	began := time.Now()
	evs, _, err := run(t, f, backendtest.Turn{}, backends.Settings{})
	var e *backends.Error
	if !errors.As(err, &e) || e.Type != events.ErrBackendCrashed || e.Exit == nil || e.Exit.Code != 3 || !strings.Contains(e.Exit.StderrTail, "out of luck") {
		t.Fatal(err)
	}
	if took := time.Since(began); took > atOnce {
		t.Errorf("it took %v to tell", took)
	}
	if m, ok := evs[len(evs)-1].Data.(events.Message); !ok || !m.Partial {
		t.Errorf("the message was not closed as partial: %+v", evs[len(evs)-1])
	}
	<-f.Done()
	if _, _, err := run(t, f, backendtest.Turn{}, backends.Settings{}); class(err) != events.ErrBackendCrashed {
		t.Error(err)
	}
}

func TestDeathBetweenRuns(t *testing.T) {
	f := openFake(t, false, "", act{Expect: userLine}, say("hi"), act{Print: okResult}, act{Exit: exit(5)})
	if _, _, err := run(t, f, backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	<-f.Done()
	if _, _, err := run(t, f, backendtest.Turn{}, backends.Settings{}); class(err) != events.ErrBackendCrashed {
		t.Error(err)
	}
}

func TestStartFails(t *testing.T) {
	for _, c := range []struct{ stderr, class string }{
		{"error: unknown option '--strange'", events.ErrInvalidRequest},
		{"libc is missing", events.ErrBackendUnavailable},
		{"Not logged in · Please run /login", events.ErrAuth},
	} {
		f := openFake(t, true, "", act{Expect: "initialize"}, act{Stderr: c.stderr}, act{Exit: exit(1)})
		_, _, err := run(t, f, backendtest.Turn{}, backends.Settings{})
		if class(err) != c.class || !strings.Contains(err.Error(), c.stderr) {
			t.Errorf("%s: %v", c.stderr, err)
		}
		select {
		case <-f.Done(): // nothing was sent: the conversation is as good as new
			t.Errorf("%s: the conversation is over", c.stderr)
		default:
		}
		if lives(f) {
			t.Errorf("%s: it says that claude lives", c.stderr)
		}
	}
	f := openFake(t, true, "", act{Expect: "initialize"},
		act{Print: `{"type":"control_response","response":{"subtype":"error","request_id":"{{req}}","error":"no such hook"}}`}, act{Drain: true})
	if _, _, err := run(t, f, backendtest.Turn{}, backends.Settings{}); class(err) != events.ErrInvalidRequest {
		t.Error(err)
	}
}

func TestLostSession(t *testing.T) {
	lost := []act{
		{Expect: "initialize"},
		{Print: `{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found with session ID: x"]}`},
		{Exit: exit(1)},
	}
	const session = "52345678-1234-4234-8234-123456789abc"
	f := openFake(t, true, session, lost...)
	evs, _, err := run(t, f, backendtest.Turn{}, backends.Settings{})
	if !errors.Is(err, backends.ErrNewSession) || len(evs) > 0 {
		t.Error(err, len(evs))
	}
	if l := f.launches(t); !slices.Contains(l[0].Args, "--resume") {
		t.Errorf("%q", l[0].Args)
	}
}

func TestClaudeThatDoesNotStop(t *testing.T) {
	f := openFake(t, false, "", act{Expect: userLine}, say("one"), say("two"), act{Hang: true})
	began := time.Now()
	_, _, err := run(t, f, backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}, backends.Settings{})
	if !errors.Is(err, backends.ErrCanceled) {
		t.Error(err)
	}
	if took := time.Since(began); took > atOnce {
		t.Errorf("it took %v", took)
	}
	<-f.Done()
}

func TestCancelWhileStarting(t *testing.T) {
	f := openFake(t, true, "", act{Expect: "initialize"}, act{Hang: true})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, backends.ErrDeadline)
	defer cancel()
	evs, _, err := runIn(ctx, t, f, backendtest.Turn{}, backends.Settings{}, nil)
	if !errors.Is(err, backends.ErrDeadline) || len(evs) > 0 {
		t.Error(err, evs)
	}
	// The next run starts it again.
	f.write(t, append(append([]act(nil), ready...), act{Expect: userLine}, say("now"), act{Print: okResult}, act{Drain: true}))
	evs, _, err = run(t, f, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(texts(evs), []string{"now"}) || !lives(f) {
		t.Error(err, texts(evs), lives(f))
	}
}

func TestCloseBesideRun(t *testing.T) {
	f := openFake(t, false, "", act{Expect: userLine}, say("one"), act{Hang: true})
	closed := make(chan error, 1)
	_, _, err := runIn(t.Context(), t, f, backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}, backends.Settings{}, func() {
		go func() { closed <- f.Close(context.Background()) }() // ends with the child
	})
	if err == nil {
		t.Error("the run completed")
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestCrashWhileWaiting: background work that died with claude was not waited for.
func TestCrashWhileWaiting(t *testing.T) {
	f := openFake(t, false, "", act{Expect: userLine}, live("t1"), say("It runs."), act{Print: okResult}, becomes("idle"), act{Exit: exit(9)})
	_, _, err := run(t, f, backendtest.Turn{}, backends.Settings{Background: backends.BackgroundWait})
	if class(err) != events.ErrBackendCrashed {
		t.Error(err)
	}
}

// TestSteerDies: who steers a claude that dies is not left waiting.
func TestSteerDies(t *testing.T) {
	f := openFake(t, false, "", act{Expect: userLine}, say("hm"), act{Expect: userLine}, act{Exit: exit(9)})
	result := make(chan error, 1)
	rec := backendtest.NewRecorder(backendtest.Turn{}, nil, nil)
	_, err := f.Run(t.Context(), backends.Input{Parts: []events.Part{events.Text("Go.")}}, &watched{Host: rec, on: events.TypeMessageDelta, call: func() {
		go func() { // ends with the run
			result <- f.Conversation.(backends.Steerer).Steer(t.Context(), []events.Part{events.Text("more")})
		}()
	}})
	rec.Close()
	if class(err) != events.ErrBackendCrashed {
		t.Error(err)
	}
	if err := <-result; !errors.Is(err, backends.ErrTooLate) {
		t.Error(err)
	}
}
