package runs_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/runs"
)

var errNoStart = &backends.Error{Type: events.ErrBackendUnavailable, Message: "exec: no such file"}

type turnFunc = func(context.Context, backends.Input, backends.Host, *playedAgent) (backends.Outcome, error)

// fails is a turn that ends with an error before a sign of life, or after one.
func fails(err error, life bool) turnFunc {
	return func(_ context.Context, _ backends.Input, h backends.Host, a *playedAgent) (backends.Outcome, error) {
		if life {
			h.Emit(events.Event{})
		}
		a.die()
		return backends.Outcome{}, err
	}
}

func (w *world) breaker(name string) runs.BreakerInfo {
	for _, b := range w.m.Backends(w.t.Context()) {
		if b.Name == name {
			return b.Breaker
		}
	}
	w.t.Fatalf("no backend %s", name)
	return runs.BreakerInfo{}
}

// TestBreaker: an agent that does not come up, in Open or in its first run, is
// not started for every run; the stream says when it is tried again, and one
// run tries.
func TestBreaker(t *testing.T) {
	for name, broken := range map[string]func(*played, bool){
		"in Open": func(b *played, on bool) {
			b.open, b.run = nil, says("up")
			if on {
				b.open = func(context.Context, backends.Config) error { return errNoStart }
			}
		},
		"in the first Run": func(b *played, on bool) {
			b.run = says("up")
			if on {
				b.run = fails(errNoStart, false)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &played{name: "played"}
				broken(b, true)
				w := playing(t, b)
				for i := range 5 {
					if task := w.run(by("played")); errorType(task) != events.ErrBackendUnavailable || task.Error.RetryAfterS != 0 {
						t.Fatalf("failure %d: %+v", i, task.Error)
					}
				}
				time.Sleep(4 * time.Second)
				task := w.run(by("played"))
				if e := task.Error; e == nil || e.ErrorType != events.ErrBackendUnavailable || e.RetryAfterS != 6 ||
					!strings.Contains(e.Message, "no such file") || b.opens() != 5 {
					t.Fatalf("open: %+v, %d starts", e, b.opens())
				}
				if got := w.breaker("played"); got.State != "open" || got.RetryAfterS != 6 || got.Failures != 5 || got.LastError != "exec: no such file" {
					t.Errorf("%+v", got)
				}
				if task := w.run(); task.State != "completed" {
					t.Errorf("another backend: %s", errorType(task))
				}

				time.Sleep(7 * time.Second)
				if got := w.breaker("played"); got.State != "half-open" {
					t.Errorf("after the pause: %+v", got)
				}
				w.run(by("played")) // the probe fails
				if got := w.breaker("played"); got.State != "open" || got.RetryAfterS != 10 || b.opens() != 6 {
					t.Errorf("after a failed probe: %+v, %d starts", got, b.opens())
				}
				time.Sleep(11 * time.Second)
				broken(b, false)
				if task := w.run(by("played")); task.State != "completed" {
					t.Errorf("the probe: %+v", task.Error)
				}
				if got := w.breaker("played"); got != (runs.BreakerInfo{State: "closed"}) {
					t.Errorf("closed again: %+v", got)
				}
			})
		})
	}
}

// TestBreakerLetsOneTry: while the probe starts no other run does, and what the
// probe's turn takes afterwards keeps nobody out.
func TestBreakerLetsOneTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &played{name: "played", run: fails(errNoStart, false)}
		w := playing(t, b, func(w *world) { w.lim.Spawns = 2 }) // one on one core, for which the second would wait
		for range 5 {
			w.run(by("played"))
		}
		time.Sleep(11 * time.Second)
		b.turns(func(ctx context.Context, _ backends.Input, h backends.Host, _ *playedAgent) (backends.Outcome, error) {
			time.Sleep(3 * time.Second) // spawn and handshake
			h.Emit(events.Event{})
			time.Sleep(time.Hour / 10)
			say(h, "done")
			return backends.Outcome{}, nil
		})
		probe := w.begin(by("played"))
		time.Sleep(time.Second)
		if task := w.run(by("played")); errorType(task) != events.ErrBackendUnavailable || task.Error.RetryAfterS != 1 {
			t.Errorf("beside the probe: %+v", task.Error)
		}
		time.Sleep(3 * time.Second)
		b.turns(says("hello"))
		if task := w.run(by("played")); task.State != "completed" {
			t.Errorf("while the probe's turn goes on: %+v", task.Error)
		}
		<-probe.Done()
	})
}

