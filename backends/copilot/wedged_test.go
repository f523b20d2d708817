package copilot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/copilotscript"
	"innerd/test/modelstub"
)

// What an answer may take here: less than a test wants to wait,
// and more than a healthy fake takes on a machine that has much to do.
const (
	answerTime = 4 * time.Second
	inputTime  = 6 * time.Second // that to a turn's input
)

// atOnce is far above what a cancel or a death takes to be told on a busy
// machine, and below callLimit, 30 s, which it would take where nobody noticed.
const atOnce = 25 * time.Second

// newWedged is a fake that may take a short time for an answer.
func newWedged(t *testing.T, script ...act) *faked {
	t.Helper()
	f := newFake(t, script...)
	f.SetLimits(answerTime, inputTime)
	return f
}

// notAnswered checks that an error says what was not answered, and for how long.
func notAnswered(t *testing.T, err error, method string) {
	t.Helper()
	limit := answerTime
	if method == "session.send" {
		limit = inputTime
	}
	if class(err) != events.ErrBackendCrashed || !strings.Contains(err.Error(), fmt.Sprintf("copilot did not answer %s in %v", method, limit)) {
		t.Errorf("%v, want one that names %s", err, method)
	}
}

// runsWell checks that a run is answered, by a process of its own.
func (f *faked) runsWell(t *testing.T, session string) {
	t.Helper()
	f.write(t, acts(send("w1"), []act{say("well")}, stop))
	c := f.open(t, func(cfg *backends.Config) { cfg.Session.ID = session })
	rec, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(messages(rec), []string{"well"}) {
		t.Errorf("the next run: %v, %q", err, messages(rec))
	}
	if n := len(f.launches(t)); n != 2 {
		t.Errorf("%d processes, want 2", n)
	}
}

// lastCall is a model turn with one call, which has ended.
var lastCall = []act{
	event(`{"type":"assistant.message","data":{"messageId":"m","content":"","toolRequests":[{"toolCallId":"c","name":"view"}]}}`),
	event(`{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"view","arguments":{}}}`),
	event(`{"type":"tool.execution_complete","data":{"toolCallId":"c","success":true,"result":{"content":"x"}}}`),
}

// TestCallsUnanswered: a copilot that leaves a call unanswered is ended, whatever
// the call is; the run says which, and the next one has another process.
func TestCallsUnanswered(t *testing.T) {
	t.Parallel()
	unanswered := func(method string) []act { return []act{{Expect: `"method":"` + method + `"`}} }
	deaf := []act{{Hang: true}}
	for name, c := range map[string]struct {
		method  string
		script  []act
		session string
		set     backends.Settings
	}{
		"create":           {method: "session.create", script: unanswered("session.create")},
		"create, and deaf": {method: "session.create", script: acts(unanswered("session.create"), deaf)},
		"resume":           {method: "session.resume", script: unanswered("session.resume"), session: "s1"},
		"effort":           {method: "session.model.setReasoningEffort", script: unanswered("session.model.setReasoningEffort"), session: "s1"},
		"send":             {method: "session.send", script: unanswered("session.send")},
		"send, and deaf":   {method: "session.send", script: acts(unanswered("session.send"), deaf), session: "s1"},
		"abort":            {method: "session.abort", script: acts(send("i1"), lastCall, unanswered("session.abort")), set: backends.Settings{MaxTurns: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newWedged(t, c.script...)
			f.keepSession(t, "s1")
			conv := f.open(t, func(cfg *backends.Config) { cfg.Session.ID = c.session })
			_, _, err := run(t, t.Context(), conv, backendtest.Turn{}, c.set)
			notAnswered(t, err, c.method)
			<-conv.Done()
			if lives(conv) || f.running() {
				t.Error("it lives on")
			}
			f.runsWell(t, c.session)
		})
	}
}

