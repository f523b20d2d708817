package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"innerd/adapter/api"
	"innerd/backends"
	"innerd/events"
	"innerd/events/journal"
	"innerd/runs"
	"innerd/toolbridge"
)

var (
	errUnauthorized = errors.New("no key, or one that is not known here: send Authorization: Bearer SECRET")
	errNoRoute      = errors.New("no such endpoint")
	errNoMethod     = errors.New("this endpoint does not know the method")
	errTooLarge     = errors.New("the body is too large")
	errStarting     = errors.New("the server is still starting")
	errNotYet       = errors.New("the server takes this when it has started; ask again")
	errNoBlob       = errors.New("no such blob")
	errSlowBody     = errors.New("the body did not arrive")
	errCut          = errors.New("the server cuts its streams")
	errPanic        = errors.New("a fault in the server, see its log")
)

// bodyError is a body that is not JSON.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "the body is not JSON: " + e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

var errOtherSite error = &refusal{"a page of another site may not call this server"}

// refusal is a request that comes from where it should not.
type refusal struct{ why string }

func (e *refusal) Error() string { return e.why }

// statusOf is the one place that knows which error is which status.
func statusOf(err error) (status int, errorType string) {
	for _, c := range statuses {
		if errors.Is(err, c.err) {
			return c.status, c.errorType
		}
	}
	for _, c := range kinds {
		if c.is(err) {
			return c.status, c.errorType
		}
	}
	// What an agent could not do between or in its turns, never a turn itself:
	// that is said in its stream.
	var agent *backends.Error
	if errors.As(err, &agent) {
		return http.StatusBadGateway, agent.Type
	}
	return http.StatusInternalServerError, api.ErrInternal
}

// A shutdown, and for the calls that runs are made of a start that takes too
// long, are 500 and not 503, on which hosts in the field give this server up for
// five minutes.
var statuses = []struct {
	err       error
	status    int
	errorType string
}{
	{errUnauthorized, http.StatusUnauthorized, api.ErrUnauthorized},
	{errNoRoute, http.StatusNotFound, api.ErrNotFound},
	{errNoMethod, http.StatusMethodNotAllowed, api.ErrUnsupported},
	{errTooLarge, http.StatusRequestEntityTooLarge, api.ErrTooLarge},
	{runs.ErrUnsupported, http.StatusNotImplemented, api.ErrUnsupported},
	{runs.ErrWaiting, http.StatusConflict, api.ErrConflict},
	{backends.ErrCanceled, http.StatusConflict, api.ErrConflict},
	{backends.ErrShutdown, http.StatusInternalServerError, api.ErrShutdown},
	{errSlowBody, http.StatusRequestTimeout, api.ErrInvalidRequest},
	{errNoBlob, http.StatusNotFound, api.ErrNotFound},
	{runs.ErrNotFound, http.StatusNotFound, api.ErrNotFound},
	{toolbridge.ErrNotFound, http.StatusNotFound, api.ErrNotFound},
	{toolbridge.ErrAnswered, http.StatusConflict, api.ErrConflict},
	{toolbridge.ErrInvalid, http.StatusBadRequest, api.ErrInvalidRequest},
	{runs.ErrConflict, http.StatusConflict, api.ErrConflict},
	{runs.ErrRunning, http.StatusConflict, api.ErrConflict},
	{runs.ErrEnded, http.StatusConflict, api.ErrConflict},
	{runs.ErrBusy, http.StatusConflict, api.ErrBusy},
	{runs.ErrDraining, http.StatusInternalServerError, api.ErrShutdown},
	{errStarting, http.StatusInternalServerError, api.ErrInternal},
	{errNotYet, http.StatusServiceUnavailable, api.ErrBusy},
	{errNoPlace, http.StatusInternalServerError, api.ErrInternal},
}

// kinds are the errors that say more than one word can.
var kinds = []struct {
	is        func(error) bool
	name      string
	status    int
	errorType string
}{
	{as[*api.FieldError], "*api.FieldError", http.StatusBadRequest, api.ErrInvalidRequest},
	{as[*backends.FieldError], "*backends.FieldError", http.StatusBadRequest, api.ErrInvalidRequest},
	{as[*bodyError], "*adapter.bodyError", http.StatusBadRequest, api.ErrInvalidRequest},
	{as[*refusal], "*adapter.refusal", http.StatusForbidden, api.ErrUnauthorized},
	{as[*journal.GoneError], "*journal.GoneError", http.StatusGone, api.ErrNotFound},
	{as[*runs.LimitedError], "*runs.LimitedError", http.StatusServiceUnavailable, api.ErrRateLimit},
	{as[*tooManyError], "*adapter.tooManyError", http.StatusTooManyRequests, api.ErrRateLimit},
}

func as[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// startingRetry is after how many seconds a caller may ask again who has waited
// for a start: it is a long one.
const startingRetry = 5

// fail answers with an error, and logs those that are the server's own fault.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Cause(r.Context())) {
		return // nobody is there to read it
	}
	if errors.Is(err, errStarting) {
		w.Header().Set("Retry-After", strconv.Itoa(startingRetry))
		if !madeOf(r) {
			err = errNotYet
		}
	}
	status, errorType := statusOf(err)
	if status == http.StatusInternalServerError && errorType == api.ErrInternal {
		s.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	body := api.Error{Detail: detailOf(err), ErrorType: errorType}
	var limited *runs.LimitedError
	var gone *journal.GoneError
	var many *tooManyError
	switch {
	case errors.As(err, &many):
		many.tell(w.Header())
	case errors.As(err, &limited):
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(limited.RetryAfter.Seconds())))))
	case errors.As(err, &gone):
		writeJSON(w, status, api.Gone{Error: body, Oldest: gone.Oldest, Latest: gone.Latest})
		return
	case status == http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, status, body)
}

// detailOf is an error in words; those of an agent begin as in a stream.
func detailOf(err error) string {
	var agent *backends.Error
	if errors.As(err, &agent) {
		return events.NewError(agent.Type, agent.Message).Message
	}
	return err.Error()
}

// answerTime is how long a reader may take for an answer that is no stream.
const answerTime = 2 * time.Minute

// writeJSON answers with one JSON value.
func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("answer: %w", err)) // an answer of ours that is no JSON is a fault of ours
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime))
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // a reader that is gone has no use for the error
}
