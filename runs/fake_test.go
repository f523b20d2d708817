package runs_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"innerd/backends"
	"innerd/events"
	"innerd/runs"
)

// played is a backend whose agent the test plays.
type played struct {
	name  string
	can   backends.Capabilities
	probe func(context.Context) backends.Status                                                        // nil: usable
	open  func(context.Context, backends.Config) error                                                 // nil: it opens
	run   func(context.Context, backends.Input, backends.Host, *playedAgent) (backends.Outcome, error) // of every run

	close   func() // nil: at once
	sweep   func() // nil: nothing is left
	steer   func(context.Context, []events.Part) error
	compact func(context.Context) error

	mu     sync.Mutex
	opened []backends.Config
}

func (b *played) Name() string { return b.name }

func (b *played) Probe(ctx context.Context) backends.Status {
	if b.probe != nil {
		return b.probe(ctx)
	}
	return backends.Status{Usable: true, Version: "1", Capabilities: b.can}
}

func (b *played) Open(ctx context.Context, cfg backends.Config) (backends.Conversation, error) {
	b.mu.Lock()
	b.opened = append(b.opened, cfg)
	b.mu.Unlock()
	if b.open != nil {
		if err := b.open(ctx, cfg); err != nil {
			return nil, err
		}
	}
	return &playedAgent{b: b, cfg: cfg, done: make(chan struct{})}, nil
}

func (b *played) Unknown() map[string]int64 { return map[string]int64{"new/event": 2} }

func (b *played) Close(context.Context) error { return nil }

func (b *played) opens() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.opened)
}

// playedAgent is one conversation of it.
type playedAgent struct {
	b    *played
	cfg  backends.Config
	once sync.Once
	done chan struct{}
	away atomic.Bool // it has no process, and could take a run
}

func (a *playedAgent) Run(ctx context.Context, in backends.Input, h backends.Host) (backends.Outcome, error) {
	if a.cfg.Session.Zero() && a.cfg.Save != nil {
		if err := a.cfg.Save(backends.Session{ID: "s-" + a.cfg.ID}); err != nil {
			return backends.Outcome{}, err
		}
	}
	a.b.mu.Lock()
	run := a.b.run
	a.b.mu.Unlock()
	return run(ctx, in, h, a)
}

// turns makes later runs another turn.
func (b *played) turns(run turnFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.run = run
}

func (a *playedAgent) Done() <-chan struct{} { return a.done }
func (a *playedAgent) die()                  { a.once.Do(func() { close(a.done) }) }

func (a *playedAgent) Lives() bool { return !a.away.Load() }

func (a *playedAgent) Close(context.Context) error {
	if a.b.close != nil {
		a.b.close()
	}
	a.die()
	return nil
}

func (a *playedAgent) Sweep(context.Context) {
	if a.b.sweep != nil {
		a.b.sweep()
	}
}

func (a *playedAgent) Steer(ctx context.Context, p []events.Part) error { return a.b.steer(ctx, p) }
func (a *playedAgent) Compact(ctx context.Context) error                { return a.b.compact(ctx) }

// says is a turn that says one message.
func says(text string) func(context.Context, backends.Input, backends.Host, *playedAgent) (backends.Outcome, error) {
	return func(_ context.Context, _ backends.Input, h backends.Host, _ *playedAgent) (backends.Outcome, error) {
		say(h, text)
		return backends.Outcome{Stored: true}, nil
	}
}

func say(h backends.Host, text string) {
	h.Emit(events.Event{Data: events.MessageDelta{MessageID: text, Delta: text}})
	h.Emit(events.Event{Data: events.Message{MessageID: text}})
}

// playing makes a world whose default agent is the test's.
func playing(t *testing.T, b *played, change ...func(*world)) *world {
	t.Helper()
	if b.name == "" {
		b.name = "played"
	}
	return newWorld(t, append(change, func(w *world) { w.other = append(w.other, b) })...)
}

func by(name string) func(*runs.Spec) { return func(s *runs.Spec) { s.Backend = name } }