// beside has a turn of d run while do does something in the same process.
func beside(t *testing.T, f *faked, d backends.Conversation, do func()) (*backendtest.Recorder, error) {
	t.Helper()
	type ending struct {
		rec *backendtest.Recorder
		err error
	}
	done := make(chan ending, 1)
	go func() { // ends with Run
		rec, _, err := run(t, t.Context(), d, backendtest.Turn{}, backends.Settings{})
		done <- ending{rec, err}
	}()
	f.await(t, `"method":"session.send"`, 1)
	do()
	e := <-done
	return e.rec, e.err
}

// TestUnansweredBeside: in a process that others share, a call without an answer
// costs the others nothing as long as it answers a ping; but nobody new is put
// into it, and it ends with the last of them.
func TestUnansweredBeside(t *testing.T) {
	t.Parallel()
	const sid = "d1"
	f := newWedged(t, acts(send("i1"), []act{
		{Expect: `"method":"session.create"`},
		{Expect: `"method":"ping"`},
		{Answer: `{}`},
		{Other: sid},
		say("through"),
	}, stop)...)
	f.keepSession(t, sid)
	d := f.open(t, func(cfg *backends.Config) { cfg.Session.ID = sid })
	rec, err := beside(t, f, d, func() {
		c := f.open(t, nil)
		_, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{})
		notAnswered(t, err, "session.create")
		<-c.Done()
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if err != nil || !slices.Equal(messages(rec), []string{"through"}) || isDone(d) {
		t.Errorf("beside it: %v, %q", err, messages(rec))
	}
	f.runsWell(t, "")
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(time.Minute); f.processes() > 1; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the process that nobody has lives on")
		}
	}
}

// TestUnansweredForAll: one that is dead to everybody is ended, and with it the
// run beside, which says why.
func TestUnansweredForAll(t *testing.T) {
	t.Parallel()
	f := newWedged(t, acts(send("i1"), []act{{Expect: `"method":"session.create"`}, {Hang: true}})...)
	f.keepSession(t, "d1")
	d := f.open(t, func(cfg *backends.Config) { cfg.Session.ID = "d1" })
	_, err := beside(t, f, d, func() {
		_, _, err := run(t, t.Context(), f.open(t, nil), backendtest.Turn{}, backends.Settings{})
		notAnswered(t, err, "session.create")
	})
	notAnswered(t, err, "session.create")
	<-d.Done()
	f.runsWell(t, "")
}

// TestUnansweredCompaction: it may take its time, as long as copilot lives.
func TestUnansweredCompaction(t *testing.T) {
	t.Parallel()
	f := newWedged(t, act{Expect: `"method":"session.history.compact"`}, act{Expect: `"method":"ping"`}, act{Hang: true})
	f.keepSession(t, "s1")
	c := f.open(t, func(cfg *backends.Config) { cfg.Session.ID = "s1" })
	notAnswered(t, c.(backends.Compacter).Compact(t.Context()), "session.history.compact")
	<-c.Done()

	f = newWedged(t, acts(
		[]act{{Expect: `"method":"session.history.compact"`}},
		[]act{{Expect: `"method":"ping"`}, {Answer: `{}`}, {Expect: `"method":"ping"`}, {Answer: `{}`}},
		[]act{{Raw: frame(`{"jsonrpc":"2.0","id":4,"result":{"success":true}}`)}})...)
	f.keepSession(t, "s1")
	c = f.open(t, func(cfg *backends.Config) { cfg.Session.ID = "s1" })
	if err := c.(backends.Compacter).Compact(t.Context()); err != nil {
		for _, m := range f.heard(t) {
			t.Log(m)
		}
		t.Error(err)
	}
}

// TestUnansweredSteer is alone to fail where copilot lives.
func TestUnansweredSteer(t *testing.T) {
	t.Parallel()
	for name, script := range map[string][]act{
		"lives": acts([]act{{Expect: `"method":"ping"`}, {Answer: `{}`}, say("through")}, stop),
		"dead":  {{Hang: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newWedged(t, acts(send("i1"), []act{{Expect: `"mode":"immediate"`}}, script)...)
			c := f.open(t, nil)
			rec, err := beside(t, f, c, func() {
				err := c.(backends.Steerer).Steer(t.Context(), []events.Part{events.Text("x")})
				if class(err) != events.ErrTimeout || !strings.Contains(err.Error(), "copilot did not answer session.send in "+inputTime.String()) {
					t.Errorf("the steer: %v", err)
				}
			})
			if name == "lives" && (err != nil || !slices.Equal(messages(rec), []string{"through"})) {
				t.Errorf("%v, %q", err, messages(rec))
			}
			if name == "dead" {
				notAnswered(t, err, "session.send")
			}
		})
	}
}

