// Package extension is innerd's own extension of A2A: what a coding agent does
// beside answering, and what a client that knows it can say. Baseline clients,
// which do not activate it, see none of this.
//
// docs/a2a-extension.schema.json is made from these types.
package extension

import "encoding/json"

// URI names the extension and its version: in A2A-Extensions, in extensions[]
// of messages, and as the member of metadata that is ours. A change that old
// clients could not read gets a new one.
const URI = "urn:innerd:extensions:coding-agent/v1"

// Kinds of Event.
const (
	KindToolCall   = "toolCall"
	KindHostTool   = "hostTool"
	KindThought    = "thought"
	KindPlan       = "plan"
	KindFileChange = "fileChange"
	KindUsage      = "usage"
	KindStatus     = "status"
	KindSubagent   = "subagent"
	KindSteered    = "steered"
	KindPermission = "permission"
	KindQuestion   = "question"
	KindDiscarded  = "discarded"
)

// Event is the data of the DataPart in a status update. Kind says which other
// member is there; an unknown kind is to be ignored.
type Event struct {
	Kind       string      `json:"kind" jsonschema:"enum=toolCall,enum=hostTool,enum=thought,enum=plan,enum=fileChange,enum=usage,enum=status,enum=subagent,enum=steered,enum=permission,enum=question,enum=discarded"`
	ToolCall   *ToolCall   `json:"toolCall,omitempty"`
	HostTool   *HostTool   `json:"hostTool,omitempty"`
	Thought    *Thought    `json:"thought,omitempty"`
	Plan       *Plan       `json:"plan,omitempty"`
	FileChange *FileChange `json:"fileChange,omitempty"`
	Usage      *Usage      `json:"usage,omitempty"`
	Status     *Status     `json:"status,omitempty"`
	Subagent   *Subagent   `json:"subagent,omitempty"`
	Steered    *Steered    `json:"steered,omitempty"`
	Permission *Permission `json:"permission,omitempty"`
	Question   *Question   `json:"question,omitempty"`
	Discarded  *Discarded  `json:"discarded,omitempty"`
}

// States of a ToolCall.
const (
	ToolExecuting = "executing"
	ToolSucceeded = "succeeded"
	ToolFailed    = "failed"
)

// ToolCall is a call of the agent's own tool, with all that is known of it at
// each update, but for output while it executes: that is the next piece.
type ToolCall struct {
	ID         string          `json:"id"`
	ParentID   string          `json:"parentId,omitempty" jsonschema:"description=the call that started the sub-agent which makes it"`
	Name       string          `json:"name,omitempty"`
	Status     string          `json:"status" jsonschema:"enum=executing,enum=succeeded,enum=failed"`
	Input      json.RawMessage `json:"input,omitempty"`
	Output     string          `json:"output,omitempty" jsonschema:"description=a piece to add while executing; the whole at the end"`
	ExitCode   *int            `json:"exitCode,omitempty"`
	DurationMS int64           `json:"durationMs,omitempty"`
}

// States of a HostTool.
const (
	HostToolRequested = "requested"
	HostToolResolved  = "resolved"
)

// HostTool is a call of a tool that the client offered. The client answers a
// requested one by a message with a ToolResult.
type HostTool struct {
	ID        string          `json:"toolCallId"`
	Name      string          `json:"name,omitempty"`
	Status    string          `json:"status" jsonschema:"enum=requested,enum=resolved"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	DeadlineS float64         `json:"deadlineS,omitempty" jsonschema:"description=seconds from now"`
	Outcome   string          `json:"outcome,omitempty" jsonschema:"enum=ok,enum=error,enum=timeout,enum=canceled"`
}

// Thought is the agent's reasoning: a piece, or with done the whole of a block.
type Thought struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	Done bool   `json:"done,omitempty"`
}

// Plan is the agent's list of things to do, whole every time.
type Plan struct {
	Entries []PlanEntry `json:"entries"`
}

// PlanEntry is one thing to do.
type PlanEntry struct {
	Content string `json:"content"`
	Status  string `json:"status" jsonschema:"enum=pending,enum=in_progress,enum=completed"`
}

// FileChange says that the agent changed a file. The change itself is an
// artifact, which every client gets.
type FileChange struct {
	Path       string `json:"path"`
	Change     string `json:"change" jsonschema:"enum=create,enum=edit,enum=delete,enum=move"`
	ArtifactID string `json:"artifactId"`
}

// Usage is what the task, or with turn one model turn of it, used. Counts are
// disjoint; unknown ones are left out.
type Usage struct {
	Turn             bool     `json:"turn,omitempty"`
	InputTokens      *int64   `json:"inputTokens,omitempty"`
	OutputTokens     *int64   `json:"outputTokens,omitempty"`
	CacheReadTokens  *int64   `json:"cacheReadTokens,omitempty"`
	CacheWriteTokens *int64   `json:"cacheWriteTokens,omitempty"`
	ReasoningTokens  *int64   `json:"reasoningTokens,omitempty"`
	TotalTokens      *int64   `json:"totalTokens,omitempty"`
	Cost             *float64 `json:"cost,omitempty" jsonschema:"description=US dollars"`
	PremiumRequests  *int64   `json:"premiumRequests,omitempty"`
	DurationS        *float64 `json:"durationS,omitempty"`
	TTFTMS           *int64   `json:"ttftMs,omitempty"`
	Model            string   `json:"model,omitempty"`
	Backend          string   `json:"backend,omitempty"`
}

// Status is what the agent is busy with.
type Status struct {
	State     string `json:"state" jsonschema:"enum=queued,enum=starting,enum=working,enum=waiting,enum=retrying,enum=compacting,enum=history,enum=storage,enum=notice"`
	Detail    string `json:"detail,omitempty"`
	Mode      string `json:"mode,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	ErrorType string `json:"errorType,omitempty"`
	DelayMS   int64  `json:"delayMs,omitempty"`
}

