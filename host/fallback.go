package host

import (
	"context"
	"errors"
	"net/http"
	"time"

	"innerd/adapter/api"
	"innerd/events"
)

// TypeFallback is the type of a *Fallback in a stream. It comes from this
// library, never from a server.
const TypeFallback events.Type = "host.fallback"

// Why a native loop answers.
const (
	FallbackOpen       = "open"        // the breaker refuses: too many failures, or a limit that holds
	FallbackFailed     = "failed"      // the delegated answer failed
	FallbackLimited    = "limited"     // it failed by a limit of the provider: the breaker is open now
	FallbackBadRequest = "bad_request" // the server, or the agent, can't do this request
	FallbackMissing    = "missing"     // there is no server, which LoopOptions.AllowMissing allows
)

// Fallback is an event of an InnerLoop's stream: from here on the native loop
// answers. It has no id, and no session.error and session.end of the failed run
// came before it. Where the run had said something, it stands: the native
// answer begins at the byte From of the turn's text, and what was said is not
// to be said again.
type Fallback struct {
	Reason    string       `json:"reason"`               // FallbackOpen …
	ErrorType string       `json:"error_type,omitempty"` // of the failure
	Message   string       `json:"message"`              // for people
	Breaker   BreakerState `json:"breaker"`              // after the failure was counted
	TaskID    string       `json:"task_id,omitempty"`    // of the run that failed
	Said      string       `json:"said,omitempty"`       // what it had said, whole messages and one that was cut
	From      int          `json:"from"`                 // len(Said)

	// History is what the run did, to go on from: what it said, its calls of
	// the host's tools and their results. The native loop finds it at the end
	// of its request's Messages.
	History []api.Message `json:"-"`
}

// EventType implements events.Data.
func (*Fallback) EventType() events.Type { return TypeFallback }

// verdict is how a delegated answer ended, as the breaker sees it.
type verdict struct {
	kind       verdictKind
	retryAfter time.Duration // of limited; 0: unknown
	errorType  string
	message    string
}

type verdictKind int

const (
	succeeded  verdictKind = iota
	unfinished             // canceled, or left by the caller: it says nothing
	bad                    // a request that can't be done: never counts
	broke                  // counts
	limited                // opens at once
)

// verdictOf judges a failure. ctx is the caller's: its end is no failure.
func verdictOf(ctx context.Context, err error, failure *events.Error) verdict {
	var e *Error
	switch {
	case err == nil && failure == nil:
		return verdict{kind: succeeded}
	case err != nil && ctx.Err() != nil:
		return verdict{kind: unfinished, message: err.Error()}
	case failure != nil:
		return verdict{kindOf(failure.ErrorType), seconds(failure.RetryAfterS), failure.ErrorType, failure.Message}
	case !errors.As(err, &e):
		return verdict{kind: broke, errorType: TypeBroken, message: err.Error()}
	}
	v := verdict{kindOf(e.ErrorType), e.RetryAfter, e.ErrorType, e.Error()}
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		v.kind = limited
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		v.kind = bad
	}
	return v
}

func kindOf(errorType string) verdictKind {
	switch errorType {
	case events.ErrRateLimit, events.ErrQuota:
		return limited
	case events.ErrInvalidRequest, events.ErrContextLength, api.ErrTooLarge, api.ErrConflict, api.ErrBusy:
		return bad
	case events.ErrCanceled:
		return unfinished
	}
	return broke
}

func (v verdict) reason() string {
	switch v.kind {
	case limited:
		return FallbackLimited
	case bad:
		return FallbackBadRequest
	}
	return FallbackFailed
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
