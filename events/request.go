package events

import (
	"encoding/json"
	"time"
)

// RequestKind says what a run waits for.
type RequestKind string

// The kinds of requests.
const (
	KindTool       RequestKind = "tool"
	KindPermission RequestKind = "permission"
	KindQuestion   RequestKind = "question"
)

// Request is something a run waits for the host to answer. Backends fill in
// what belongs to its kind; the bridge makes the id.
type Request struct {
	Kind     RequestKind
	NativeID string // the agent's own call id; may be empty, may repeat

	Tool  string          // tool: the host's name of it. permission: the agent's own tool
	Input json.RawMessage // tool: arguments. permission: input

	Message string          // question
	Schema  json.RawMessage // question: JSON Schema of the answer
	Timeout time.Duration   // 0: the default of its kind
}

// Outcomes of requests.
const (
	OutcomeOK       = "ok"
	OutcomeError    = "error"
	OutcomeTimeout  = "timeout"
	OutcomeCanceled = "canceled"
	OutcomeAllowed  = "allowed"
	OutcomeDenied   = "denied"
	OutcomeExpired  = "expired"
	OutcomeAnswered = "answered"
)

// Answer is how a request ended. There is one for every request.
type Answer struct {
	Outcome string
	By      string // permission: host, policy, timeout

	Result  string // tool: the text
	Content []Part // tool: parts; where they are given they replace Result
	IsError bool   // tool

	Message string          // permission: why it was denied
	Value   json.RawMessage // question
}

// Parts is the tool's result as parts, whichever way the host gave it.
func (a Answer) Parts() []Part {
	if len(a.Content) > 0 {
		return a.Content
	}
	return []Part{Text(a.Result)}
}
