package copilot

import (
	"encoding/json"
	"net/http"
	"strings"

	"innerd/backends"
	"innerd/events"
)

// failure is what copilot says of a failed model request or turn.
type failure struct {
	kind    string // errorType: authentication, rate_limit, query, …
	code    string // of the provider: insufficient_quota, …
	status  int
	text    string
	attempt int // of the same request, from 0
}

func failureOf(d *data) *failure {
	f := &failure{kind: d.ErrorType, code: d.ErrorCode, status: int(d.StatusCode), text: d.Message, attempt: int(d.RetryAttempt)}
	if d.ErrorMessage != "" { // of a model call: the provider's body
		var body struct {
			Message string `json:"message"`
			Code    string `json:"code"`
			Type    string `json:"type"`
		}
		f.text = d.ErrorMessage
		if lenient(json.Unmarshal([]byte(d.ErrorMessage), &body)) == nil && body.Message != "" {
			f.text, f.code, f.kind = body.Message, orElse(f.code, body.Code), orElse(f.kind, body.Type)
		}
	}
	return f
}

// kindAborted is the kind of a turn that ended by an abort which was not ours.
const kindAborted = "innerd_aborted"

// class is the type of the error event that says the same.
func (f *failure) class() string {
	if f.kind == kindAborted {
		return events.ErrInternal
	}
	if c := classOfWords(f.code + " " + f.kind); c != "" {
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

func classOfWords(words string) string {
	for _, c := range []struct{ word, class string }{
		{"insufficient_quota", events.ErrQuota},
		{"quota", events.ErrQuota},
		{"billing", events.ErrQuota},
		{"context_length", events.ErrContextLength},
		{"model_not_found", events.ErrModelUnavailable},
		{"model_not_supported", events.ErrModelUnavailable},
		{"authentication", events.ErrAuth},
		{"authorization", events.ErrAuth},
	} {
		if strings.Contains(words, c.word) {
			return c.class
		}
	}
	return ""
}

func classOfText(text string) string {
	s := strings.ToLower(text)
	for _, c := range []struct{ words, class string }{
		{"no github oauth token", events.ErrAuth},
		{"not authenticated", events.ErrAuth},
		{"exceeded your current quota", events.ErrQuota},
		{"credit balance", events.ErrQuota},
		{"premium request", events.ErrQuota},
		{"maximum context length", events.ErrContextLength},
		{"context window", events.ErrContextLength},
		{"prompt is too long", events.ErrContextLength},
		{"no response was returned", events.ErrEmptyTurn},
		{"timed out", events.ErrTimeout},
	} {
		if strings.Contains(s, c.words) {
			return c.class
		}
	}
	return ""
}

// empty: the model answered nothing, more often than copilot asks again.
func (f *failure) empty() bool { return f != nil && f.class() == events.ErrEmptyTurn }

// final says that trying again cannot help, so that copilot is not let to.
func (f *failure) final() bool {
	switch f.class() {
	case events.ErrQuota, events.ErrContextLength, events.ErrModelUnavailable, events.ErrInvalidRequest:
		return true
	}
	return false
}

// error is the failure as Run returns it. The last model request that failed
// says it in the provider's own words; what copilot makes of it names a variable to set.
func (t *translator) error() *backends.Error {
	f, call := t.err, t.failure
	switch {
	case f == nil:
		f = call
	case call != nil && (f.status == call.status || f.status == 0):
		merged := *call
		merged.kind = orElse(call.kind, f.kind)
		if merged.text == "" {
			merged.text = f.text
		}
		f = &merged
	}
	if f == nil {
		return nil
	}
	return &backends.Error{Type: f.class(), Message: orElse(f.text, f.kind), Status: f.status}
}

// crashed is the error of a process that ended. One that was not ready says on
// stderr what is wrong with how it was started. why is ours, where we have ended it.
func crashed(exit backends.Exit, ready bool, why string) *backends.Error {
	e := &backends.Error{Type: events.ErrBackendCrashed, Exit: &exit, Message: orElse(why, "copilot has ended")}
	if !ready {
		e.Type, e.Message = events.ErrBackendUnavailable, "copilot did not start"
	}
	if words := backends.LastWords(exit.StderrTail); words != "" {
		e.Message += ": " + words
	}
	return e
}
