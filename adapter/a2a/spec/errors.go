package spec

import (
	"encoding/json"
	"fmt"
)

// Domain is that of the errors' details.
const Domain = "a2a-protocol.org"

// Error is an error as each binding says it.
type Error struct {
	Code       int    // of JSON-RPC
	HTTP       int    // status of HTTP+JSON
	Status     string // of gRPC, by name; also in HTTP+JSON's body
	Reason     string // of google.rpc.ErrorInfo
	Message    string
	Violations []Violation       // which fields are wrong
	Info       map[string]string // metadata of google.rpc.ErrorInfo
}

// Violation is a field and what is wrong with it.
type Violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Is makes all errors of one reason the same.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Reason == e.Reason
}

// With gives a copy that says more.
func (e *Error) With(format string, args ...any) *Error {
	c := *e
	c.Message = fmt.Sprintf(format, args...)
	return &c
}

// The errors of A2A (table of 1.0.1); With says what exactly is wrong.
var (
	ErrTaskNotFound      = &Error{Code: -32001, HTTP: 404, Status: "NOT_FOUND", Reason: "TASK_NOT_FOUND", Message: "there is no such task"}
	ErrTaskNotCancelable = &Error{Code: -32002, HTTP: 400, Status: "FAILED_PRECONDITION", Reason: "TASK_NOT_CANCELABLE", Message: "the task has ended and cannot be canceled"}
	ErrPushNotSupported  = &Error{Code: -32003, HTTP: 400, Status: "FAILED_PRECONDITION", Reason: "PUSH_NOTIFICATION_NOT_SUPPORTED", Message: "push notifications are not supported"}
	ErrUnsupported       = &Error{Code: -32004, HTTP: 400, Status: "FAILED_PRECONDITION", Reason: "UNSUPPORTED_OPERATION", Message: "the operation is not supported"}
	ErrContentType       = &Error{Code: -32005, HTTP: 400, Status: "INVALID_ARGUMENT", Reason: "CONTENT_TYPE_NOT_SUPPORTED", Message: "the media type is not supported"}
	ErrInvalidResponse   = &Error{Code: -32006, HTTP: 500, Status: "INTERNAL", Reason: "INVALID_AGENT_RESPONSE", Message: "the agent's answer cannot be said in A2A"}
	ErrNoExtendedCard    = &Error{Code: -32007, HTTP: 400, Status: "FAILED_PRECONDITION", Reason: "EXTENDED_AGENT_CARD_NOT_CONFIGURED", Message: "there is no extended card"}
	ErrExtension         = &Error{Code: -32008, HTTP: 400, Status: "FAILED_PRECONDITION", Reason: "EXTENSION_SUPPORT_REQUIRED", Message: "an extension is required"}
	ErrVersion           = &Error{Code: -32009, HTTP: 400, Status: "FAILED_PRECONDITION", Reason: "VERSION_NOT_SUPPORTED", Message: "the version is not supported"}

	ErrParse         = &Error{Code: -32700, HTTP: 400, Status: "INVALID_ARGUMENT", Reason: "PARSE_ERROR", Message: "the body is not JSON"}
	ErrRequest       = &Error{Code: -32600, HTTP: 400, Status: "INVALID_ARGUMENT", Reason: "INVALID_REQUEST", Message: "this is no request"}
	ErrMethod        = &Error{Code: -32601, HTTP: 404, Status: "UNIMPLEMENTED", Reason: "METHOD_NOT_FOUND", Message: "there is no such operation"}
	ErrInvalidParams = &Error{Code: -32602, HTTP: 400, Status: "INVALID_ARGUMENT", Reason: "INVALID_PARAMS", Message: "invalid parameters"}
	ErrInternal      = &Error{Code: -32603, HTTP: 500, Status: "INTERNAL", Reason: "INTERNAL_ERROR", Message: "a fault in the server, see its log"}

	// Not A2A's, but every server's.
	ErrUnauthenticated = &Error{Code: -32603, HTTP: 401, Status: "UNAUTHENTICATED", Reason: "UNAUTHENTICATED", Message: "no key, or one that is not known here: send Authorization: Bearer SECRET"}
	ErrForbidden       = &Error{Code: -32603, HTTP: 403, Status: "PERMISSION_DENIED", Reason: "FORBIDDEN", Message: "refused"}
	ErrTooLarge        = &Error{Code: -32600, HTTP: 413, Status: "INVALID_ARGUMENT", Reason: "TOO_LARGE", Message: "the body is too large"}
	ErrBusy            = &Error{Code: -32603, HTTP: 503, Status: "UNAVAILABLE", Reason: "BUSY", Message: "too much is waiting in this context"}
	ErrUnavailable     = &Error{Code: -32603, HTTP: 503, Status: "UNAVAILABLE", Reason: "UNAVAILABLE", Message: "the server is starting or stopping"}
	ErrRateLimited     = &Error{Code: -32603, HTTP: 429, Status: "RESOURCE_EXHAUSTED", Reason: "RATE_LIMITED", Message: "the model's provider refuses work for a while"}
)

// ParseError says that a body is no JSON.
func ParseError(why string) *Error { return ErrParse.With("%s", why) }

// InvalidParams says which field is wrong and why.
func InvalidParams(field, why string) *Error {
	e := ErrInvalidParams.With("invalid parameters: %s", why)
	if field != "" {
		e.Message = "invalid parameters: " + field + ": " + why
	}
	e.Violations = []Violation{{Field: field, Description: why}}
	return e
}

// detail is one of google.rpc's details.
type detail struct {
	Type       string            `json:"@type"`
	Reason     string            `json:"reason,omitempty"`
	Domain     string            `json:"domain,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	Violations []Violation       `json:"fieldViolations,omitempty"`
}

func (e *Error) details() []detail {
	out := []detail{{Type: "type.googleapis.com/google.rpc.ErrorInfo", Reason: e.Reason, Domain: Domain, Metadata: e.Info}}
	if len(e.Violations) > 0 {
		out = append(out, detail{Type: "type.googleapis.com/google.rpc.BadRequest", Violations: e.Violations})
	}
	return out
}

// RPC is the error object of JSON-RPC.
func (e *Error) RPC() json.RawMessage {
	return mustJSON(struct {
		Code    int      `json:"code"`
		Message string   `json:"message"`
		Data    []detail `json:"data"`
	}{e.Code, e.Message, e.details()})
}

// REST is the body of HTTP+JSON.
func (e *Error) REST() json.RawMessage {
	type inner struct {
		Code    int      `json:"code"`
		Status  string   `json:"status"`
		Message string   `json:"message"`
		Details []detail `json:"details"`
	}
	return mustJSON(struct {
		Error inner `json:"error"`
	}{inner{e.HTTP, e.Status, e.Message, e.details()}})
}

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("spec: encode an error: %w", err)) // texts and numbers alone
	}
	return raw
}
