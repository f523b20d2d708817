package codex

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"innerd/backends"
	"innerd/backends/internal/rpc"
	"innerd/events"
)

// kind is codex's word for an error, and the provider's status where it tells one.
func (e *turnError) kind() (word string, httpStatus int) {
	if json.Unmarshal(e.Info, &word) == nil {
		return word, 0
	}
	var m map[string]struct {
		Status int `json:"httpStatusCode"`
	}
	_ = json.Unmarshal(e.Info, &m)
	for k, v := range m {
		return k, v.Status
	}
	return "", 0
}

// classed is the error as hosts know it.
func (e *turnError) classed() *backends.Error {
	word, httpStatus := e.kind()
	message := e.Message
	if strings.HasPrefix(message, "Reconnecting...") {
		message = orElse(e.Details, message)
	}
	if strings.Contains(message, "reasoning.summary") || strings.Contains(message, "reasoning summaries") {
		message = words(message) + ` (agent_options {"reasoning_summary":"none"} does without)`
	}
	out := &backends.Error{Message: words(message), Status: httpStatus, RetryAfter: retryAfter(message)}
	out.Type = classOfWord(word)
	if out.Type == "" {
		out.Type = classOfText(message)
	}
	if out.Type == "" {
		out.Type = classOfStatus(httpStatus)
	}
	return out
}

func classOfWord(word string) string {
	switch word {
	case "contextWindowExceeded":
		return events.ErrContextLength
	case "sessionBudgetExceeded", "usageLimitExceeded":
		return events.ErrQuota
	case "rateLimitExceeded":
		return events.ErrRateLimit
	case "serverOverloaded", "flexUnavailable", "policyCapacityUnavailable", "internalServerError":
		return events.ErrOverloaded
	case "modelNotFound":
		return events.ErrModelUnavailable
	case "unauthorized":
		return events.ErrAuth
	case "badRequest", "cyberPolicy", "bioPolicy", "misalignmentPolicyViolation", "inferenceHookDenied":
		return events.ErrInvalidRequest
	}
	return ""
}

func classOfStatus(httpStatus int) string {
	switch httpStatus {
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
	if httpStatus >= 400 && httpStatus < 500 {
		return events.ErrInvalidRequest
	}
	// A provider that fails or cannot be reached, as far as anybody can see
	// from here, is one that has too much to do: the same turn may succeed later.
	return events.ErrOverloaded
}

func classOfText(text string) string {
	s := strings.ToLower(text)
	for _, c := range []struct{ words, class string }{
		{"context_length_exceeded", events.ErrContextLength},
		{"maximum context length", events.ErrContextLength},
		{"prompt is too long", events.ErrContextLength},
		{"insufficient_quota", events.ErrQuota},
		{"quota exceeded", events.ErrQuota},
		{"credit balance", events.ErrQuota},
		{"invalid_api_key", events.ErrAuth},
		{"rate_limit_exceeded", events.ErrRateLimit},
		{"rate limit reached", events.ErrRateLimit},
		{"model_not_found", events.ErrModelUnavailable},
		{"idle timeout", events.ErrTimeout},
		{"invalid_request_error", events.ErrInvalidRequest},
		{"invalid_prompt", events.ErrInvalidRequest},
		{"invalid prompt", events.ErrInvalidRequest},
	} {
		if strings.Contains(s, c.words) {
			return c.class
		}
	}
	if strings.HasPrefix(s, "{") { // the body of a 400, which codex passes on
		return events.ErrInvalidRequest
	}
	return ""
}

// words is the provider's own message where codex passes its JSON on.
func words(message string) string {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
		Detail string `json:"detail"`
	}
	if strings.HasPrefix(message, "{") && json.Unmarshal([]byte(message), &body) == nil {
		return orElse(orElse(body.Error.Message, body.Detail), message)
	}
	return message
}

