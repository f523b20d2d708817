package host

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// BreakerOptions are when an InnerLoop stops asking the server. The zero value
// of each is its default.
type BreakerOptions struct {
	Failures      int           // in a row until it opens; 5
	Cooldown      time.Duration // how long it stays open then; 60 s
	LimitCooldown time.Duration // after a rate limit or a quota that does not say how long it holds; 300 s
}

// States of a breaker.
const (
	BreakerClosed   = "closed"    // answers are delegated
	BreakerOpen     = "open"      // the native loop answers
	BreakerHalfOpen = "half-open" // one answer is delegated, as a probe; the native loop gives the others
)

// BreakerState is a breaker as it stands.
type BreakerState struct {
	State     string        `json:"state"`
	Failures  int           `json:"failures"`             // in a row
	Left      time.Duration `json:"left,omitempty"`       // until a probe is let through
	Limited   bool          `json:"limited,omitempty"`    // it opened by a limit of the provider
	ErrorType string        `json:"error_type,omitempty"` // of the last failure
	Message   string        `json:"message,omitempty"`

	// Since the start: answers that came, failures that counted, how often it
	// opened, answers that it refused.
	Successes, Failed, Opened, Refused int64
}

func (s BreakerState) String() string {
	switch {
	case s.State == BreakerOpen:
		return fmt.Sprintf("open for %s more: %s", s.Left.Round(time.Second), s.Message)
	case s.Failures > 0:
		return fmt.Sprintf("%s, %d failures in a row: %s", s.State, s.Failures, s.Message)
	}
	return s.State
}

// breaker has gobreaker keep its states: the count of failures in a row, how
// long it is open, the one probe. gobreaker's time to be open is fixed when it
// is made, and a provider's limit names its own, so that every opening is a new
// one that is tripped at once.
type breaker struct {
	opt BreakerOptions

	mu    sync.Mutex
	cb    *gobreaker.TwoStepCircuitBreaker[struct{}]
	until time.Time // while open: when a probe is let through
	state BreakerState
}

// What a gobreaker is told of an answer.
var (
	errCounts  = errors.New("it counts")
	errNothing = errors.New("it says nothing")
)

func newBreaker(o BreakerOptions) *breaker {
	if o.Failures <= 0 {
		o.Failures = 5
	}
	if o.Cooldown <= 0 {
		o.Cooldown = time.Minute
	}
	if o.LimitCooldown <= 0 {
		o.LimitCooldown = 5 * time.Minute
	}
	b := &breaker{opt: o}
	b.cb = b.circuit(o.Cooldown, false)
	return b
}

// circuit makes one that is open for d when it opens, which it is at once
// where it is tripped.
func (b *breaker) circuit(d time.Duration, tripped bool) *gobreaker.TwoStepCircuitBreaker[struct{}] {
	cb := gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout: max(1, d-1), MaxRequests: 1, // at the end of its time gobreaker is still open
		ReadyToTrip: func(c gobreaker.Counts) bool { return tripped || int(c.ConsecutiveFailures) >= b.opt.Failures },
		IsExcluded:  func(err error) bool { return errors.Is(err, errNothing) },
	})
	if tripped {
		done, _ := cb.Allow() // it is closed
		done(errCounts)
	}
	return cb
}

// allow asks whether an answer may be delegated.
func (b *breaker) allow() (*grant, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	done, err := b.cb.Allow()
	if err != nil {
		b.state.Refused++
		return nil, false
	}
	return &grant{b: b, cb: b.cb, done: done, probe: b.cb.State() == gobreaker.StateHalfOpen}, true
}

// grant is one answer that may be delegated. over must be called once.
type grant struct {
	b     *breaker
	cb    *gobreaker.TwoStepCircuitBreaker[struct{}]
	done  func(error)
	probe bool
}

// alive says that the agent works. It ends a probe: an agent that works may
// work for an hour, and the others need not be native for so long. The answer
// goes on as one of many, whose failure counts as any.
func (g *grant) alive() {
	if !g.probe {
		return
	}
	b := g.b
	b.mu.Lock()
	defer b.mu.Unlock()
	g.probe = false
	g.done(nil)
	if g.cb != b.cb {
		return
	}
	b.closedLocked()
	if done, err := b.cb.Allow(); err == nil {
		g.cb, g.done = b.cb, done
	}
}

// over counts a verdict. What began before the breaker last opened or closed
// says nothing of now, but for a limit.
func (g *grant) over(v verdict) {
	b := g.b
	b.mu.Lock()
	defer b.mu.Unlock()
	current := g.cb == b.cb
	switch v.kind {
	case succeeded:
		g.done(nil)
		b.state.Successes++
		if current {
			b.closedLocked()
		}
	case broke:
		g.done(errCounts)
		b.failedLocked(v, current)
		if current && b.cb.State() == gobreaker.StateOpen {
			b.openLocked(b.opt.Cooldown, false)
		}
	case limited:
		g.done(errCounts)
		b.failedLocked(v, true)
		d := b.opt.LimitCooldown
		if v.retryAfter > 0 {
			d = v.retryAfter
		}
		if left := time.Until(b.until); b.state.Limited && left > d { // the longer limit holds
			d = left
		}
		b.openLocked(d, true)
	default:
		g.done(errNothing)
	}
}

// closedLocked notes a success, which ends the row of failures.
func (b *breaker) closedLocked() {
	b.state.Failures, b.state.Limited, b.state.ErrorType, b.state.Message = 0, false, "", ""
	if !b.until.IsZero() {
		b.until = time.Time{}
		b.cb = b.circuit(b.opt.Cooldown, false)
	}
}

func (b *breaker) failedLocked(v verdict, current bool) {
	b.state.Failed++
	if current {
		b.state.Failures++
		b.state.ErrorType, b.state.Message = v.errorType, v.message
	}
}

func (b *breaker) openLocked(d time.Duration, limit bool) {
	b.state.Opened++
	b.state.Limited = limit
	b.until = time.Now().Add(d)
	b.cb = b.circuit(d, true)
}

// now is the state for people and programs.
func (b *breaker) now() BreakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state
	switch b.cb.State() {
	case gobreaker.StateOpen:
		s.State, s.Left = BreakerOpen, max(0, time.Until(b.until))
	case gobreaker.StateHalfOpen:
		s.State = BreakerHalfOpen
	default:
		s.State = BreakerClosed
	}
	return s
}
