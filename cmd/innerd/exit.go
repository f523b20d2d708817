package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"innerd/events"
	"innerd/host"
)

// Exit codes. They are a promise to scripts; exitHelp and the docs name them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnavailable = 3
	exitAuth        = 4
	exitLimited     = 5
	exitTimeout     = 6
	exitCanceled    = 130
)

const exitHelp = `Exit codes:
  0    the run completed
  1    it failed
  2    the command or the request was wrong; nothing was started
  3    no server, or no usable agent
  4    a key or a login is missing or wrong
  5    the model's provider limits or is overloaded: later may do
  6    the turn took too long, or stalled
  130  canceled`

// usageError is a command line that cannot be run.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// exitError ends the command with a code; a nil err has been told already.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}
func (e exitError) Unwrap() error { return e.err }

// exitOf finds the code of an error of a command, and says what there is to say.
func exitOf(w io.Writer, command string, err error) int {
	if err == nil {
		return exitOK
	}
	var exit exitError
	if errors.As(err, &exit) {
		if exit.err != nil {
			fmt.Fprintln(w, "innerd:", exit.err)
		}
		return exit.code
	}
	fmt.Fprintln(w, "innerd:", err)
	var usage usageError
	var call *host.Error
	switch {
	case errors.As(err, &usage):
		fmt.Fprintln(w, "See "+command+" --help.")
		return exitUsage
	case errors.As(err, &call):
		if call.Status == http.StatusUnauthorized {
			fmt.Fprintln(w, "Give the server's key by INNERD_API_KEY or --api-key-file.")
		}
		return exitOfCall(call)
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.Is(err, context.Canceled):
		return exitCanceled
	}
	return exitFailed
}

func exitOfCall(e *host.Error) int {
	switch {
	case e.ErrorType == host.TypeUnreachable, e.ErrorType == host.TypeBroken:
		return exitUnavailable
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return exitAuth
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable:
		return exitLimited
	case e.Status/100 == 4:
		return exitUsage
	}
	return exitFailed
}

// exitOfEnd is the code of a run that has ended.
func exitOfEnd(end *events.End, e *events.Error) int {
	switch {
	case end.State == events.Completed:
		return exitOK
	case end.State == events.Canceled:
		return exitCanceled
	case e == nil:
		return exitFailed
	}
	switch e.ErrorType {
	case events.ErrAuth:
		return exitAuth
	case events.ErrBackendUnavailable, events.ErrModelUnavailable:
		return exitUnavailable
	case events.ErrRateLimit, events.ErrQuota, events.ErrOverloaded:
		return exitLimited
	case events.ErrTimeout, events.ErrStalled:
		return exitTimeout
	}
	return exitFailed
}
