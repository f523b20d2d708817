package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/runs"
	"innerd/runs/history"
	"innerd/toolbridge"
)

func texts(list ...string) []history.Message {
	var out []history.Message
	for _, t := range list {
		out = append(out, history.Message{Role: "user", Text: t})
	}
	return out
}

// steering is a backend whose turn waits for one input and then answers it.
// place: the agent says itself where it took it.
func steering(place bool) *played {
	took := make(chan string)
	b := &played{name: "played", can: backends.Capabilities{Steer: true}}
	b.run = func(ctx context.Context, _ backends.Input, h backends.Host, _ *playedAgent) (backends.Outcome, error) {
		say(h, "before")
		select {
		case text := <-took:
			if place {
				h.Emit(events.Event{Data: events.Steered{Text: text}})
				say(h, "at once")
				took <- ""
			} else {
				took <- ""
				time.Sleep(time.Second)
			}
			say(h, "answer to "+text)
			return backends.Outcome{Stored: true}, nil
		case <-ctx.Done():
			return backends.Outcome{}, context.Cause(ctx)
		}
	}
	b.steer = func(ctx context.Context, parts []events.Part) error {
		text := ""
		for _, p := range parts {
			text += p.Text
		}
		select {
		case took <- text:
			<-took
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return b
}

// story is the log's messages and steers, in order.
func story(run *runs.Run) []string {
	var out []string
	for e := range run.Log().Snapshot(0, nil) {
		switch d := e.Data.(type) {
		case events.Message:
			out = append(out, d.Content)
		case events.Steered:
			out = append(out, ">"+d.Text)
		}
	}
	return out
}

// TestSteer: input reaches a running turn, once, and stands in the log where
// the agent took it.
func TestSteer(t *testing.T) {
	for name, c := range map[string]struct {
		place bool
		want  []string
	}{
		"the run notes it":        {false, []string{"before", ">more", "answer to more"}},
		"the agent knows a place": {true, []string{"before", ">more", "at once", "answer to more"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := playing(t, steering(c.place))
				run := w.begin(by("played"))
				steered, err := w.m.Steer(t.Context(), "me", run.ID(), texts("more"))
				if err != nil || steered.ID() != run.ID() {
					t.Fatal(steered, err)
				}
				if task := w.await(run); task.State != "completed" {
					t.Errorf("%+v", task)
				}
				if got := story(run); !slices.Equal(got, c.want) {
					t.Errorf("%q, want %q", got, c.want)
				}
				if _, err := w.m.Steer(t.Context(), "me", run.ID(), texts("late")); !errors.Is(err, runs.ErrEnded) {
					t.Errorf("after the end: %v", err)
				}
			})
		})
	}
}

// TestSteerWhileTheAgentStarts: the input waits for the agent.
func TestSteerWhileTheAgentStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steering(false)
		b.open = func(context.Context, backends.Config) error { time.Sleep(5 * time.Second); return nil }
		w := playing(t, b)
		run := w.begin(by("played"))
		if _, err := w.m.Steer(t.Context(), "me", run.ID(), texts("more")); err != nil {
			t.Fatal(err)
		}
		w.await(run)
		if got := story(run); !slices.Equal(got, []string{"before", ">more", "answer to more"}) {
			t.Errorf("%q", got)
		}
	})
}

// TestSteerBeforeTheTurnIsOpen: an agent that has been given the turn, and has
// not begun it, says the same as one whose turn is over.
func TestSteerBeforeTheTurnIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steering(false)
		open := make(chan struct{})
		turn, steer := b.run, b.steer
		b.run = func(ctx context.Context, in backends.Input, h backends.Host, a *playedAgent) (backends.Outcome, error) {
			time.Sleep(time.Second)
			close(open)
			return turn(ctx, in, h, a)
		}
		b.steer = func(ctx context.Context, parts []events.Part) error {
			select {
			case <-open:
				return steer(ctx, parts)
			default:
				return backends.ErrTooLate
			}
		}
		w := playing(t, b)
		run := w.begin(by("played"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.m.Steer(ctx, "me", run.ID(), texts("more")); err != nil {
			t.Error(err)
			_, _ = run.Cancel(t.Context(), "")
		}
		w.await(run)
		if got := story(run); !slices.Equal(got, []string{"before", ">more", "answer to more"}) {
			t.Errorf("%q", got)
		}
	})
}

