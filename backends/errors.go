package backends

import (
	"errors"
	"fmt"
	"time"
)

// What Open, Run and Steer return; test with errors.Is.
var (
	ErrNoSession  = errors.New("the agent's session cannot be resumed")
	ErrNewSession = errors.New("these settings need a new session")
	ErrTooLate    = errors.New("the turn is over")
)

// The causes of a cancel, as context.Cause gives them.
var (
	ErrCanceled     = errors.New("canceled")
	ErrDeadline     = errors.New("the turn's time is over")
	ErrStalled      = errors.New("the agent said nothing for too long")
	ErrShutdown     = errors.New("innerd is shutting down")
	ErrDisconnected = errors.New("the last reader is gone")
)

// Error is a failure of the agent or its model, classed.
type Error struct {
	Type       string // one of the Err… strings of package events
	Message    string // the agent's own words
	Status     int    // the provider's HTTP status, where there was one
	RetryAfter time.Duration
	Exit       *Exit // how the agent's process ended, if it did
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }

// Exit is how a process ended.
type Exit struct {
	Code       int    // -1 when a signal ended it
	Signal     string // "killed", "terminated", …
	StderrTail string
}

// FieldError is a field of a request that cannot be used.
type FieldError struct {
	Field  string // as the host wrote it: "metadata.agent_options.script[2]"
	Reason string
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Reason) }
