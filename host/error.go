package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"innerd/events/sse"
)

// Types of Error that the server does not send itself.
const (
	TypeUnreachable = "unreachable" // no connection could be made
	TypeBroken      = "broken"      // a stream was cut, and could not be resumed in Options.GiveUp
)

// Error is a call that failed. Test for it with errors.As.
type Error struct {
	Status     int           // HTTP status; 0 when there was no answer
	ErrorType  string        // as the server classed it, or TypeUnreachable, TypeBroken
	Detail     string        // for people
	RetryAfter time.Duration // 0 when the server said nothing

	// Oldest and Latest are the event ids that a 410 says are kept.
	Oldest, Latest int64

	Err error // the cause where there was no answer
}

func (e *Error) Error() string {
	switch {
	case e.Status == 0 && e.Detail == "" && e.Err != nil:
		return fmt.Sprintf("%s: %v", e.ErrorType, e.Err)
	case e.Status == 0:
		return e.ErrorType + ": " + e.Detail
	case e.ErrorType == "":
		return fmt.Sprintf("HTTP %d: %s", e.Status, e.Detail)
	}
	return fmt.Sprintf("HTTP %d %s: %s", e.Status, e.ErrorType, e.Detail)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// maxErrorBody bounds what is read of an answer that is an error.
const maxErrorBody = 64 << 10

// answerError makes the error of an answer that is not 2xx. Redirects are
// errors too: the server never sends one, so something stands in between.
func answerError(resp *http.Response) *Error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	e := &Error{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"))}
	var body struct {
		Detail    any             `json:"detail"`
		ErrorType string          `json:"error_type"`
		Oldest    int64           `json:"oldest"`
		Latest    int64           `json:"latest"`
		Error     json.RawMessage `json:"error"` // JSON-RPC, of a wrong A2A-Version
	}
	if json.Unmarshal(raw, &body) == nil {
		e.ErrorType, e.Oldest, e.Latest = body.ErrorType, body.Oldest, body.Latest
		if body.Detail != nil {
			e.Detail = fmt.Sprint(body.Detail)
		}
	}
	if e.Detail == "" {
		e.Detail = firstLine(raw, resp.Status)
	}
	return e
}

func firstLine(raw []byte, fallback string) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(raw), []byte("\n"))
	if s := strings.TrimSpace(string(line)); s != "" {
		return s[:min(len(s), 500)]
	}
	return fallback
}

func retryAfter(v string) time.Duration {
	if v == "" {
		return 0
	}
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(t))
	}
	return 0
}

// unreachable reports whether err says that no connection could be made, so
// that nothing of the request can have arrived. One that was reset at once is
// something that answers, and is tried again.
func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && !errors.Is(err, syscall.ECONNRESET)
}

// transient reports whether the same call may well succeed later.
func transient(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Status == 0 {
		return !untrusted(err) && !errors.Is(err, sse.ErrTooLong)
	}
	return e.Status == http.StatusTooManyRequests || e.Status >= 500
}
