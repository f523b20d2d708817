package runs

import (
	"errors"
	"fmt"
	"time"

	"innerd/backends"
	"innerd/events"
)

// What the Manager's methods return; test with errors.Is.
var (
	ErrNotFound = errors.New("no such run")
	ErrConflict = errors.New("conflict")
	ErrBusy     = errors.New("the conversation's queue is full")
	ErrRunning  = errors.New("a run is on")
	ErrEnded    = errors.New("the run has ended")
	ErrDraining = errors.New("innerd is shutting down")
	// ErrWaiting: the run takes no input, since it waits.
	ErrWaiting = errors.New("the run waits")
	// ErrUnsupported: the agent cannot.
	ErrUnsupported = errors.New("not supported")
)

// What callers of the Manager are told in other words, each one of those above.
var (
	errCanceling  error = &toldError{ErrEnded, "the run is being canceled"}
	errEnding     error = &toldError{ErrEnded, "the run is ending"}
	errCompacting error = &toldError{ErrRunning, "the agent is shortening its memory"}
)

// toldError is an error in words of its own.
type toldError struct {
	is    error
	words string
}

func (e *toldError) Error() string { return e.words }
func (e *toldError) Unwrap() error { return e.is }

// LimitedError says that the model's provider refuses work until a known time.
type LimitedError struct {
	Backend    string
	RetryAfter time.Duration
}

func (e *LimitedError) Error() string {
	return fmt.Sprintf("%s: its provider's limit holds for %s more", e.Backend, e.RetryAfter.Round(time.Second))
}

// Causes that end a turn from inside a run.
var (
	errToolLimit    = errors.New("tool_call_limit reached")
	errMaxCost      = errors.New("max_cost_usd reached")
	errInputTimeout = errors.New("nobody answered the agent's question in time")
	errNoPrompt     = errors.New("the request has no user message")
)

func limitReached(err error) bool {
	return errors.Is(err, errToolLimit) || errors.Is(err, errMaxCost)
}

// verdict is how a run ends: its state, the reason of session.end, and the
// error event unless it completed.
type verdict struct {
	state  string
	reason string
	err    *events.Error
	exit   *backends.Exit
}

// judge makes the verdict of a turn that returned err.
func judge(err error) verdict {
	if err == nil {
		return verdict{state: events.Completed, reason: backends.ReasonEndTurn}
	}
	switch {
	case errors.Is(err, errToolLimit):
		return verdict{state: events.Completed, reason: backends.ReasonToolCallLimit}
	case errors.Is(err, errMaxCost):
		return verdict{state: events.Completed, reason: backends.ReasonMaxCost}
	case errors.Is(err, backends.ErrDisconnected):
		return failure(events.Canceled, "disconnected", events.NewError(events.ErrCanceled, err.Error()))
	case errors.Is(err, backends.ErrCanceled):
		var asked *canceledError
		if errors.As(err, &asked) {
			err = asked // what the agent was doing then does not matter to who asked
		}
		return failure(events.Canceled, "", events.NewError(events.ErrCanceled, err.Error()))
	}
	for _, c := range failures {
		if errors.Is(err, c.cause) {
			return failure(events.Failed, "", events.NewError(c.errorType, err.Error()))
		}
	}
	var be *backends.Error
	if errors.As(err, &be) {
		e := events.NewError(be.Type, be.Message)
		e.Status, e.RetryAfterS = be.Status, be.RetryAfter.Seconds()
		v := failure(events.Failed, "", e)
		v.exit = be.Exit
		return v
	}
	var fe *backends.FieldError
	if errors.As(err, &fe) {
		return failure(events.Failed, "", events.NewError(events.ErrInvalidRequest, fe.Error()))
	}
	return failure(events.Failed, "", events.NewError(events.ErrInternal, err.Error()))
}

var failures = []struct {
	cause     error
	errorType string
}{
	{backends.ErrDeadline, events.ErrTimeout},
	{errInputTimeout, events.ErrTimeout},
	{backends.ErrStalled, events.ErrStalled},
	{backends.ErrShutdown, events.ErrShutdown},
	{errNoPrompt, events.ErrInvalidRequest},
}

func failure(state, reason string, e events.Error) verdict {
	if reason == "" {
		reason = e.ErrorType
	}
	return verdict{state: state, reason: reason, err: &e}
}
