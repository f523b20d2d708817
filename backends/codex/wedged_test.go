package codex_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

// What an answer may take here: less than a test wants to wait,
// and more than a healthy fake takes on a machine that has much to do.
const (
	answerLimit = 4 * time.Second
	inputLimit  = 6 * time.Second // that to a turn's input
)

// atOnce is far above what a cancel or a death takes to be told on a busy
// machine, and below callLimit, 30 s, which it would take where nobody noticed.
const atOnce = 25 * time.Second

// wedged is a stage whose codex may take a short time for an answer.
func wedged(t *testing.T, s script) *stage {
	t.Helper()
	st := newStage(t, s)
	st.b.SetCallLimit(answerLimit)
	st.b.SetInputLimit(inputLimit)
	return st
}

// healthy is what the next process plays.
var healthy = script{"turn/start": {{accepted, started, said("well"), finished}}}

// notAnswered checks that an error says what was not answered, and for how long.
func notAnswered(t *testing.T, err error, method string) {
	t.Helper()
	limit := answerLimit
	if method == "turn/start" {
		limit = inputLimit
	}
	if class(err) != events.ErrBackendCrashed || !strings.Contains(err.Error(), "codex did not answer "+method+" in "+limit.String()) {
		t.Errorf("%v, want one that names %s", err, method)
	}
}

// calling is a turn whose model has called a tool and wants to go on.
var calling = []string{
	accepted, started,
	`{"method":"item/started","params":{"threadId":"{{thread}}","turnId":"{{turn}}","item":{"type":"commandExecution","id":"c1","command":"true","cwd":"/"}}}`,
	`{"method":"thread/tokenUsage/updated","params":{"threadId":"{{thread}}","turnId":"{{turn}}","tokenUsage":{"total":{"totalTokens":9,"inputTokens":8,"outputTokens":1}}}}`,
}

// runsWell checks that a run is answered, by another process than before.
func (st *stage) runsWell(c backends.Conversation) {
	st.t.Helper()
	evs, _, err := run(st.t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(texts(evs), []string{"well"}) {
		st.t.Errorf("the next run: %q, %v", texts(evs), err)
	}
	if n := len(st.launches()); n != 2 {
		st.t.Errorf("%d processes, want 2", n)
	}
}

// TestWedged: a codex that leaves a call unanswered is ended, whatever the call
// is; the run says which, and the next one has another process.
func TestWedged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, method string
		s            script
		session      bool
		set          backends.Settings
	}{
		{name: "start", method: "thread/start", s: script{"thread/start": {{}}}},
		{name: "start, and deaf", method: "thread/start", s: script{"thread/start": {{"!deaf"}}}},
		{name: "resume", method: "thread/resume", s: script{"thread/resume": {{}}}, session: true},
		{name: "write", method: "fs/writeFile", s: script{"fs/writeFile": {{}}}, session: true, set: backends.Settings{System: "new"}},
		{name: "move", method: "command/exec", s: script{"command/exec": {{}}}, session: true, set: backends.Settings{System: "new"}},
		{name: "turn", method: "turn/start", s: script{"turn/start": {{}}}},
		{name: "turn, and deaf", method: "turn/start", s: script{"turn/start": {{"!deaf"}}}, session: true},
		{name: "interrupt", method: "turn/interrupt", s: script{
			"turn/start": {calling}, "turn/interrupt": {{}},
		}, set: backends.Settings{MaxTurns: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := wedged(t, c.s)
			session := ""
			if c.session {
				session = threadX
				st.keep(threadX, rolled("[]"))
			}
			conv := st.open(idA, session)
			_, _, err := run(t, conv, backendtest.Turn{}, c.set)
			notAnswered(t, err, c.method)
			st.plays(healthy)
			select {
			case <-conv.Done(): // it had a thread in it
				conv = st.open(idA, session)
			default:
				if lives(conv) {
					t.Error("it says that codex lives")
				}
			}
			st.runsWell(conv)
		})
	}
}

// beside runs a turn that lasts in d while c does something, in one process.
func beside(t *testing.T, d backends.Conversation, do func()) ([]events.Event, error) {
	t.Helper()
	var evs []events.Event
	var err error
	var both sync.WaitGroup
	talking := make(chan struct{})
	both.Go(func() {
		turn := backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}
		evs, _, err = runIn(t.Context(), t, d, turn, backends.Settings{}, func() { close(talking) })
	})
	<-talking
	do()
	both.Wait()
	return evs, err
}

// The turn of the first thread, when another call came.
const (
	firstThread = "00000000-0000-7000-8000-000000000001"
	firstSays   = `{"method":"item/completed","params":{"threadId":"` + firstThread + `","turnId":"turn-` + firstThread + `-1","item":{"type":"agentMessage","id":"i2","text":"through"}}}`
	firstEnds   = `{"method":"turn/completed","params":{"threadId":"` + firstThread + `","turn":{"id":"turn-` + firstThread + `-1","status":"completed"}}}`
)

