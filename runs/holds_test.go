package runs_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"innerd/runs"
	"innerd/runs/history"
)

// TestAWarmConversationHoldsNoRun: what a host sent with a turn, which may be
// all that was ever said, is not kept in memory when the turn is over.
func TestAWarmConversationHoldsNoRun(t *testing.T) {
	w := newWorld(t)
	var sent []weak.Pointer[history.Message]
	for _, text := range []string{"one", "two", "three"} {
		w.run(inContext("c"), script(`[{"text":"yes"},{"tool":{"name":"Bash"}}]`), func(s *runs.Spec) {
			s.Messages = []history.Message{{Role: "user", Text: text}}
			sent = append(sent, weak.Make(&s.Messages[0]))
		})
	}
	if c := w.m.Conversations("me"); len(c) != 1 || c[0].State != runs.ConversationIdle {
		t.Fatalf("not warm: %+v", c)
	}
	end := time.Now().Add(time.Minute)
	for i, p := range sent {
		for p.Value() != nil {
			if time.Now().After(end) {
				t.Fatalf("the messages of turn %d are held", i+1)
			}
			runtime.GC()
			time.Sleep(10 * time.Millisecond) // what ends a run besides ends soon, and nothing says when
		}
	}
}

// TestTurnsLeaveNoTimers: however many turns a conversation has, one timer ends
// its agent.
func TestTurnsLeaveNoTimers(t *testing.T) {
	w := newWorld(t, func(w *world) { w.lim.Idle = time.Hour })
	var texts []string
	turn := func() {
		texts = append(texts, "go on")
		w.run(inContext("c"), said(texts...), script(`[{"text":"yes"}]`))
		texts = append(texts, "yes")
	}
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 1 // each allocation counts, of those that this test is about
	defer func() { runtime.MemProfileRate = rate }()
	turn()
	before := timers(t)
	for range 40 {
		turn()
	}
	if more := timers(t) - before; more > 10 {
		t.Errorf("40 turns left %d timers", more)
	}
}

// timers are those that a profile of the heap, of every allocation, finds
// alive.
func timers(t *testing.T) (n int64) {
	t.Helper()
	for range 3 {
		runtime.GC()
	}
	var records []runtime.MemProfileRecord
	for have, ok := runtime.MemProfile(nil, false); !ok; have, ok = runtime.MemProfile(records, false) {
		records = make([]runtime.MemProfileRecord, have+50)
	}
	for _, r := range records {
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var f runtime.Frame
			if f, more = frames.Next(); f.Function == "time.AfterFunc" {
				n += r.InUseObjects()
				break
			}
		}
	}
	return n
}
