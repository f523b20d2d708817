package runs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/runs"
)

func compacting() *played {
	return &played{
		name: "played", can: backends.Capabilities{Compact: true, Resume: true}, run: says("x"),
		compact: func(ctx context.Context) error {
			select {
			case <-time.After(10 * time.Second):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
	}
}

func (w *world) conversation(context string) runs.ConversationInfo {
	w.t.Helper()
	for _, c := range w.m.Conversations("me") {
		if c.ContextID == context {
			return c
		}
	}
	w.t.Fatalf("no conversation %s", context)
	return runs.ConversationInfo{}
}

// TestCompact: an idle conversation's agent shortens its memory; that is seen
// on the conversation, and what comes meanwhile waits.
func TestCompact(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := compacting()
			w := playing(t, b)
			dir := t.TempDir()
			here := func(s *runs.Spec) { s.Dir = dir }
			w.run(by("played"), inContext("c"), here)
			if restart {
				w.restart()
			}
			id := w.conversation("c").ID
			type result struct {
				info runs.ConversationInfo
				err  error
			}
			res := make(chan result, 1)
			go func() {
				info, err := w.m.CompactConversation(t.Context(), "me", id)
				res <- result{info, err}
			}()
			time.Sleep(time.Second)
			if c := w.conversation("c"); c.State != "running" || !c.Compacting {
				t.Errorf("meanwhile: %+v", c)
			}
			if _, err := w.m.CompactConversation(t.Context(), "me", id); !errors.Is(err, runs.ErrRunning) {
				t.Errorf("a second: %v", err)
			}
			if _, err := w.m.CloseConversation(t.Context(), "me", id); !errors.Is(err, runs.ErrRunning) {
				t.Errorf("close: %v", err)
			}
			if _, _, err := w.m.Start(t.Context(), "me", w.spec(by("played"), inContext("c"), func(s *runs.Spec) { s.OnBusy = runs.BusyReject })); !errors.Is(err, runs.ErrConflict) {
				t.Errorf("on_busy reject: %v", err)
			}
			next := w.begin(by("played"), inContext("c"), said("hello there", "x", "more"), here)
			synctest.Wait()
			if st := until[events.Status](t, next); st.State != events.StateQueued || !strings.Contains(st.Detail, "memory") {
				t.Errorf("%+v", st)
			}
			r := <-res
			if r.err != nil || r.info.ID != id || r.info.Compacting {
				t.Errorf("%+v %v", r.info, r.err)
			}
			if task := w.await(next); task.State != "completed" {
				t.Errorf("the run behind it: %+v", task.Error)
			}
			want := 1
			if restart {
				want = 2 // a cold agent was started for it, and has the next run too
			}
			if b.opens() != want {
				t.Errorf("restarted %v: %d agents", restart, b.opens())
			}
			if c := w.conversation("c"); c.State != "idle" || c.Compacting {
				t.Errorf("afterwards: %+v", c)
			}
		})
	}
}

// TestCompactRefused: each reason is another.
func TestCompactRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := compacting()
		cannot := &played{name: "cannot", run: says("x")}
		w := playing(t, b, func(w *world) { w.other = append(w.other, cannot) })
		refused := func(owner, id string, want error) {
			t.Helper()
			if _, err := w.m.CompactConversation(t.Context(), owner, id); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		refused("me", "none", runs.ErrNotFound)
		w.run(by("cannot"), inContext("n"))
		refused("me", w.conversation("n").ID, runs.ErrUnsupported)
		w.run(by("played"), inContext("c"))
		id := w.conversation("c").ID
		refused("you", id, runs.ErrNotFound)
		b.turns(func(ctx context.Context, _ backends.Input, _ backends.Host, _ *playedAgent) (backends.Outcome, error) {
			<-ctx.Done()
			return backends.Outcome{}, context.Cause(ctx)
		})
		run := w.begin(by("played"), inContext("c"))
		refused("me", id, runs.ErrRunning)
		_, _ = run.Cancel(t.Context(), "")
	})
}

// TestCompactFails: the agent's own words come back, and the conversation goes
// on; a run that may not wait ends the compaction.
func TestCompactFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := compacting()
		slow := b.compact
		w := playing(t, b)
		w.run(by("played"), inContext("c"))
		id := w.conversation("c").ID

		b.compact = func(context.Context) error {
			return &backends.Error{Type: events.ErrOverloaded, Message: "529"}
		}
		var be *backends.Error
		if _, err := w.m.CompactConversation(t.Context(), "me", id); !errors.As(err, &be) || be.Type != events.ErrOverloaded {
			t.Errorf("%v", err)
		}
		b.compact = func(context.Context) error { panic("a fault") }
		if _, err := w.m.CompactConversation(t.Context(), "me", id); err == nil || !strings.Contains(err.Error(), "a fault") {
			t.Errorf("a panic: %v", err)
		}
		if task := w.run(by("played"), inContext("c")); task.State != "completed" {
			t.Errorf("afterwards: %+v", task.Error)
		}

		b.compact = slow
		done := make(chan error, 1)
		go func() {
			_, err := w.m.CompactConversation(t.Context(), "me", id)
			done <- err
		}()
		synctest.Wait()
		began := time.Now()
		if task := w.run(by("played"), inContext("c"), func(s *runs.Spec) { s.OnBusy = runs.BusyCancel }); task.State != "completed" {
			t.Errorf("on_busy cancel: %+v", task.Error)
		}
		if err := <-done; !errors.Is(err, backends.ErrCanceled) || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}

		go func() {
			_, err := w.m.CompactConversation(t.Context(), "me", id)
			done <- err
		}()
		synctest.Wait()
		w.stop()
		if err := <-done; !errors.Is(err, backends.ErrShutdown) {
			t.Errorf("shutdown: %v", err)
		}
	})
}

// An agent that neither compacts nor closes holds nobody up for ever.
func TestAgentThatDoesNotClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		b := compacting()
		b.compact = func(context.Context) error { <-hung; return nil }
		b.close = func() { <-hung }
		w := playing(t, b)
		defer close(hung)
		w.run(by("played"), inContext("c"))
		id := w.conversation("c").ID
		begin := time.Now()
		if _, err := w.m.CompactConversation(t.Context(), "me", id); err == nil {
			t.Error("a compaction that hangs is no success")
		}
		if d := time.Since(begin); d > time.Hour {
			t.Errorf("it took %v", d)
		}
		w.run(by("played"), inContext("c"))
	})
}