// TestWedgedBeside: in a process that others share, a call without an answer
// costs the others nothing as long as something comes for them, or it answers a
// ping; but nobody new is put into it.
func TestWedgedBeside(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]script{
		"answers a ping": {"thread/loaded/list": {{done, firstSays, firstEnds}}},
		"speaks":         {"thread/loaded/list": {{firstSays, firstEnds}}},
		"has spoken": {
			"thread/start":       {{thread}, {firstSays}},
			"thread/loaded/list": {{"!sleep 3000", firstEnds}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s["turn/start"] = [][]string{{accepted, started, said("one")}}
			if s["thread/start"] == nil {
				s["thread/start"] = [][]string{{thread}, {}}
			}
			st := wedged(t, s)
			d, c := st.open(idB, ""), st.open(idA, "")
			evs, err := beside(t, d, func() {
				_, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
				notAnswered(t, err, "thread/start")
				<-c.Done()
				st.plays(healthy)
				st.runsWell(st.open(idA, ""))
			})
			if err != nil || !slices.Equal(texts(evs), []string{"one", "through"}) {
				t.Errorf("beside it: %q, %v", texts(evs), err)
			}
		})
	}
}

// TestWedgedForAll: one that is dead to everybody is ended, and with it the run
// beside, which says why.
func TestWedgedForAll(t *testing.T) {
	t.Parallel()
	st := wedged(t, script{"turn/start": {{accepted, started, said("one")}}, "thread/start": {{thread}, {"!deaf"}}})
	d, c := st.open(idB, ""), st.open(idA, "")
	_, err := beside(t, d, func() {
		_, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
		notAnswered(t, err, "thread/start")
	})
	notAnswered(t, err, "thread/start")
	<-d.Done()
	st.plays(healthy)
	st.runsWell(c)
}

// TestWedgedCompaction: one without an answer is over; a later one is not taken
// for it, nor is a turn.
func TestWedgedCompaction(t *testing.T) {
	t.Parallel()
	compacts := func(turn string) []string {
		return []string{done, strings.ReplaceAll(started, "{{turn}}", turn), strings.ReplaceAll(finished, "{{turn}}", turn)}
	}
	for name, s := range map[string]script{
		"ended":    {"thread/compact/start": {{}}},
		"lives on": {"thread/compact/start": {{}}, "thread/loaded/list": {{done}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s["turn/start"] = [][]string{{accepted, started, said("one"), finished}}
			st := wedged(t, s)
			c := st.open(idA, "")
			if name == "lives on" {
				if _, _, err := run(t, st.open(idB, ""), backendtest.Turn{}, backends.Settings{}); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{}); err != nil {
				t.Fatal(err)
			}
			notAnswered(t, c.(backends.Compacter).Compact(t.Context()), "thread/compact/start")
			<-c.Done()
			st.keep(threadX, rolled("[]"))
			again := maps.Clone(healthy)
			again["thread/compact/start"] = [][]string{compacts("first"), compacts("second")}
			st.plays(again)
			c = st.open(idA, threadX)
			for range 2 {
				if err := c.(backends.Compacter).Compact(t.Context()); err != nil {
					t.Error(err)
				}
			}
			st.runsWell(c)
		})
	}
}

// TestWedgedSteer: a steer without an answer ends a codex that is dead, and is
// alone to fail where it lives.
func TestWedgedSteer(t *testing.T) {
	t.Parallel()
	for name, ping := range map[string][]string{"dead": {"!deaf"}, "lives": {done, firstEnds}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := wedged(t, script{
				"turn/start": {{accepted, started, said("one")}}, "turn/steer": {{}}, "thread/loaded/list": {ping},
			})
			c := st.open(idA, "")
			_, err := beside(t, c, func() {
				err := c.(backends.Steerer).Steer(t.Context(), []events.Part{events.Text("x")})
				if class(err) != events.ErrTimeout || !strings.Contains(err.Error(), "codex did not answer turn/steer in "+answerLimit.String()) {
					t.Errorf("the steer: %v", err)
				}
			})
			if name == "lives" && err != nil {
				t.Error(err)
			}
			if name == "dead" {
				notAnswered(t, err, "turn/steer")
			}
		})
	}
}

// TestNotWedged: what was answered in time and is read late, for the log waits
// for its disk, was answered in time.
func TestNotWedged(t *testing.T) {
	t.Parallel()
	st := wedged(t, script{"turn/start": {append(slices.Clone(calling), said("one"))}})
	rec := backendtest.NewRecorder(backendtest.Turn{}, nil, nil)
	h := backendtest.NewSlowHost(rec)
	type ending struct {
		out backends.Outcome
		err error
	}
	ended := make(chan ending, 1)
	c := st.open(idA, "")
	go func() { // ends with Run
		out, err := c.Run(t.Context(), backends.Input{Parts: []events.Part{events.Text("Go.")}, Set: backends.Settings{MaxTurns: 1}}, h)
		ended <- ending{out, err}
	}()
	select {
	case <-h.Waits:
	case got := <-ended:
		t.Fatalf("it ended before its log waited: %+v", got)
	}
	st.await("turn/interrupt")
	time.Sleep(answerLimit * 5 / 4) // more than an answer may take
	close(h.Release)
	if got := <-ended; got.err != nil || got.out.Reason != backends.ReasonMaxTurns {
		t.Errorf("%+v", got)
	}
	rec.Close()
}

// TestGoneWithItsRun: when a run's process has ended, the conversation is over
// before the run is: the next run would be in another process, and lose it.
func TestGoneWithItsRun(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{"turn/start": {{"!exit 5"}}})
	for range 20 {
		c := st.open(idA, "")
		_, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
		select {
		case <-c.Done():
		default:
			t.Fatalf("the conversation goes on after %v", err)
		}
	}
}
