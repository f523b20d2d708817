package modelstub

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// Scenario is one script with its own address, key and record of requests.
// Its methods may be called at the same time.
type Scenario struct {
	srv       *Server
	name, key string

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever something below changes
	turns   []Turn
	used    int // how many requests turns[0] has answered
	last    *Turn
	fn      func(Request) Turn
	gates   map[string]*Gate
	reqs    []Request // KindStream
	side    []Request // all others
	open    int       // handlers at work
	seen    int       // tokens that a warm cache holds
	ids     map[string]int
}

func newScenario(s *Server, name string, turns []Turn) *Scenario {
	return &Scenario{
		srv: s, name: name, key: "sk-stub-" + name, turns: turns,
		changed: make(chan struct{}), gates: map[string]*Gate{}, ids: map[string]int{},
	}
}

// V1 is the base URL for agents that want the version in it: Codex, Copilot.
func (sc *Scenario) V1() string { return sc.BaseURL() + "/v1" }

// BaseURL is what an agent takes as its provider's address.
func (sc *Scenario) BaseURL() string { return sc.srv.URL() + "/" + sc.name }

// Key is the dummy key that requests must carry; others get a 401.
func (sc *Scenario) Key() string { return sc.key }

// Accept has the scenario take another key than its own, before its first
// request: agents that share a process for each key get the same one.
func (sc *Scenario) Accept(key string) { sc.key = key }

// Add puts turns at the end of the script.
func (sc *Scenario) Add(turns ...Turn) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.turns = append(sc.turns, turns...)
}

// Func answers the requests that come when the script is used up. It may be
// called from several goroutines.
func (sc *Scenario) Func(fn func(Request) Turn) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.fn = fn
}

// Gate is the gate of a name, made at the first call. A script in JSON names its gates.
func (sc *Scenario) Gate(name string) *Gate {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	g, ok := sc.gates[name]
	if !ok {
		g = NewGate()
		sc.gates[name] = g
	}
	return g
}

// Requests are the requests for a stream so far, oldest first.
func (sc *Scenario) Requests() []Request {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return append([]Request(nil), sc.reqs...)
}

// Side are all other requests so far: retries without streaming, probes,
// token counts, wrong keys, unknown paths.
func (sc *Scenario) Side() []Request {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return append([]Request(nil), sc.side...)
}

// Count is the number of requests for a stream so far.
func (sc *Scenario) Count() int {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return len(sc.reqs)
}

// Await blocks until n requests for a stream have arrived.
func (sc *Scenario) Await(ctx context.Context, n int) error {
	return sc.await(ctx, func() error {
		if len(sc.reqs) < n {
			return fmt.Errorf("modelstub: %d of %d requests arrived", len(sc.reqs), n)
		}
		return nil
	})
}

// AwaitIdle blocks until no request is being answered: streams have ended, or
// their clients have gone.
func (sc *Scenario) AwaitIdle(ctx context.Context) error {
	return sc.await(ctx, func() error {
		if sc.open > 0 {
			return fmt.Errorf("modelstub: %d requests are still open", sc.open)
		}
		return nil
	})
}

// await blocks until check, called under the lock, returns nil.
func (sc *Scenario) await(ctx context.Context, check func() error) error {
	for {
		sc.mu.Lock()
		err, changed := check(), sc.changed
		sc.mu.Unlock()
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

func (sc *Scenario) notifyLocked() {
	close(sc.changed)
	sc.changed = make(chan struct{})
}

// enter and leave count the requests that are being answered.
func (sc *Scenario) enter() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.open++
}

func (sc *Scenario) leave() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.open--
	sc.notifyLocked()
}

// record keeps a request that uses up no turn.
func (sc *Scenario) record(r *Request) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.side = append(sc.side, *r)
	sc.notifyLocked()
}

var scriptOver = Say(Text("(script over)"))

// next keeps a request for a stream and gives the turn that answers it.
func (sc *Scenario) next(r *Request) Turn {
	sc.mu.Lock()
	r.N = len(sc.reqs) + 1
	sc.reqs = append(sc.reqs, *r)
	sc.notifyLocked()
	turn, fn := scriptOver, sc.fn
	if len(sc.turns) > 0 {
		turn, fn = sc.takeLocked(), nil
	}
	sc.last = &turn
	sc.mu.Unlock()
	if fn == nil {
		return turn
	}
	turn = fn(*r)
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.last = &turn
	return turn
}

func (sc *Scenario) takeLocked() Turn {
	t := sc.turns[0]
	sc.used++
	if t.times >= 0 && sc.used >= max(t.times, 1) {
		sc.turns, sc.used = sc.turns[1:], 0
	}
	return t
}

// whole gives the turn that answers a request without streaming: what the
// last stream should have said.
func (sc *Scenario) whole() Turn {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.last == nil {
		return scriptOver
	}
	t := *sc.last
	if t.retry {
		return Turn{Blocks: t.instead}
	}
	return t
}

// id numbers messages, requests and tool calls, each from 1.
func (sc *Scenario) id(prefix string) string {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.ids[prefix]++
	return fmt.Sprintf("%s_stub_%04d", prefix, sc.ids[prefix])
}

// usage estimates the tokens of an exchange as a provider with a warm cache
// would count them: what was sent before is read, what is new is written.
func (sc *Scenario) usage(r *Request, t Turn) Usage {
	if t.Usage != nil {
		return *t.Usage
	}
	said, thought := t.size(r)
	u := Usage{Input: 4, Output: said/4 + thought/4 + 1, Thinking: thought / 4}
	all := max(len(r.Body)/4, 4) - u.Input
	sc.mu.Lock()
	defer sc.mu.Unlock()
	u.CacheRead = min(sc.seen, all)
	u.CacheWrite = all - u.CacheRead
	sc.seen = all
	return u
}

func (sc *Scenario) authorized(h http.Header) bool {
	return sc.key == "" || h.Get("X-Api-Key") == sc.key || h.Get("Api-Key") == sc.key || h.Get("Authorization") == "Bearer "+sc.key
}

// Beside is another scenario of the same server, without a script.
func (sc *Scenario) Beside() *Scenario { return sc.srv.Scenario() }