// TestSteerRefused: who can't be told more is said to be so, and nothing of it
// is in the log.
func TestSteerRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steering(false)
		other := &played{name: "deaf", run: b.run}
		w := playing(t, b, func(w *world) { w.other = append(w.other, other) })
		refused := func(owner, id string, want error) {
			t.Helper()
			if _, err := w.m.Steer(t.Context(), owner, id, texts("x")); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		refused("me", "none", runs.ErrNotFound)
		deaf := w.begin(by("deaf"))
		refused("me", deaf.ID(), runs.ErrUnsupported)
		_, _ = deaf.Cancel(t.Context(), "")

		first := w.begin(by("played"), inContext("c"))
		refused("you", first.ID(), runs.ErrNotFound)
		second := w.begin(by("played"), inContext("c"))
		synctest.Wait()
		refused("me", second.ID(), runs.ErrWaiting)
		_, _ = second.Cancel(t.Context(), "")
		_, _ = first.Cancel(t.Context(), "")
		refused("me", first.ID(), runs.ErrEnded)

		// A run that waits for its host is not told more, but can be afterwards.
		inner := b.run
		b.turns(func(ctx context.Context, in backends.Input, h backends.Host, a *playedAgent) (backends.Outcome, error) {
			_, _ = h.Request(ctx, events.Request{Kind: events.KindTool, Tool: "ask", Input: json.RawMessage("{}")}).Wait()
			return inner(ctx, in, h, a)
		})
		waits := w.begin(by("played"), func(s *runs.Spec) {
			s.Settings.Tools = []backends.Tool{{Name: "ask", Schema: json.RawMessage(`{"type":"object"}`)}}
		})
		req := until[events.ToolRequest](t, waits)
		refused("me", waits.ID(), runs.ErrWaiting)
		w.m.ToolResult("me", req.ToolCallID, toolbridge.Result{Result: "here"})
		if _, err := w.m.Steer(t.Context(), "me", waits.ID(), texts("now")); err != nil {
			t.Error(err)
		}
		w.await(waits)
		if got := strings.Join(story(waits), " "); strings.Count(got, ">") != 1 {
			t.Errorf("%q", got)
		}
	})
}

// TestSteerTooLate: input that the agent had no turn left for is refused, also
// by an agent that only notices when it is told.
func TestSteerTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &played{name: "played", can: backends.Capabilities{Steer: true}}
		end := make(chan struct{})
		b.run = func(_ context.Context, _ backends.Input, h backends.Host, _ *playedAgent) (backends.Outcome, error) {
			say(h, "all")
			<-end
			return backends.Outcome{Stored: true}, nil
		}
		b.steer = func(ctx context.Context, _ []events.Part) error {
			close(end)
			<-ctx.Done() // it never says that the turn is over
			return context.Cause(ctx)
		}
		w := playing(t, b)
		run := w.begin(by("played"))
		if _, err := w.m.Steer(t.Context(), "me", run.ID(), texts("late")); !errors.Is(err, runs.ErrEnded) {
			t.Errorf("%v", err)
		}
		if task := w.await(run); task.State != "completed" || len(story(run)) != 1 {
			t.Errorf("%s %q", task.State, story(run))
		}
	})
}

// TestWhatASteerWasIsKnown: the next turn is told nothing again, whether the
// host keeps what it gave to the running turn as messages of the user or not.
func TestWhatASteerWasIsKnown(t *testing.T) {
	for name, hist := range map[string][]history.Message{
		"kept where it was said": {user("p"), assistant("before"), user("more"), assistant("answer to more")},
		"kept, the last message": {user("p"), user("more"), assistant("answer to more")},
		"kept behind the answer": {user("p"), assistant("before answer to more"), user("more")},
		"not kept":               {user("p"), assistant("answer to more")},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := playing(t, steering(false))
					run := w.begin(by("played"), inContext("c"), said("p"))
					if _, err := w.m.Steer(t.Context(), "me", run.ID(), texts("more")); err != nil {
						t.Fatal(err)
					}
					w.await(run)
					if restart {
						w.restart()
					}
					next := w.begin(by("played"), inContext("c"), func(s *runs.Spec) { s.Messages = append(slices.Clone(hist), user("next")) })
					if st := mode(next); !strings.HasPrefix(st, "continue") {
						t.Errorf("restarted %v: %s", restart, st)
					}
					_, _ = next.Cancel(t.Context(), "")
				})
			})
		}
	}
}

func user(text string) history.Message      { return history.Message{Role: "user", Text: text} }
func assistant(text string) history.Message { return history.Message{Role: "assistant", Text: text} }

// mode is how a run's agent came to know the history.
func mode(run *runs.Run) string {
	synctest.Wait()
	for e := range run.Log().Snapshot(0, nil) {
		if s, ok := e.Data.(events.Status); ok && s.State == events.StateHistory {
			return s.Mode + ": " + s.Reason
		}
	}
	return ""
}
