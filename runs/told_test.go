package runs_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/runs"
)

// What one caller said when it canceled a run is not told to another who steers
// it meanwhile, nor that it has ended before it has.
func TestASteerHearsNothingOfTheCancelsWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &played{name: "played", can: backends.Capabilities{Steer: true}}
		b.run = func(ctx context.Context, _ backends.Input, _ backends.Host, _ *playedAgent) (backends.Outcome, error) {
			<-ctx.Done()
			time.Sleep(100 * time.Millisecond) // it stops in its own time
			return backends.Outcome{}, context.Cause(ctx)
		}
		b.steer = func(ctx context.Context, _ []events.Part) error { return context.Cause(ctx) }
		w := playing(t, b)
		run := w.begin(by("played"))
		synctest.Wait()
		canceled := make(chan bool)
		go func() {
			ended, err := run.Cancel(t.Context(), "for reasons of mine")
			canceled <- ended && err == nil
		}()
		synctest.Wait()
		_, err := w.m.Steer(t.Context(), "me", run.ID(), texts("more"))
		if !errors.Is(err, runs.ErrEnded) || err.Error() != "the run is being canceled" {
			t.Errorf("%v", err)
		}
		if !<-canceled {
			t.Error("it was not canceled")
		}
		if _, err = w.m.Steer(t.Context(), "me", run.ID(), texts("more")); !errors.Is(err, runs.ErrEnded) || err.Error() != "the run has ended" {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// Who comes while an agent shortens its memory is not told of a run that is on.
func TestACompactionIsNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := compacting()
		goOn := make(chan struct{})
		b.compact = func(context.Context) error { <-goOn; return nil }
		w := playing(t, b)
		w.run(by("played"), inContext("c"))
		id := w.conversation("c").ID
		first := make(chan error)
		go func() {
			_, err := w.m.CompactConversation(t.Context(), "me", id)
			first <- err
		}()
		synctest.Wait()
		_, again := w.m.CompactConversation(t.Context(), "me", id)
		_, closed := w.m.CloseConversation(t.Context(), "me", id)
		for _, err := range []error{again, closed} {
			if !errors.Is(err, runs.ErrRunning) || err.Error() != "the agent is shortening its memory" {
				t.Errorf("%v", err)
			}
		}
		close(goOn)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}
