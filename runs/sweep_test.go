package runs_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/runs"
)

// TestWhatCommandsLeftTakesItsTime: an agent that used its grace did stop. It is
// not given up because what its commands left takes long to end, and the run's
// end is not seen before that.
func TestWhatCommandsLeftTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		swept := false
		b := &played{
			run: func(ctx context.Context, _ backends.Input, h backends.Host, _ *playedAgent) (backends.Outcome, error) {
				h.Emit(events.Event{Data: events.ToolCall{ID: "c1", Name: "Bash"}})
				<-ctx.Done()
				time.Sleep(3 * time.Second)
				return backends.Outcome{}, context.Cause(ctx)
			},
			sweep: func() { time.Sleep(5 * time.Second); swept = true },
		}
		w := playing(t, b)
		run := w.begin(by("played"), inContext("c"))
		until[events.ToolCall](t, run)
		if _, err := run.Cancel(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
		if task := w.await(run); task.State != events.Canceled || !swept {
			t.Errorf("%s before its commands were ended: %v", task.State, !swept)
		}
		if c := w.conversation("c"); c.State != runs.ConversationIdle {
			t.Errorf("its agent is %s", c.State)
		}
	})
}

// TestSweepThatHangs: a look at processes that does not come back costs the
// agent, not the run.
func TestSweepThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		b := &played{
			run: func(_ context.Context, _ backends.Input, h backends.Host, _ *playedAgent) (backends.Outcome, error) {
				h.Emit(events.Event{Data: events.ToolCall{ID: "c1", Name: "Bash"}})
				h.Emit(events.Event{Data: events.ToolComplete{ID: "c1", Name: "Bash"}})
				say(h, "done")
				return backends.Outcome{Stored: true}, nil
			},
			sweep: func() { <-hung },
		}
		w := playing(t, b)
		defer close(hung)
		if task := w.run(by("played"), inContext("c")); task.State != events.Completed {
			t.Error(task.State)
		}
		if c := w.conversation("c"); c.State != runs.ConversationCold {
			t.Errorf("its agent is %s", c.State)
		}
	})
}