// Subagent is an agent that the agent started: its start, a piece of its text,
// or its end.
type Subagent struct {
	ID       string `json:"id"`
	ParentID string `json:"parentId,omitempty"`
	Name     string `json:"name,omitempty"`
	Phase    string `json:"phase" jsonschema:"enum=started,enum=text,enum=completed"`
	Text     string `json:"text,omitempty"`
}

// Steered says that a message reached the running turn.
type Steered struct {
	Text string `json:"text"`
}

// Permission asks whether the agent's own tool may run; answered by an Answer
// with one of the options.
type Permission struct {
	RequestID string          `json:"requestId"`
	Tool      string          `json:"tool"`
	Input     json.RawMessage `json:"input,omitempty"`
	Options   []Option        `json:"options"`
}

// Option is one answer to a Permission.
type Option struct {
	ID    string `json:"id"`
	Kind  string `json:"kind" jsonschema:"enum=allow_once,enum=allow_always,enum=deny"`
	Label string `json:"label"`
}

// Question asks the user; answered by an Answer with a value that fits the
// schema, or by a text.
type Question struct {
	RequestID string          `json:"requestId"`
	Message   string          `json:"message"`
	Schema    json.RawMessage `json:"schema,omitempty"`
}

// Discarded takes a thought back: the agent says it again.
type Discarded struct {
	ThoughtID string `json:"thoughtId"`
	Reason    string `json:"reason,omitempty"`
}

// Answer is the data of a client's DataPart that answers a Permission (option,
// message, remember) or a Question (value).
type Answer struct {
	RequestID string          `json:"requestId"`
	OptionID  string          `json:"optionId,omitempty"`
	Message   string          `json:"message,omitempty" jsonschema:"description=what the agent is told with a deny"`
	Remember  bool            `json:"remember,omitempty" jsonschema:"description=an allow holds for this tool and input in this context"`
	Value     json.RawMessage `json:"value,omitempty"`
}

// ToolResult is the data of a client's DataPart that answers a HostTool.
type ToolResult struct {
	ToolCallID string          `json:"toolCallId"`
	Result     string          `json:"result,omitempty"`
	Content    json.RawMessage `json:"content,omitempty" jsonschema:"description=a list of parts as in POST /tools/{id}/result"`
	IsError    bool            `json:"isError,omitempty"`
}

// TaskInfo is metadata[URI] of a Task, and of its last status update.
type TaskInfo struct {
	Backend   string     `json:"backend"`
	Reason    string     `json:"reason,omitempty" jsonschema:"description=why the task ended"`
	ErrorType string     `json:"errorType,omitempty"`
	Usage     *Usage     `json:"usage,omitempty"`
	HostTools []HostTool `json:"hostTools,omitempty" jsonschema:"description=calls that wait for the client"`
}

// UpdateInfo is metadata[URI] of a status update that carries an Event.
type UpdateInfo struct {
	Kind string `json:"kind"`
}

// ArtifactInfo is metadata[URI] of an artifact.
type ArtifactInfo struct {
	Kind   string `json:"kind" jsonschema:"enum=response,enum=fileChange,enum=output"`
	Path   string `json:"path,omitempty"`
	Change string `json:"change,omitempty"`
}
