package runs_test

import (
	"testing"
	"time"

	"innerd/events"
	"innerd/runs"
)

// TestResting: a server rests from the end of its last run on, and not before
// its first.
func TestResting(t *testing.T) {
	w := newWorld(t)
	if _, ok := w.m.Resting(); ok {
		t.Error("it rests of nothing")
	}
	run := w.begin(inContext("c"), func(s *runs.Spec) { s.Settings.Interactive = true },
		script(`[{"ask":{"message":"go on?","schema":{"type":"string"}}}]`))
	q := until[events.InputRequired](t, run)
	if _, ok := w.m.Resting(); ok {
		t.Error("it rests while a run waits")
	}
	asked := time.Now()
	if _, err := w.m.ReplyText("me", run.ID(), q.RequestID, "yes", nil); err != nil {
		t.Fatal(err)
	}
	w.await(run)
	since, ok := w.m.Resting()
	for end := time.Now().Add(time.Minute); !ok && time.Now().Before(end); since, ok = w.m.Resting() {
		time.Sleep(time.Millisecond) // it begins a moment after the run's end is seen
	}
	if !ok || since.Before(asked) {
		t.Errorf("it rests: %v, since %v; the answer came at %v", ok, since, asked)
	}
}
