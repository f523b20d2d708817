package runs_test

import (
	"context"
	"maps"
	"testing"

	"innerd/backends"
	"innerd/events"
	"innerd/runs"
)

// states are the conversations' states by context, and how many are warm.
func (w *world) states() (states map[string]string, warm int) {
	states = map[string]string{}
	for _, c := range w.m.Conversations("me") {
		states[c.ContextID] = c.State
	}
	return states, w.m.Stats().Warm
}

func (w *world) are(when string, want map[string]string) {
	w.t.Helper()
	idle := 0
	for _, state := range want {
		if state == runs.ConversationIdle {
			idle++
		}
	}
	if got, warm := w.states(); !maps.Equal(got, want) || warm != idle {
		w.t.Errorf("%s: %v, %d warm; want %v", when, got, warm, want)
	}
}

// TestOnlyLivingAgentsAreWarm: an agent that never came up, or has died while it
// was idle, is no warm one, and nobody's is closed for it. Its conversation goes
// on in the session that was stored.
func TestOnlyLivingAgentsAreWarm(t *testing.T) {
	var last *playedAgent
	dies := func(_ context.Context, _ backends.Input, _ backends.Host, a *playedAgent) (backends.Outcome, error) {
		a.away.Store(true)
		return backends.Outcome{}, errNoStart
	}
	lives := func(ctx context.Context, in backends.Input, h backends.Host, a *playedAgent) (backends.Outcome, error) {
		last = a
		return says("yes")(ctx, in, h, a)
	}
	b := &played{run: dies}
	w := playing(t, b, func(w *world) { w.lim.Warm = 2 })
	w.run(inContext("well"))
	if got := w.run(by("played"), inContext("c")); errorType(got) != events.ErrBackendUnavailable {
		t.Fatalf("%+v", got)
	}
	w.are("after a failed start", map[string]string{"well": "idle", "c": "cold"})
	w.run(inContext("well too"))
	w.are("beside an agent that never came up", map[string]string{"well": "idle", "well too": "idle", "c": "cold"})

	b.turns(lives)
	w.run(by("played"), inContext("c"))
	w.are("of two places", map[string]string{"well": "cold", "well too": "idle", "c": "idle"})
	last.away.Store(true) // nobody tells
	w.are("after its death", map[string]string{"well": "cold", "well too": "idle", "c": "cold"})
	w.run(inContext("well"))
	w.are("beside a dead one", map[string]string{"well": "idle", "well too": "idle", "c": "cold"})
	before := last
	w.run(by("played"), inContext("c"), said("hello there", "yes", "and now?"))
	if last == before {
		t.Fatal("the dead agent was asked")
	}
	<-before.done // it was closed
	if last.cfg.Session.ID != "s-"+last.cfg.ID {
		t.Errorf("it goes on in session %q", last.cfg.Session.ID)
	}
}

// TestNobodyGoesForAnAgentThatMayNotStart: a breaker that is open costs no
// other conversation its agent.
func TestNobodyGoesForAnAgentThatMayNotStart(t *testing.T) {
	b := &played{open: func(context.Context, backends.Config) error { return errNoStart }}
	w := playing(t, b, func(w *world) { w.lim.Warm = 2 })
	for range 5 {
		w.run(by("played"))
	}
	w.run(inContext("one"))
	w.run(inContext("two"))
	opened := b.opens()
	if got := w.run(by("played"), inContext("c")); errorType(got) != events.ErrBackendUnavailable || b.opens() != opened {
		t.Fatalf("%+v, %d starts", got, b.opens()-opened)
	}
	w.are("after a start that was refused", map[string]string{"one": "idle", "two": "idle", "c": "cold"})
}
