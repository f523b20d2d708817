package runs

import (
	"context"
	"sync"
	"time"

	"innerd/backends"
)

// How long callers wait for an agent to tell its version, which may take it
// seconds: the first event of a run must not.
const (
	probeWait  = 300 * time.Millisecond // where something is known, or a run waits
	probeFirst = 2 * time.Second        // where nothing is
	probeLimit = 60 * time.Second
	probeFresh = 500 * time.Millisecond // is not asked again
)

// prober keeps what a backend said last. One probe runs at a time.
type prober struct {
	m *Manager
	b backends.Backend

	mu      sync.Mutex
	known   bool
	last    backends.Status
	at      time.Time
	running chan struct{} // closed when the probe that is on has ended
}

// status asks the backend anew and waits for it a while, then gives what is
// known. known: the backend has answered, now or earlier.
func (p *prober) status(ctx context.Context, wait time.Duration) (st backends.Status, known bool) {
	p.mu.Lock()
	if p.known && time.Since(p.at) < probeFresh {
		defer p.mu.Unlock()
		return p.last, true
	}
	done := p.running
	if done == nil {
		done = make(chan struct{})
		if !p.m.background(func(ctx context.Context) { p.ask(ctx, done) }) {
			defer p.mu.Unlock()
			return p.last, p.known
		}
		p.running = done
	}
	p.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return backends.Status{Login: "none", Why: "it is still being looked at", Hint: "Ask again in some seconds.", Pending: true}, false
	}
	return p.last, true
}

// ask is one probe; its owner is the manager, with whom it ends.
func (p *prober) ask(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	var err error
	var st backends.Status
	func() {
		defer recovered(p.m.log, "probe", &err)
		st = p.b.Probe(ctx)
	}()
	if err != nil {
		st = backends.Status{Login: "none", Why: err.Error()}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.known, p.at, p.running = st, true, time.Now(), nil
	close(done)
}

// background runs f until it returns; its context ends with the manager. False:
// the manager is shutting down.
func (m *Manager) background(f func(context.Context)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.backgroundLocked(f)
}

func (m *Manager) backgroundLocked(f func(context.Context)) bool {
	if m.draining {
		return false
	}
	m.wg.Add(1)
	go func() { // Shutdown ends its context and waits for it
		defer m.wg.Done()
		f(m.aside)
	}()
	return true
}

// can is what a backend's agents can do.
func (m *Manager) can(ctx context.Context, b backends.Backend) backends.Capabilities {
	st, _ := m.probers[b.Name()].status(ctx, probeFirst)
	return st.Capabilities
}

// BackendInfo is a backend and whether it can run here.
type BackendInfo struct {
	Name string `json:"name"`
	backends.Status
	Found   bool        `json:"found"`             // its program is there
	Warning string      `json:"warning,omitempty"` // it runs, but is not what this build was tested with
	Breaker BreakerInfo `json:"breaker"`
	// Unknown counts what the agent said and this version did not understand,
	// by the agent's own types.
	Unknown map[string]int64 `json:"-"`
}

// Backends tells what is known of every backend. It asks them anew, all at
// once, and never waits long for the answers.
func (m *Manager) Backends(ctx context.Context) []BackendInfo {
	out := make([]BackendInfo, len(m.opt.Backends))
	var all sync.WaitGroup
	for i, b := range m.opt.Backends {
		all.Go(func() { // bounded by the wait
			st, _ := m.probers[b.Name()].status(ctx, m.probers[b.Name()].patience())
			out[i] = BackendInfo{
				Name: b.Name(), Status: st, Found: st.Usable || st.Version != "", Warning: OtherVersion(st),
				Breaker: m.breakers[b.Name()].info(),
			}
			if o, ok := b.(backends.Observer); ok {
				out[i].Unknown = o.Unknown()
			}
		})
	}
	all.Wait()
	return out
}

// patience is how long one may be waited for who has time.
func (p *prober) patience() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known {
		return probeWait
	}
	return probeFirst
}

// OtherVersion warns of a version that this build was not tested with, "" if
// it was. Such an agent runs all the same.
func OtherVersion(st backends.Status) string {
	if st.Version == "" || st.Pinned == "" || st.Version == st.Pinned {
		return ""
	}
	return "version " + st.Version + " is not the tested one, " + st.Pinned + ": it may behave otherwise"
}
