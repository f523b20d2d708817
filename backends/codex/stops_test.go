package codex_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

// TestDoesNotStop: what does not stop when it is asked to is ended, if it is
// nobody else's.
func TestDoesNotStop(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{"turn/start": {{accepted, started, said("one")}}, "turn/interrupt": {{done}}})
	c := st.open(idA, "")
	began := time.Now()
	_, _, err := run(t, c, backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}, backends.Settings{})
	if !errors.Is(err, backends.ErrCanceled) {
		t.Error(err)
	}
	if took := time.Since(began); took > atOnce {
		t.Errorf("it took %v", took)
	}
	<-c.Done()
}

// pair runs a turn that lasts beside one that is canceled and does not stop.
func pair(t *testing.T, st *stage) (c, d backends.Conversation, evs []events.Event, canceled, beside error) {
	t.Helper()
	c, d = st.open(idA, ""), st.open(idB, "")
	var both sync.WaitGroup
	talking := make(chan struct{})
	both.Go(func() {
		turn := backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}
		evs, _, beside = runIn(t.Context(), t, d, turn, backends.Settings{}, func() { close(talking) })
	})
	<-talking
	_, _, canceled = run(t, c, backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}, backends.Settings{})
	both.Wait()
	if n := len(st.launches()); n != 1 {
		t.Errorf("%d processes", n)
	}
	return c, d, evs, canceled, beside
}

// TestGivenUp: in a process that others share, what does not stop is given up,
// and its late words are nobody's.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	const other = `{"method":"item/completed","params":{"threadId":"00000000-0000-7000-8000-000000000001","turnId":"turn-00000000-0000-7000-8000-000000000001-1","item":{"type":"agentMessage","id":"i2","text":"through"}}}`
	const end = `{"method":"turn/completed","params":{"threadId":"00000000-0000-7000-8000-000000000001","turn":{"id":"turn-00000000-0000-7000-8000-000000000001-1","status":"completed"}}}`
	st := newStage(t, script{
		"turn/start": {{accepted, started, said("one")}}, "turn/interrupt": {{done}},
		"thread/loaded/list": {{done, said("too late"), other, end}},
	})
	c, d, evs, canceled, beside := pair(t, st)
	if !errors.Is(canceled, backends.ErrCanceled) || beside != nil {
		t.Error(canceled, beside)
	}
	if got := texts(evs); !slices.Equal(got, []string{"one", "through"}) {
		t.Errorf("beside it: %q", got)
	}
	<-c.Done()
	select {
	case <-d.Done():
		t.Error("the other conversation is gone too")
	default:
	}
}

// TestDeaf: a shared process that answers nothing any more is ended, and with
// it every run in it.
func TestDeaf(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{"turn/start": {{accepted, started, said("one")}}, "turn/interrupt": {{"!deaf"}}})
	c, d, _, canceled, beside := pair(t, st)
	if !errors.Is(canceled, backends.ErrCanceled) || class(beside) != events.ErrBackendCrashed {
		t.Error(canceled, beside)
	}
	<-c.Done()
	<-d.Done()
}

// TestCrashBeside: the death of a shared process is each run's own, with how it ended.
func TestCrashBeside(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{"turn/start": {{accepted, started, said("one")}, {accepted, started, "!stderr out of luck", "!exit 5"}}})
	c, d := st.open(idA, ""), st.open(idB, "")
	var first error
	var both sync.WaitGroup
	talking := make(chan struct{})
	both.Go(func() {
		turn := backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}
		_, _, first = runIn(t.Context(), t, c, turn, backends.Settings{}, func() { close(talking) })
	})
	<-talking
	_, _, second := run(t, d, backendtest.Turn{}, backends.Settings{})
	both.Wait()
	for _, err := range []error{first, second} {
		var e *backends.Error
		if !errors.As(err, &e) || e.Type != events.ErrBackendCrashed || e.Exit == nil || e.Exit.Code != 5 || !strings.Contains(e.Message, "out of luck") {
			t.Errorf("%v", err)
		}
	}
	<-c.Done()
	<-d.Done()
	// The next conversation takes another process.
	e := st.open(idA, "")
	_, _, _ = run(t, e, backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}, backends.Settings{})
	if n := len(st.launches()); n != 2 {
		t.Errorf("%d processes", n)
	}
}

// TestLate: what comes after the end is nobody's: a tool is not called, nothing
// is permitted, nothing is said in the next run.
func TestLate(t *testing.T) {
	t.Parallel()
	old := strings.NewReplacer("{{turn}}", "turn-{{thread}}-1")
	st := newStage(t, script{"turn/start": {{accepted, started, said("one"), finished}, {
		accepted, started,
		old.Replace(said("too late")),
		old.Replace(`{"id":"p","method":"item/commandExecution/requestApproval","params":{"threadId":"{{thread}}","turnId":"{{turn}}","itemId":"x","command":"true"}}`),
		`!wait "decision":"decline"`,
		old.Replace(`{"id":"c","method":"item/tool/call","params":{"threadId":"{{thread}}","turnId":"{{turn}}","callId":"x","tool":"alpha","arguments":{}}}`),
		`!wait "success":false`,
		said("two"), finished,
	}}})
	c := st.open(idA, "")
	for _, want := range []string{"one", "two"} {
		evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{Tools: []backends.Tool{tool("alpha")}})
		if err != nil || !slices.Equal(texts(evs), []string{want}) {
			t.Errorf("%q, %v", texts(evs), err)
		}
	}
}

// TestCloseBesideRun: a conversation that is closed ends its run.
func TestCloseBesideRun(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{"turn/start": {{accepted, started, said("one")}}})
	c := st.open(idA, "")
	var all sync.WaitGroup
	turn := backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}
	_, _, err := runIn(t.Context(), t, c, turn, backends.Settings{}, func() {
		all.Go(func() {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
	all.Wait()
	if err == nil || !strings.Contains(err.Error(), "closed") {
		t.Error(err)
	}
}