// hopeless reports whether asking again can't help: codex does all the same.
func hopeless(httpStatus int) bool {
	switch httpStatus {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return httpStatus >= 400 && httpStatus < 500
}

const incomplete = "Incomplete response returned, reason: "

// reason is why the model stopped, where codex makes an error of it that is
// none: "" for others.
func (e *turnError) reason() string {
	_, why, ok := strings.Cut(e.Message, incomplete)
	if !ok {
		if _, why, ok = strings.Cut(e.Details, incomplete); !ok {
			return ""
		}
	}
	switch strings.TrimSpace(why) {
	case "max_output_tokens", "max_tokens", "length":
		return backends.ReasonMaxTokens
	case "content_filter", "refusal":
		return backends.ReasonRefusal
	}
	return ""
}

var (
	inForm = regexp.MustCompile(`(?i)try again in ([0-9.]+) ?(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|days?)\b`)
	atForm = regexp.MustCompile(`(?i)try again at ([A-Z][a-z]{2} \d{1,2})(?:st|nd|rd|th)?, (\d{4} \d{1,2}:\d{2} [AP]M)`)
)

// retryAfter is the time that a message tells, 0 where it tells none: codex
// keeps the provider's header for itself.
func retryAfter(message string) time.Duration {
	if m := inForm.FindStringSubmatch(message); m != nil {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0
		}
		unit := time.Second
		switch low := strings.ToLower(m[2]); {
		case strings.HasPrefix(low, "ms"), strings.HasPrefix(low, "milli"):
			unit = time.Millisecond
		case strings.HasPrefix(low, "m"):
			unit = time.Minute
		case strings.HasPrefix(low, "h"):
			unit = time.Hour
		case strings.HasPrefix(low, "d"):
			unit = 24 * time.Hour
		}
		return time.Duration(n * float64(unit))
	}
	if m := atForm.FindStringSubmatch(message); m != nil {
		at, err := time.ParseInLocation("Jan 2, 2006 3:04 PM", m[1]+", "+m[2], time.Local)
		if err == nil {
			return max(time.Until(at), 0)
		}
	}
	return 0
}

var delayForm = regexp.MustCompile(`retrying sampling request \(\d+/\d+ in ([0-9.]+(?:ns|µs|ms|s))\)`)

// loggedDelay is the last time to wait that the log tells for a turn, in whole
// seconds; 0 if it tells none.
func loggedDelay(log, turn string) (wait time.Duration) {
	if turn == "" {
		return 0
	}
	for line := range strings.Lines(log) {
		m := delayForm.FindStringSubmatch(line)
		if m == nil || !strings.Contains(line, turn) {
			continue
		}
		if d, err := time.ParseDuration(m[1]); err == nil {
			wait = (d + time.Second - 1).Truncate(time.Second)
		}
	}
	return wait
}

// addRetryAfter adds the time that the account's limits tell.
func (s *server) addRetryAfter(e *backends.Error) {
	if e.RetryAfter > 0 || (e.Type != events.ErrRateLimit && e.Type != events.ErrQuota) {
		return
	}
	s.mu.Lock()
	l := s.limits
	s.mu.Unlock()
	if l == nil {
		return
	}
	for _, w := range []*rateWindow{l.Primary, l.Secondary} {
		if w != nil && w.Used >= 100 && w.ResetsAt > 0 {
			e.RetryAfter = max(e.RetryAfter, time.Until(time.Unix(w.ResetsAt, 0)))
		}
	}
}

// refusal is the error of a call that codex did not take.
func refusal(no *rpc.Error) *backends.Error {
	e := &backends.Error{Type: events.ErrInvalidRequest, Message: no.Message}
	switch {
	case strings.Contains(string(no.Data), "input_too_large"):
		e.Type = events.ErrContextLength
	case no.Code == rpc.CodeInternal:
		e.Type = events.ErrInternal
	}
	return e
}

// crashed is the error of a process that ended in a turn; why is ours, where we
// have ended it.
func crashed(exit backends.Exit, why string) *backends.Error {
	e := &backends.Error{Type: events.ErrBackendCrashed, Exit: &exit, Message: orElse(why, "codex ended in the middle of the run")}
	if tail := backends.LastWords(exit.StderrTail); tail != "" {
		e.Message += ": " + tail
	}
	return e
}

// notStarted is the error of one that ended before it was ready: its last
// words on stderr say what is wrong with how it was started.
func notStarted(exit backends.Exit) *backends.Error {
	e := &backends.Error{Type: events.ErrBackendUnavailable, Exit: &exit, Message: "codex did not start"}
	if tail := backends.LastWords(exit.StderrTail); tail != "" {
		e.Message += ": " + tail
	}
	return e
}
