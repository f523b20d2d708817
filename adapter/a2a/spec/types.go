package spec

import "encoding/json"

// Version is the generation of A2A that these types are.
const Version = "1.0"

// Names of the bindings, as cards have them.
const (
	BindingJSONRPC = "JSONRPC"
	BindingREST    = "HTTP+JSON"
	BindingGRPC    = "GRPC"
)

// Object is a JSON object whose content belongs to somebody else; it is never
// changed on its way.
type Object = json.RawMessage

// Roles of messages.
const (
	RoleUser  Role = "ROLE_USER"
	RoleAgent Role = "ROLE_AGENT"
)

// Role says who a message is from.
type Role string

// TaskState is where a task stands.
type TaskState string

// The states.
const (
	StateUnspecified   TaskState = "TASK_STATE_UNSPECIFIED"
	StateSubmitted     TaskState = "TASK_STATE_SUBMITTED"
	StateWorking       TaskState = "TASK_STATE_WORKING"
	StateCompleted     TaskState = "TASK_STATE_COMPLETED"
	StateFailed        TaskState = "TASK_STATE_FAILED"
	StateCanceled      TaskState = "TASK_STATE_CANCELED"
	StateInputRequired TaskState = "TASK_STATE_INPUT_REQUIRED"
	StateRejected      TaskState = "TASK_STATE_REJECTED"
	StateAuthRequired  TaskState = "TASK_STATE_AUTH_REQUIRED"
)

// Terminal reports whether a task of this state changes no more.
func (s TaskState) Terminal() bool {
	switch s {
	case StateCompleted, StateFailed, StateCanceled, StateRejected:
		return true
	}
	return false
}

// Interrupted reports whether a task of this state waits for its client.
func (s TaskState) Interrupted() bool { return s == StateInputRequired || s == StateAuthRequired }

// Part is a piece of a message or an artifact: exactly one of Text, Raw, URL
// and Data is set.
type Part struct {
	Text      *string         `json:"text,omitempty"`
	Raw       *Base64         `json:"raw,omitempty"`
	URL       *string         `json:"url,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"` // any JSON value
	Metadata  Object          `json:"metadata,omitempty"`
	Filename  string          `json:"filename,omitempty"`
	MediaType string          `json:"mediaType,omitempty"`
}

// Text makes a text part.
func Text(s string) Part { return Part{Text: &s} }

// Data makes a data part of a JSON value.
func Data(v json.RawMessage) Part { return Part{Data: v, MediaType: "application/json"} }

// Message is one message between client and agent.
type Message struct {
	MessageID        string   `json:"messageId"`
	ContextID        string   `json:"contextId,omitempty"`
	TaskID           string   `json:"taskId,omitempty"`
	Role             Role     `json:"role"`
	Parts            []Part   `json:"parts"`
	Metadata         Object   `json:"metadata,omitempty"`
	Extensions       []string `json:"extensions,omitempty"`
	ReferenceTaskIDs []string `json:"referenceTaskIds,omitempty"`
}

// TaskStatus is a task's state, since when, and what the agent says about it.
type TaskStatus struct {
	State     TaskState `json:"state"`
	Message   *Message  `json:"message,omitempty"`
	Timestamp string    `json:"timestamp,omitempty"` // UTC with milliseconds
}

// Artifact is a result of a task.
type Artifact struct {
	ArtifactID  string   `json:"artifactId"`
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Parts       []Part   `json:"parts"`
	Metadata    Object   `json:"metadata,omitempty"`
	Extensions  []string `json:"extensions,omitempty"`
}

// Task is one turn of an agent.
type Task struct {
	ID        string     `json:"id"`
	ContextID string     `json:"contextId"`
	Status    TaskStatus `json:"status"`
	Artifacts []Artifact `json:"artifacts,omitempty"`
	History   []Message  `json:"history,omitempty"`
	Metadata  Object     `json:"metadata,omitempty"`
}

// StatusUpdate says that a task's status changed.
type StatusUpdate struct {
	TaskID    string     `json:"taskId"`
	ContextID string     `json:"contextId"`
	Status    TaskStatus `json:"status"`
	Metadata  Object     `json:"metadata,omitempty"`
}

// ArtifactUpdate is an artifact, or a piece that is added to one.
type ArtifactUpdate struct {
	TaskID    string   `json:"taskId"`
	ContextID string   `json:"contextId"`
	Artifact  Artifact `json:"artifact"`
	Append    bool     `json:"append,omitempty"`
	LastChunk bool     `json:"lastChunk,omitempty"`
	Metadata  Object   `json:"metadata,omitempty"`
}

// StreamResponse is one event of a stream, and the answer to SendMessage:
// exactly one member is set.
type StreamResponse struct {
	Task           *Task           `json:"task,omitempty"`
	Message        *Message        `json:"message,omitempty"`
	StatusUpdate   *StatusUpdate   `json:"statusUpdate,omitempty"`
	ArtifactUpdate *ArtifactUpdate `json:"artifactUpdate,omitempty"`
}
