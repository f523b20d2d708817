package runs_test

import (
	"testing"

	"innerd/events"
)

// An agent whose end fails by a fault of innerd's own takes nobody with it.
func TestPanicAtAnAgentsClose(t *testing.T) {
	closed := make(chan struct{}, 10)
	b := &played{run: says("hello"), close: func() { closed <- struct{}{}; panic("a fault") }}
	w := playing(t, b)
	w.run(by("played")) // without a context: its agent is closed with it
	<-closed
	if got := w.run(by("played")); got.State != events.Completed {
		t.Errorf("then a run ends as %s", got.State)
	}
}
