package api

import (
	"encoding/json"

	"innerd/events"
)

// States of a task.
const (
	StateSubmitted     = "submitted"
	StateWorking       = "working"
	StateInputRequired = "input_required"
	StateCompleted     = "completed"
	StateFailed        = "failed"
	StateCanceled      = "canceled"
)

// Task is a run as the task endpoints show it.
type Task struct {
	ID          string          `json:"id"`
	ContextID   string          `json:"contextId"`
	Status      TaskStatus      `json:"status"`
	Artifacts   []Artifact      `json:"artifacts"` // one per message of the agent that is not empty
	History     []HistoryEntry  `json:"history"`
	Error       *TaskError      `json:"error,omitempty"`
	Backend     string          `json:"backend"`
	LastEventID int64           `json:"last_event_id"`
	Pending     []Pending       `json:"pending,omitempty"`
	Usage       *events.Usage   `json:"usage,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Output      json.RawMessage `json:"output,omitempty"`    // what response_format asked for
	Canceling   bool            `json:"canceling,omitempty"` // a cancel is on its way
	Truncated   bool            `json:"truncated,omitempty"` // in a list: GET /tasks/{id} has more, or longer, artifacts and history
}

// TaskStatus is where a task is.
type TaskStatus struct {
	State     string `json:"state"`
	Timestamp string `json:"timestamp"` // RFC 3339, UTC, milliseconds
}

// Artifact is one message of the agent.
type Artifact struct {
	ArtifactID string         `json:"artifactId"`
	MimeType   string         `json:"mimeType"`
	Parts      []ArtifactPart `json:"parts"`
	Index      int            `json:"index"`
}

// ArtifactPart is a piece of an artifact.
type ArtifactPart struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// HistoryEntry is one message of the request.
type HistoryEntry struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// TaskError is why a task did not complete.
type TaskError struct {
	Message   string `json:"message"`
	ErrorType string `json:"error_type"`
}

// Pending is a request that a task waits for.
type Pending struct {
	Kind    events.RequestKind `json:"kind"`
	ID      string             `json:"id"` // tool_call_id or request_id
	Tool    string             `json:"tool,omitempty"`
	Input   json.RawMessage    `json:"input,omitempty"`
	Message string             `json:"message,omitempty"`
	Schema  json.RawMessage    `json:"schema,omitempty"`
}

// Tasks is a page of tasks, newest first.
type Tasks struct {
	Tasks         []Task `json:"tasks"`
	NextPageToken string `json:"next_page_token"` // "" on the last page
}
