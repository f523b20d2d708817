package runs

import (
	"encoding/json"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/runs/history"
	"innerd/telemetry"
)

// What happens to a run whose conversation is busy.
const (
	BusyQueue  = "queue"
	BusyReject = "reject"
	BusyCancel = "cancel"
)

// Spec is a turn as a host asks for it. The zero value of each field means
// what an absent field means on the wire.
type Spec struct {
	ContextID string
	Messages  []history.Message
	// Earlier, for hosts that send only what is new, gives what was before
	// Messages in the context. It is called where the agent must be told.
	Earlier func() []history.Message

	Trace    telemetry.Link  // the host's place in a trace; zero: none
	TaskID   string          // client-made; makes the start idempotent
	BodyHash string          // of the request, for the same
	Request  json.RawMessage // as it may be stored: valid JSON, without secrets

	Backend string
	Source  string // chat, council, …; information

	Detach       bool
	DetachGrace  time.Duration // 0: 10 s
	OnBusy       string        // "" is BusyQueue
	Timeout      time.Duration // of the turn; 0: the backend's default
	InputTimeout time.Duration // of a question; 0: 300 s

	FreshSession  bool // context_reuse false: a new agent session, told everything
	ToolCallLimit int
	MaxCostUSD    float64

	Settings      backends.Settings // System is the host's system message
	Dir           string
	AddDirs       []string
	Env           map[string]string
	Credential    *backends.Credential
	NoProjectDocs bool     // project_instructions false
	Notes         []string // what the adapter left out; each becomes a session.status notice
}

// Task is a run as GET /tasks/{id} shows it.
type Task struct {
	ID, ContextID, Backend, Owner string
	State                         string // submitted, working, input_required, completed, failed, canceled
	Canceling                     bool
	Timestamp                     time.Time
	Messages                      []events.Message // each becomes an artifact
	History                       []HistoryEntry
	Error                         *events.Error
	LastEventID                   int64
	Pending                       []Pending
	Usage                         *events.Usage
	Reason                        string
	Output                        json.RawMessage
	Truncated                     bool // it has more messages, or longer ones, than these
}

// HistoryEntry is one message of the request.
type HistoryEntry struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Pending is a request that is open.
type Pending struct {
	Kind    events.RequestKind `json:"kind"`
	ID      string             `json:"id"` // tool_call_id or request_id
	Tool    string             `json:"tool,omitempty"`
	Input   json.RawMessage    `json:"input,omitempty"`
	Message string             `json:"message,omitempty"`
	Schema  json.RawMessage    `json:"schema,omitempty"`
}
