package runs

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/telemetry"
)

// Ending is how a run ended, for counts; both words are of a known few.
type Ending struct{ State, ErrorType string }

// Resolution is how a request to the host ended, for counts.
type Resolution struct {
	Kind    events.RequestKind
	Outcome string
}

// What the start of an agent came to, for counts.
const (
	StartOK      = "ok"
	StartFailed  = "failed" // the breaker counts it
	StartUnclear = "unclear"
)

// Stats is what a server's runs are and were since its start. Nothing in it
// was made up by a caller.
type Stats struct {
	Backends map[string]BackendStats

	Starting, MaxStarting int // agents that come up
	Warm, MaxWarm         int // conversations whose agent waits; agents at once
	Late                  int64
	Resolved              map[Resolution]int64
	Waits                 map[events.RequestKind]telemetry.Times // how long hosts took
}

// BackendStats is one backend's part.
type BackendStats struct {
	Usable  bool // as it said last; nobody is asked
	Breaker BreakerInfo
	Unknown int64 // things that its agents said and nobody here understood

	Queued, Working, Waiting int            // runs that are not over
	Conversations            map[string]int // by state
	Accepted                 int64          // runs
	Ended                    map[Ending]int64
	Starts                   map[string]int64 // of agents

	Run, FirstDelta, Start telemetry.Times
}

// stats counts. Its methods may be called at the same time.
type stats struct {
	times map[string]*times // by backend; never changed
	waits map[events.RequestKind]*telemetry.Histogram

	starting, late atomic.Int64

	mu       sync.Mutex // guards what follows
	resolved map[Resolution]int64
}

// times is a backend's counts.
type times struct {
	run, first, start telemetry.Histogram

	mu       sync.Mutex // guards what follows
	accepted int64
	ended    map[Ending]int64
	starts   map[string]int64
}

func newStats(all []backends.Backend) *stats {
	s := &stats{times: map[string]*times{}, waits: map[events.RequestKind]*telemetry.Histogram{}, resolved: map[Resolution]int64{}}
	for _, b := range all {
		s.times[b.Name()] = &times{ended: map[Ending]int64{}, starts: map[string]int64{}}
	}
	for _, k := range []events.RequestKind{events.KindTool, events.KindPermission, events.KindQuestion} {
		s.waits[k] = &telemetry.Histogram{}
	}
	return s
}

func (s *stats) accept(backend string) {
	t := s.times[backend]
	t.mu.Lock()
	defer t.mu.Unlock()
	t.accepted++
}

// end counts the end of a run; one of an earlier server may be of a backend
// that is not set up now.
func (s *stats) end(backend string, e Ending, took time.Duration) {
	t := s.times[backend]
	if t == nil {
		return
	}
	if took > 0 {
		t.run.Observe(took)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended[e]++
}

func (s *stats) started(backend string, verdict error, took time.Duration) {
	t, what := s.times[backend], StartUnclear
	switch {
	case verdict == nil:
		what = StartOK
		t.start.Observe(took)
	case errors.Is(verdict, errStartFailed):
		what = StartFailed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starts[what]++
}

func (s *stats) resolve(r Resolution, took time.Duration) {
	if h := s.waits[r.Kind]; h != nil {
		h.Observe(took)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resolved[r]++
}

// Stats gives what the runs of this server are and were. It asks no agent, and
// is for whoever looks now and then.
func (m *Manager) Stats() Stats {
	s := Stats{
		Backends: map[string]BackendStats{}, Starting: int(m.stats.starting.Load()), MaxStarting: m.lim.Spawns,
		MaxWarm: m.lim.Warm, Late: m.stats.late.Load(), Resolved: map[Resolution]int64{}, Waits: map[events.RequestKind]telemetry.Times{},
	}
	for k, h := range m.stats.waits {
		s.Waits[k] = h.Times()
	}
	m.stats.mu.Lock()
	maps.Copy(s.Resolved, m.stats.resolved)
	m.stats.mu.Unlock()
	for name, b := range m.backends {
		s.Backends[name] = m.backendStats(name, b)
	}
	m.countConversations(&s)
	for _, r := range m.liveRuns() {
		l := r.live
		b := s.Backends[l.meta.Backend]
		switch l.stage() {
		case StageQueued:
			b.Queued++
		case StageWaiting:
			b.Waiting++
		default:
			b.Working++
		}
		s.Backends[l.meta.Backend] = b
	}
	return s
}

func (m *Manager) backendStats(name string, b backends.Backend) BackendStats {
	t := m.stats.times[name]
	out := BackendStats{
		Breaker: m.breakers[name].info(), Run: t.run.Times(), FirstDelta: t.first.Times(), Start: t.start.Times(),
		Conversations: map[string]int{ConversationRunning: 0, ConversationIdle: 0, ConversationCold: 0},
		Ended:         map[Ending]int64{}, Starts: map[string]int64{StartOK: 0, StartFailed: 0, StartUnclear: 0},
	}
	p := m.probers[name]
	p.mu.Lock()
	out.Usable = p.known && p.last.Usable
	p.mu.Unlock()
	if o, ok := b.(backends.Observer); ok {
		for _, n := range o.Unknown() {
			out.Unknown += n
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out.Accepted = t.accepted
	maps.Copy(out.Ended, t.ended)
	maps.Copy(out.Starts, t.starts)
	return out
}

func (m *Manager) countConversations(s *Stats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.warm {
		if lives(c.agent) {
			s.Warm++
		}
	}
	for _, c := range m.conversations {
		s.Backends[c.backend.Name()].Conversations[c.infoLocked().State]++
	}
}

// liveRuns gives the runs that are not over.
func (m *Manager) liveRuns() []*Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.runs))
}

// Stages of a run that is not over.
const (
	StageQueued  = "queued"
	StageWorking = "working"
	StageWaiting = "waiting" // for the host
)

func (l *live) stage() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.started:
		return StageQueued
	case l.waiting():
		return StageWaiting
	}
	return StageWorking
}

// LiveRun is a run that is not over, as its owner may see it.
type LiveRun struct {
	ID, ConversationID, Backend string
	State                       string // queued, working, waiting
	Accepted                    time.Time
	LastEventID                 int64
	Readers                     int   // of its log
	Lag                         int64 // events that the last of them is behind
	Pending                     int   // requests that wait for the host
}

// Overview gives the owner's runs that are not over.
func (m *Manager) Overview(owner string) []LiveRun {
	var out []LiveRun
	for _, r := range m.liveRuns() {
		l := r.live
		if l.meta.Owner != owner {
			continue
		}
		readers, lag := r.log.Readers()
		out = append(out, LiveRun{
			ID: l.meta.ID, ConversationID: l.meta.ConversationID, Backend: l.meta.Backend, State: l.stage(), Accepted: l.meta.Created,
			LastEventID: r.log.Last(), Readers: readers, Lag: lag, Pending: int(l.tools.Load() + l.asks.Load()),
		})
	}
	return out
}
