package runs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"innerd/backends"
	"innerd/events"
	"innerd/telemetry"
)

// A machine that cannot start an agent is not asked to for every run: after
// breakerTrips failures in a row starts are refused for breakerPause, then one
// tries.
const (
	breakerTrips = 5
	breakerPause = 10 * time.Second
)

// breaker watches the starts of one backend: spawn and handshake, never a
// turn. A start begins with the agent's Open and is over at its first sign of
// life, since agents may start their process in their first Run.
type breaker struct {
	cb *gobreaker.TwoStepCircuitBreaker[struct{}]

	mu    sync.Mutex
	until time.Time // while open: when the next start may try
	last  string    // the failure's own words
}

func newBreaker(name string) *breaker {
	b := &breaker{}
	b.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: name, Timeout: breakerPause,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerTrips },
		IsSuccessful: func(err error) bool { return !errors.Is(err, errStartFailed) },
		IsExcluded:   func(err error) bool { return errors.Is(err, errStartUnknown) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				b.mu.Lock()
				b.until = time.Now().Add(breakerPause)
				b.mu.Unlock()
			}
		},
	})
	return b
}

// What a start came to, as the breaker is told. nil: the agent came up.
var (
	errStartFailed  = errors.New("the agent did not come up")
	errStartUnknown = errors.New("it says nothing of the machine")
)

// startOf sorts what an agent's Open, or a Run that said nothing before it,
// returned. opening: it was Open.
func startOf(err error, opening bool) error {
	var be *backends.Error
	switch {
	case err == nil, errors.Is(err, backends.ErrNoSession), errors.Is(err, backends.ErrNewSession):
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &be) && (be.Type == events.ErrBackendUnavailable || opening && be.Type == events.ErrBackendCrashed):
		return errStartFailed
	}
	return errStartUnknown
}

// start is one start on its way.
type start struct {
	b    *breaker
	once sync.Once
	done func(error)
	own  bool   // the request brought an environment, whose failures are its own
	free func() // gives up its place among the starts; may be called once

	span *telemetry.Span
	told func(verdict error) // of what it came to; nil: nobody
}

// begin admits a start, or refuses it with the time of the next try. free is
// called when the start is over.
func (b *breaker) begin(own bool, free func()) (*start, error) {
	done, err := b.cb.Allow()
	if err != nil {
		free()
		return nil, b.refusal()
	}
	return &start{b: b, done: done, own: own, free: free}, nil
}

func (b *breaker) refusal() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := time.Until(b.until)
	if left <= 0 { // another run is trying
		left = time.Second
	}
	return &backends.Error{
		Type: events.ErrBackendUnavailable, RetryAfter: left,
		Message: fmt.Sprintf("it failed to start %d times in a row and is tried again in %s; the last time: %s", breakerTrips, left.Round(time.Second), b.last),
	}
}

// up says that the agent has shown a sign of life.
func (s *start) up() { s.over(nil, false) }

// over says how the start ended; only the first time counts.
func (s *start) over(err error, opening bool) {
	s.once.Do(func() {
		defer s.free()
		verdict := startOf(err, opening)
		if verdict != nil && s.own {
			verdict = errStartUnknown
		}
		if errors.Is(verdict, errStartFailed) {
			s.b.mu.Lock()
			s.b.last = wordsOf(err)
			s.b.mu.Unlock()
		}
		s.done(verdict)
		if s.told != nil {
			s.told(verdict)
		}
	})
}

func wordsOf(err error) string {
	var be *backends.Error
	if errors.As(err, &be) {
		return be.Message
	}
	return err.Error()
}

// BreakerInfo is what a backend's breaker knows.
type BreakerInfo struct {
	State       string  `json:"state"`                   // closed, open, half-open
	Failures    int     `json:"failures,omitempty"`      // in a row
	RetryAfterS float64 `json:"retry_after_s,omitempty"` // until the next try, while open
	LastError   string  `json:"last_error,omitempty"`
}

func (b *breaker) info() BreakerInfo {
	state, counts := b.cb.State(), b.cb.Counts()
	b.mu.Lock()
	defer b.mu.Unlock()
	info := BreakerInfo{State: state.String(), Failures: int(counts.ConsecutiveFailures)}
	if state == gobreaker.StateOpen {
		info.Failures, info.RetryAfterS = breakerTrips, max(time.Until(b.until).Seconds(), 0)
	}
	if info.Failures > 0 || state != gobreaker.StateClosed {
		info.LastError = b.last
	}
	return info
}
