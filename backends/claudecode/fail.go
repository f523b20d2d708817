package claudecode

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"innerd/backends"
	"innerd/events"
)

// errNoConversation: claude does not know the session it shall resume.
var errNoConversation = errors.New("claude has no such session")

const noConversation = "No conversation found"

// class is the type of the error event that says the same.
func (f *failure) class() string {
	if c := classOfKind(f.kind); c != "" {
		return c
	}
	if c := classOfText(f.text); c != "" {
		return c
	}
	switch f.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return events.ErrAuth
	case http.StatusPaymentRequired:
		return events.ErrQuota
	case http.StatusNotFound:
		return events.ErrModelUnavailable
	case http.StatusRequestEntityTooLarge:
		return events.ErrContextLength
	case http.StatusTooManyRequests:
		return events.ErrRateLimit
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return events.ErrTimeout
	}
	if f.status >= 400 && f.status < 500 {
		return events.ErrInvalidRequest
	}
	// A provider that fails or cannot be reached, as far as anybody can see
	// from here, is one that has too much to do: the same turn may succeed later.
	return events.ErrOverloaded
}

func classOfKind(kind string) string {
	switch kind {
	case "authentication_failed", "oauth_org_not_allowed":
		return events.ErrAuth
	case "billing_error":
		return events.ErrQuota
	case "rate_limit":
		return events.ErrRateLimit
	case "overloaded":
		return events.ErrOverloaded
	case "model_not_found":
		return events.ErrModelUnavailable
	}
	return ""
}

func classOfText(text string) string {
	s := strings.ToLower(text)
	for _, c := range []struct{ words, class string }{
		{"not logged in", events.ErrAuth},
		{"invalid api key", events.ErrAuth},
		{"credit balance", events.ErrQuota},
		{"usage limit", events.ErrQuota},
		{"prompt is too long", events.ErrContextLength},
		{"context window", events.ErrContextLength},
		{"timed out", events.ErrTimeout},
	} {
		if strings.Contains(s, c.words) {
			return c.class
		}
	}
	return ""
}

// maxTokens: claude had the model go on several times, and it ran into its
// limit each time.
func (f *failure) maxTokens() bool { return f != nil && f.kind == "max_output_tokens" }

// failed is the error of a result that is one, nil for those that are not:
// limits that were asked for end a run as completed.
func failed(r *result, f *failure) error {
	if !r.IsError || r.StopReason == backends.ReasonRefusal || f.maxTokens() { // an answer, if not a whole one
		return nil
	}
	switch r.Terminal {
	case "max_turns", "budget_exhausted":
		return nil
	}
	for _, e := range r.Errors {
		if strings.Contains(e, noConversation) {
			return errNoConversation
		}
	}
	if f == nil {
		f = &failure{status: r.APIErrorStatus}
	}
	if f.text == "" {
		f.text = r.words()
	}
	if f.status == 0 {
		f.status = r.APIErrorStatus
	}
	e := &backends.Error{Type: f.class(), Message: f.text, Status: f.status}
	switch {
	case r.Terminal == "prompt_too_long" || r.Terminal == "blocking_limit":
		e.Type = events.ErrContextLength
	case r.Terminal != "api_error" && r.Text == "" && len(r.Errors) > 0:
		e.Type = events.ErrInternal
	}
	return e
}

// failed is failed with what the turn knows beside its result.
func (t *translator) failed(r *result) error {
	err := failed(r, t.failure)
	var e *backends.Error
	switch {
	case errors.As(err, &e) && e.Type == events.ErrRateLimit:
		// Claude tells the time only where it waited for it.
		e.RetryAfter = t.delay.Round(time.Second)
	case err == nil && t.schema && r.output() == nil && t.reason(r) == backends.ReasonEndTurn:
		return &backends.Error{Type: events.ErrInternal, Message: "claude gave no answer of the form that was asked for"}
	}
	return err
}

func (r *result) words() string {
	if r.Text != "" {
		return r.Text
	}
	return strings.Join(r.Errors, "; ")
}

// crashed is the error of a process that ended in a turn, or before it could
// take one: then its last words on stderr say what is wrong with how it was
// started.
func crashed(exit backends.Exit, ready bool) *backends.Error {
	e := &backends.Error{Type: events.ErrBackendCrashed, Exit: &exit, Message: "claude ended in the middle of the run"}
	tail := exit.StderrTail
	if !ready {
		e.Type, e.Message = events.ErrBackendUnavailable, "claude did not start"
	}
	if words := backends.LastWords(tail); words != "" {
		e.Message += ": " + words
	}
	if ready {
		return e
	}
	low := strings.ToLower(tail)
	switch {
	case strings.Contains(low, "log in") || strings.Contains(low, "logged in") || strings.Contains(low, "api key"):
		e.Type = events.ErrAuth
	case strings.Contains(low, "error: option") || strings.Contains(low, "unknown option") || strings.Contains(low, "invalid"):
		e.Type = events.ErrInvalidRequest
	}
	return e
}