// TestUnansweredAtTheEnd: one that is dead when a turn or a conversation is put
// away is not there for the next.
func TestUnansweredAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"sessions.save", "session.detach"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			f := newWedged(t, acts(send("i1"), []act{say("ok")}, stop, []act{{Expect: `"method":"` + method + `"`}, {Hang: true}})...)
			c := f.open(t, nil)
			_, out, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{})
			if err != nil || out.Stored != (method != "sessions.save") {
				t.Errorf("%+v, %v", out, err)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if f.running() {
				t.Error("it lives on")
			}
			f.runsWell(t, "")
		})
	}
}

// TestAnsweredInTime: what was answered in time and is read late, for the log
// waits for its disk, was answered in time.
func TestAnsweredInTime(t *testing.T) {
	t.Parallel()
	f := newWedged(t, acts(send("i1"), lastCall, []act{
		event(`{"type":"assistant.message_delta","data":{"messageId":"m2","deltaContent":"ok"}}`),
		{Expect: `"method":"session.abort"`},
		{Answer: `{}`},
		event(`{"type":"assistant.idle","data":{"aborted":true}}`),
		event(`{"type":"session.idle","data":{"aborted":true}}`),
	})...)
	c := f.open(t, nil)
	rec := backendtest.NewRecorder(backendtest.Turn{}, nil, nil)
	h := backendtest.NewSlowHost(rec)
	done := make(chan error, 1)
	go func() { // ends with Run
		_, err := c.Run(t.Context(), backends.Input{Parts: []events.Part{events.Text("x")}, Set: backends.Settings{MaxTurns: 1}}, h)
		done <- err
	}()
	select {
	case <-h.Waits:
	case got := <-done:
		t.Fatalf("it ended before its log waited: %v", got)
	}
	f.await(t, `"method":"session.abort"`, 1)
	time.Sleep(answerTime * 5 / 4) // more than an answer may take
	close(h.Release)
	if err := <-done; err != nil || !slices.Equal(messages(rec), []string{"ok"}) {
		t.Errorf("%v, %q", err, messages(rec))
	}
	rec.Close()
}

// realStopped: the real CLI, stopped between two turns, is ended by the next one,
// and the one after that goes on with the session in another process.
func realStopped(t *testing.T, b *bench) {
	backend := b.backend()
	backend.SetLimits(30*time.Second, 10*time.Second)
	t.Cleanup(func() { _ = backend.Close(context.Background()) })
	s := b.seat(t)
	s.pids = filepath.Join(t.TempDir(), "pids")
	s.env["TEST_PIDS"] = s.pids
	s.sc.Add(modelstub.Say(modelstub.Text("One.")), modelstub.Say(modelstub.Text("Two.")))
	var session backends.Session
	open := func() backends.Conversation {
		return openSeat(t, backend, s, func(cfg *backends.Config) {
			cfg.Session, cfg.Save = session, func(x backends.Session) error { session = x; return nil }
		})
	}
	c := open()
	if _, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile(s.pids)
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, _, err = run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{})
	if class(err) != events.ErrBackendCrashed || !strings.Contains(err.Error(), "copilot did not answer session.send in 10s") {
		t.Error(err)
	}
	<-c.Done()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("it lives on")
	}
	rec, _, err := run(t, t.Context(), open(), backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(messages(rec), []string{"Two."}) {
		t.Errorf("%v, %q", err, messages(rec))
	}
	if r, _ := s.last(); !strings.Contains(copilotscript.Heard(r), "One.") {
		t.Error("the session was lost")
	}
}