// TestBreakerCountsOnlyTheMachine: what a host, its key, its user or a turn did
// wrong says nothing of whether agents start here.
func TestBreakerCountsOnlyTheMachine(t *testing.T) {
	for name, c := range map[string]struct {
		turn turnFunc
		env  map[string]string
	}{
		"no key":                    {turn: fails(&backends.Error{Type: events.ErrAuth, Message: "no key"}, false)},
		"a crash in a turn":         {turn: fails(&backends.Error{Type: events.ErrBackendCrashed, Message: "died"}, true)},
		"unavailable after a sign":  {turn: fails(nil, true)},
		"an environment of its own": {turn: fails(errNoStart, false), env: map[string]string{"LD_PRELOAD": "x"}},
		"the provider":              {turn: fails(&backends.Error{Type: events.ErrOverloaded, Message: "529"}, true)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &played{name: "played", run: c.turn}
				w := playing(t, b)
				for range 8 {
					w.run(by("played"), func(s *runs.Spec) { s.Env = c.env })
				}
				if got := w.breaker("played"); got.State != "closed" || b.opens() != 8 {
					t.Errorf("%+v, %d starts", got, b.opens())
				}
			})
		})
	}
}

// TestACancelIsNoFailedStart: a probe that its user cancels leaves room for the
// next one.
func TestACancelIsNoFailedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &played{name: "played", run: fails(errNoStart, false)}
		w := playing(t, b)
		for range 5 {
			w.run(by("played"))
		}
		time.Sleep(11 * time.Second)
		b.turns(func(ctx context.Context, _ backends.Input, _ backends.Host, _ *playedAgent) (backends.Outcome, error) {
			<-ctx.Done()
			return backends.Outcome{}, context.Cause(ctx)
		})
		probe := w.begin(by("played"))
		synctest.Wait()
		if _, err := probe.Cancel(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		b.turns(says("up"))
		if task := w.run(by("played")); task.State != "completed" {
			t.Errorf("the next probe: %+v", task.Error)
		}
	})
}

// TestStartsAreBounded: no more agents start at once than the limit says, also
// those that start their process in their first run; their turns do not count.
func TestStartsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starting, most, turns atomic.Int64
		b := &played{name: "played", run: func(_ context.Context, _ backends.Input, h backends.Host, _ *playedAgent) (backends.Outcome, error) {
			for n := starting.Add(1); n > most.Load(); {
				most.Store(n)
			}
			time.Sleep(time.Second)
			starting.Add(-1)
			h.Emit(events.Event{})
			turns.Add(1)
			time.Sleep(10 * time.Second)
			say(h, "x")
			return backends.Outcome{}, nil
		}}
		w := playing(t, b, func(w *world) { w.lim.Spawns = 2; w.lim.Warm = 20 })
		var all []*runs.Run
		for range 10 {
			all = append(all, w.begin(by("played")))
		}
		time.Sleep(6 * time.Second)
		if most.Load() != 2 || turns.Load() != 10 {
			t.Errorf("%d started at once, %d turns run", most.Load(), turns.Load())
		}
		for _, r := range all {
			w.await(r)
		}
	})
}

// TestAStartWaitsForItsTurn: however long the starts before it take, a start
// that has no turn yet has not failed.
func TestAStartWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &played{name: "played", run: func(_ context.Context, _ backends.Input, h backends.Host, _ *playedAgent) (backends.Outcome, error) {
			time.Sleep(10 * time.Second) // five of them take longer than a start may, and less than await waits
			say(h, "up")
			return backends.Outcome{}, nil
		}}
		w := playing(t, b, func(w *world) { w.lim.Spawns, w.lim.Open = 1, 30*time.Second })
		var all []*runs.Run
		for range 5 {
			all = append(all, w.begin(by("played")))
		}
		for _, r := range all {
			if task := w.await(r); task.State != "completed" {
				t.Errorf("%+v", task.Error)
			}
		}
	})
}

// TestACancelWaitsForNoTurn: a run that waits for its turn to start an agent
// ends when it is canceled.
func TestACancelWaitsForNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &played{name: "played", run: func(_ context.Context, _ backends.Input, h backends.Host, _ *playedAgent) (backends.Outcome, error) {
			time.Sleep(20 * time.Second)
			say(h, "up")
			return backends.Outcome{}, nil
		}}
		w := playing(t, b, func(w *world) { w.lim.Spawns = 1 })
		first := w.begin(by("played"))
		synctest.Wait()
		second := w.begin(by("played"))
		synctest.Wait()
		began := time.Now()
		if _, err := second.Cancel(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if task := w.await(second); task.State != "canceled" || time.Since(began) > 10*time.Second || b.opens() != 1 {
			t.Errorf("%+v after %s, %d starts", task, time.Since(began), b.opens())
		}
		w.await(first)
	})
}
