package events

import "encoding/json"

// PermissionRequest asks the host whether the agent's own tool may run.
type PermissionRequest struct {
	RequestID string             `json:"request_id"`
	Tool      string             `json:"tool"`
	Input     json.RawMessage    `json:"input"`
	Options   []PermissionOption `json:"options"`
}

// PermissionOption is one answer a host may give.
type PermissionOption struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"` // AllowOnce, AllowAlways, Deny
	Label string `json:"label"`
}

// Kinds of permission options.
const (
	AllowOnce   = "allow_once"
	AllowAlways = "allow_always" // this tool with exactly this input, for the conversation
	Deny        = "deny"
)

// PermissionResolved ends a permission request.
type PermissionResolved struct {
	RequestID string `json:"request_id"`
	Outcome   string `json:"outcome"` // allowed, denied, expired, canceled
	By        string `json:"by"`      // host, policy, timeout
	Message   string `json:"message,omitempty"`
}

// ToolRequest asks the host to run one of its own tools.
type ToolRequest struct {
	ToolCallID string          `json:"tool_call_id"`
	NativeID   string          `json:"native_id,omitempty"`
	ToolName   string          `json:"tool_name"`
	Arguments  json.RawMessage `json:"arguments"`            // an object, {} if none
	DeadlineS  float64         `json:"deadline_s,omitempty"` // seconds from now
	// The call's place in the host's trace, as W3C writes it, where the host
	// sent one with the run, or traces are exported.
	Traceparent string `json:"traceparent,omitempty"`
	Tracestate  string `json:"tracestate,omitempty"`
}

// ToolResolved ends a tool request, with the result as the host sent it.
type ToolResolved struct {
	ToolCallID string `json:"tool_call_id"`
	Outcome    string `json:"outcome"` // ok, error, timeout, canceled
	Result     string `json:"result"`
	Content    []Part `json:"content,omitempty"`
	IsError    bool   `json:"is_error,omitempty"`
}

// InputRequired asks the user a question.
type InputRequired struct {
	Message   string          `json:"message"`
	Schema    json.RawMessage `json:"schema"`
	RequestID string          `json:"request_id"`
}

// InputResolved ends a question.
type InputResolved struct {
	RequestID string          `json:"request_id"`
	Outcome   string          `json:"outcome"` // answered, expired, canceled
	Value     json.RawMessage `json:"value,omitempty"`
}

// Damaged stands, under its id, for an event that can't be read any more.
type Damaged struct{}

// States of Status.
const (
	StateQueued     = "queued"
	StateStarting   = "starting"
	StateWorking    = "working"
	StateWaiting    = "waiting"
	StateRetrying   = "retrying"
	StateCompacting = "compacting"
	StateHistory    = "history"
	StateStorage    = "storage"
	StateNotice     = "notice"
)

// Status says what a run is busy with.
type Status struct {
	State     string `json:"state"`
	Detail    string `json:"detail,omitempty"`
	Mode      string `json:"mode,omitempty"`   // history: continue, tell, new
	Reason    string `json:"reason,omitempty"` // history
	Attempt   int    `json:"attempt,omitempty"`
	ErrorType string `json:"error_type,omitempty"`
	DelayMS   int64  `json:"delay_ms,omitempty"`
}

// Steered says that input reached a turn that was running.
type Steered struct {
	Text string `json:"text"`
}

// Plan is the agent's list of things to do, whole every time.
type Plan struct {
	Entries []PlanEntry `json:"entries"`
}

// PlanEntry is one thing to do.
type PlanEntry struct {
	Content string `json:"content"`
	Status  string `json:"status"` // pending, in_progress, completed
}

// FileChange says that the agent changed a file.
type FileChange struct {
	Path string `json:"path"`
	Kind string `json:"kind"` // create, edit, delete, move
	Diff string `json:"diff,omitempty"`
}

// SubagentStart says that the agent started an agent of its own.
type SubagentStart struct {
	ID       string `json:"id"`
	ParentID string `json:"parent_id,omitempty"`
	Name     string `json:"name,omitempty"`
	Text     string `json:"text,omitempty"`
}

// SubagentDelta is a piece of a sub-agent's text.
type SubagentDelta struct {
	ID       string `json:"id"`
	ParentID string `json:"parent_id,omitempty"`
	Name     string `json:"name,omitempty"`
	Text     string `json:"text"`
}

// SubagentComplete ends a sub-agent.
type SubagentComplete struct {
	ID       string `json:"id"`
	ParentID string `json:"parent_id,omitempty"`
	Name     string `json:"name,omitempty"`
	Result   string `json:"result,omitempty"`
}

// Error stands directly before End whenever a run did not complete.
type Error struct {
	Message     string  `json:"message"` // begins with the fixed phrase of its type
	ErrorType   string  `json:"error_type"`
	Status      int     `json:"status,omitempty"` // HTTP status of the model's provider, where there was one
	Retriable   bool    `json:"retriable"`
	RetryAfterS float64 `json:"retry_after_s,omitempty"` // seconds
}

// States of End.
const (
	Completed = "completed"
	Failed    = "failed"
	Canceled  = "canceled"
)

// End is the one terminal event of every run.
type End struct {
	State        string          `json:"state"` // Completed, Failed, Canceled
	Reason       string          `json:"reason,omitempty"`
	Output       json.RawMessage `json:"output,omitempty"`
	Usage        *Usage          `json:"usage,omitempty"`
	FilesChanged []string        `json:"files_changed,omitempty"`
	ExitCode     *int            `json:"exit_code,omitempty"`
	Signal       string          `json:"signal,omitempty"`
	StderrTail   string          `json:"stderr_tail,omitempty"`
}

// Heartbeat says that a stream is alive. It is never in a log and has no id.
type Heartbeat struct {
	Status   string  `json:"status"`
	ElapsedS float64 `json:"elapsed_s"`
	IdleS    float64 `json:"idle_s"`
}

// EventType implementations.
func (PermissionRequest) EventType() Type  { return TypePermissionRequest }
func (PermissionResolved) EventType() Type { return TypePermissionResolved }
func (ToolRequest) EventType() Type        { return TypeToolRequest }
func (ToolResolved) EventType() Type       { return TypeToolResolved }
func (InputRequired) EventType() Type      { return TypeInputRequired }
func (InputResolved) EventType() Type      { return TypeInputResolved }
func (Damaged) EventType() Type            { return TypeDamaged }
func (Status) EventType() Type             { return TypeStatus }
func (Steered) EventType() Type            { return TypeSteered }
func (Plan) EventType() Type               { return TypePlan }
func (FileChange) EventType() Type         { return TypeFileChange }
func (SubagentStart) EventType() Type      { return TypeSubagentStart }
func (SubagentDelta) EventType() Type      { return TypeSubagentDelta }
func (SubagentComplete) EventType() Type   { return TypeSubagentComplete }
func (Error) EventType() Type              { return TypeError }
func (End) EventType() Type                { return TypeEnd }
func (Heartbeat) EventType() Type          { return TypeHeartbeat }
