// Package runs is the life of turns: a run and its log, the conversation it
// belongs to, the pool of warm agents, what an agent is told of the history,
// and what becomes of all that when something dies. It knows no concrete agent
// and no HTTP.
package runs

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/semaphore"

	"innerd/backends"
	"innerd/events"
	"innerd/events/journal"
	"innerd/runs/redact"
	"innerd/telemetry"
	"innerd/toolbridge"
)

// Options is what a Manager needs. Store, Bridge and Backends are required.
type Options struct {
	Store    *journal.Store
	Bridge   *toolbridge.Bridge
	Backends []backends.Backend // in the order in which a default is looked for

	Default    string // the backend of runs that name none; "" is the first usable one but simulate
	Dir        string // working directory of runs that name none; "" is the server's own
	OpenServer bool   // no keys, one user: asking for permission would promise what it cannot hold
	MCPURL     string // base of the second road, "" without
	Limits     Limits

	// Fetch loads an attachment named by URL; nil refuses them.
	Fetch  func(context.Context, events.Part) (events.Part, error)
	Logger *slog.Logger
	// Redact is what is taken out of events before they are stored, with the
	// secrets of each request; nil: they are stored as agents say them.
	Redact *redact.Set
	Tracer *telemetry.Tracer // nil: runs are in no trace of ours
}

// Limits bounds what runs and conversations may use. Zero values are the
// defaults of DefaultLimits.
type Limits struct {
	Turn        map[string]time.Duration // by backend; "" for every other
	Stall       map[string]time.Duration // silence while nothing is open; "" for every other
	Grace       time.Duration            // between asking an agent to stop and ending it
	Open        time.Duration            // of an agent's start
	Idle        time.Duration            // that an agent stays warm without a run
	Warm        int                      // agents kept at once
	Spawns      int                      // agents started at once
	Queue       int                      // runs that wait in one conversation
	DetachGrace time.Duration            // without readers
	Input       time.Duration            // of a question

	conversations int // kept at all
}

// DefaultLimits is what zero values of Limits mean.
func DefaultLimits() Limits {
	return Limits{
		Turn:  map[string]time.Duration{"": 900 * time.Second, "copilot": 1800 * time.Second},
		Stall: map[string]time.Duration{"": 600 * time.Second},
		Grace: 3 * time.Second, Open: 30 * time.Second, Idle: 15 * time.Minute,
		Warm: 4, Spawns: runtime.NumCPU(), Queue: 16,
		DetachGrace: 10 * time.Second, Input: 300 * time.Second, conversations: maxConversations,
	}
}

// Manager owns every run and conversation of a server. Its methods may be
// called at the same time.
type Manager struct {
	opt      Options
	lim      Limits
	store    *journal.Store
	bridge   *toolbridge.Bridge
	log      *slog.Logger
	backends map[string]backends.Backend
	spawns   *semaphore.Weighted
	breakers map[string]*breaker
	probers  map[string]*prober
	stats    *stats
	started  time.Time
	accepted atomic.Int64

	stop context.CancelCauseFunc // ends every run that is left
	ctx  context.Context
	wg   sync.WaitGroup // runs, agents that are being closed, and what runs aside

	aside    context.Context // of what is no run; ends when a shutdown begins
	endAside context.CancelFunc

	mu            sync.Mutex // guards what follows, and every conversation's queue and agent
	draining      bool
	runs          map[string]*Run             // live ones
	rests         time.Time                   // since the last of them ended; zero before the first
	starting      map[string]chan struct{}    // ids of runs whose log is being made
	conversations map[string]*conversation    // by id
	byKey         map[string]*conversation    // those with a context
	limited       map[string]time.Time        // backend and credential → until when its provider refuses work
	warm          map[*conversation]time.Time // idle ones with an agent, and since when
}

