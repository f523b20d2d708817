// Package api is the JSON of the HTTP endpoints: what a host sends, what the
// server answers, and the words of its errors. Server and host library share
// it; it builds on every platform and knows nothing of HTTP.
//
// Decoding is lenient where hosts in the field are careless (messages and the
// older metadata) and strict in the newer fields, where a wrong type would
// otherwise change what a run does without a word.
package api

import (
	"fmt"

	"innerd/events"
)

// Version is the A2A version that every answer names.
const Version = "0.3.0"

// SupportedVersions are the values a request's A2A-Version may have.
func SupportedVersions() []string { return []string{"0.3", "0.3.0", "1.0", "1.0.0"} }

// Words of error_type in HTTP answers. The words of package events come
// beside them.
const (
	ErrUnauthorized = "unauthorized"
	ErrNotFound     = "not_found"
	ErrConflict     = "conflict"
	ErrBusy         = "busy"
	ErrTooLarge     = "too_large"
	ErrUnsupported  = "unsupported"

	ErrInvalidRequest = events.ErrInvalidRequest
	ErrInternal       = events.ErrInternal
	ErrShutdown       = events.ErrShutdown
	ErrRateLimit      = events.ErrRateLimit
)

// Error is the body of every answer that is an error.
type Error struct {
	Detail    string `json:"detail"`
	ErrorType string `json:"error_type"`
}

// Gone is the body of a 410: the ids that a reader can still ask for.
type Gone struct {
	Error
	Oldest int64 `json:"oldest"`
	Latest int64 `json:"latest"`
}

// FieldError is a field of a request that cannot be used. Decoding returns it
// for every fault but a body that is not JSON.
type FieldError struct {
	Field  string // as the host wrote it: "metadata.task_id", "messages[3]"
	Reason string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

func fieldErr(field, format string, args ...any) error {
	return &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
