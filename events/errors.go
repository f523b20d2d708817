package events

import (
	"maps"
	"slices"
	"strings"
)

// Types of Error.
const (
	ErrAuth               = "auth"
	ErrRateLimit          = "rate_limit"
	ErrQuota              = "quota"
	ErrOverloaded         = "overloaded"
	ErrInvalidRequest     = "invalid_request"
	ErrContextLength      = "context_length"
	ErrModelUnavailable   = "model_unavailable"
	ErrBackendUnavailable = "backend_unavailable"
	ErrBackendCrashed     = "backend_crashed"
	ErrTimeout            = "timeout"
	ErrStalled            = "stalled"
	ErrCanceled           = "canceled"
	ErrShutdown           = "shutdown"
	ErrAdapterRestarted   = "adapter_restarted"
	ErrEmptyTurn          = "empty_turn"
	ErrStorage            = "storage"
	ErrInternal           = "internal"
)

// ErrorTypes lists the types of errors that a run can end with.
func ErrorTypes() []string { return slices.Sorted(maps.Keys(phrases)) }

var phrases = map[string]string{
	ErrAuth:               "auth: unavailable: ",
	ErrRateLimit:          "rate limit: ",
	ErrQuota:              "rate limit (quota): ",
	ErrOverloaded:         "overloaded: ",
	ErrInvalidRequest:     "invalid request: ",
	ErrContextLength:      "context too long: ",
	ErrModelUnavailable:   "model unavailable: ",
	ErrBackendUnavailable: "backend unavailable: ",
	ErrBackendCrashed:     "execution failed: ",
	ErrInternal:           "execution failed: ",
	ErrStorage:            "execution failed: ",
	ErrTimeout:            "timeout: ",
	ErrStalled:            "timeout: ",
	ErrCanceled:           "canceled: ",
	ErrShutdown:           "temporarily unavailable: ",
	ErrAdapterRestarted:   "temporarily unavailable: ",
	ErrEmptyTurn:          "empty turn: temporarily unavailable: ",
}

// NewError makes the error event of a type: the phrase that hosts decide by,
// then the agent's own words. An unknown type becomes ErrInternal.
func NewError(errorType, words string) Error {
	phrase, ok := phrases[errorType]
	if !ok {
		errorType, phrase = ErrInternal, phrases[ErrInternal]
	}
	words = strings.TrimSpace(words)
	if words == "" {
		words = strings.ReplaceAll(errorType, "_", " ")
	}
	return Error{Message: phrase + words, ErrorType: errorType, Retriable: retriable(errorType)}
}

// retriable says whether the same turn, sent again later, may well succeed.
func retriable(errorType string) bool {
	switch errorType {
	case ErrRateLimit, ErrOverloaded, ErrBackendCrashed, ErrTimeout, ErrStalled, ErrShutdown, ErrAdapterRestarted, ErrEmptyTurn:
		return true
	}
	return false
}