// New makes a Manager. Nothing runs until Recover.
func New(opt Options) (*Manager, error) {
	if opt.Store == nil || opt.Bridge == nil || len(opt.Backends) == 0 {
		return nil, errors.New("runs: Store, Bridge and Backends are required")
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Manager{
		opt: opt, lim: withDefaults(opt.Limits), store: opt.Store, bridge: opt.Bridge, log: opt.Logger,
		backends: map[string]backends.Backend{}, breakers: map[string]*breaker{}, probers: map[string]*prober{}, stats: newStats(opt.Backends), started: time.Now(),
		runs: map[string]*Run{}, starting: map[string]chan struct{}{}, conversations: map[string]*conversation{}, byKey: map[string]*conversation{},
		limited: map[string]time.Time{}, warm: map[*conversation]time.Time{},
	}
	for _, b := range opt.Backends {
		m.backends[b.Name()] = b
		m.breakers[b.Name()] = newBreaker(b.Name())
		m.probers[b.Name()] = &prober{m: m, b: b}
	}
	if opt.Default != "" && m.backends[opt.Default] == nil {
		return nil, &backends.FieldError{Field: "backend", Reason: "unknown: " + opt.Default}
	}
	m.spawns = semaphore.NewWeighted(int64(m.lim.Spawns))
	m.ctx, m.stop = context.WithCancelCause(context.Background())
	m.aside, m.endAside = context.WithCancel(m.ctx)
	return m, nil
}

func withDefaults(l Limits) Limits {
	d := DefaultLimits()
	l.Turn, l.Stall = merged(d.Turn, l.Turn), merged(d.Stall, l.Stall)
	for _, p := range []struct{ v, d *time.Duration }{
		{&l.Grace, &d.Grace}, {&l.Open, &d.Open}, {&l.Idle, &d.Idle}, {&l.DetachGrace, &d.DetachGrace}, {&l.Input, &d.Input},
	} {
		if *p.v <= 0 {
			*p.v = *p.d
		}
	}
	for _, p := range []struct{ v, d *int }{{&l.Warm, &d.Warm}, {&l.Spawns, &d.Spawns}, {&l.Queue, &d.Queue}, {&l.conversations, &d.conversations}} {
		if *p.v <= 0 {
			*p.v = *p.d
		}
	}
	return l
}

func merged(base, over map[string]time.Duration) map[string]time.Duration {
	for k, v := range over {
		if v > 0 {
			base[k] = v
		}
	}
	return base
}

func of(by map[string]time.Duration, backend string) time.Duration {
	if d, ok := by[backend]; ok {
		return d
	}
	return by[""]
}

// Get finds a run of the owner, live or ended.
func (m *Manager) Get(owner, id string) (*Run, error) {
	m.mu.Lock()
	run := m.runs[id]
	m.mu.Unlock()
	if run == nil {
		log, err := m.store.Get(id)
		if err != nil {
			return nil, ErrNotFound
		}
		run = &Run{log: log}
	}
	if run.log.Meta().Owner != owner {
		return nil, ErrNotFound
	}
	return run, nil
}

// Delete forgets a run that has ended.
func (m *Manager) Delete(owner, id string) error {
	if _, err := m.Get(owner, id); err != nil {
		return err
	}
	switch err := m.store.Delete(id); {
	case errors.Is(err, journal.ErrLive):
		return ErrRunning
	case errors.Is(err, journal.ErrNotFound):
		return ErrNotFound
	default:
		return err
	}
}

// LiveInfo is a run that is not over.
type LiveInfo struct {
	ID      string
	Backend string
	Started time.Time
}

// Live lists the runs that are not over.
func (m *Manager) Live() []LiveInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]LiveInfo, 0, len(m.runs))
	for id, r := range m.runs {
		out = append(out, LiveInfo{id, r.live.meta.Backend, r.live.meta.Created})
	}
	return out
}

// Resting says since when no run has been on, after some were; false while one
// is, and before the first.
func (m *Manager) Resting() (since time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rests, len(m.runs)+len(m.starting) == 0 && !m.rests.IsZero()
}

// Uptime is how long the manager exists.
func (m *Manager) Uptime() time.Duration { return time.Since(m.started) }

// ToolResult takes a host's result of a bridged tool.
func (m *Manager) ToolResult(owner, callID string, res toolbridge.Result) toolbridge.Verdict {
	return m.bridge.ToolResult(owner, callID, res)
}

// Answer takes a host's answer to a permission or a question.
func (m *Manager) Answer(owner, taskID, requestID string, a toolbridge.Reply) (*Run, error) {
	return m.answered(owner, taskID, func() error { return m.bridge.Answer(owner, taskID, requestID, a) })
}

// ReplyText takes a text as the answer to a question, the oldest open one
// where requestID is empty.
func (m *Manager) ReplyText(owner, taskID, requestID, text string, metadata []byte) (*Run, error) {
	return m.answered(owner, taskID, func() error {
		return m.bridge.ReplyText(owner, taskID, requestID, text, metadata)
	})
}

func (m *Manager) answered(owner, taskID string, answer func() error) (*Run, error) {
	run, err := m.Get(owner, taskID)
	if err != nil {
		return nil, err
	}
	err = answer()
	if _, ended := run.log.Ended(); ended && errors.Is(err, toolbridge.ErrNotFound) {
		err = ErrEnded // the end closed all that was open
	}
	if err != nil {
		return nil, err
	}
	return run, nil
}

// Shutdown takes no more runs, ends those that are on as shut down, closes
// every agent and waits for all of it, or for the end of ctx.
func (m *Manager) Shutdown(ctx context.Context) error {
	m.mu.Lock()
	m.draining = true
	m.endAside()
	for _, r := range m.runs {
		r.live.cancel(backends.ErrShutdown)
	}
	for _, c := range m.conversations {
		if c.compacting != nil {
			c.compacting.cancel(backends.ErrShutdown)
		}
	}
	m.mu.Unlock()
	done := make(chan struct{})
	go func() { // ends with the last run and the last agent
		defer close(done)
		m.wg.Wait()
		m.closeAgents()
		m.wg.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		m.stop(backends.ErrShutdown)
		return context.Cause(ctx)
	}
	m.stop(backends.ErrShutdown)
	for _, b := range m.opt.Backends {
		if err := b.Close(ctx); err != nil {
			m.log.Warn("close backend", "backend", b.Name(), "error", err)
		}
	}
	return nil
}

func newID() string { return ulid.Make().String() }
