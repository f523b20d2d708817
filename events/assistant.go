package events

import "encoding/json"

// TaskID is the first event of every run.
type TaskID struct {
	TaskID    string `json:"task_id"`
	ContextID string `json:"context_id"`
	Backend   string `json:"backend"`
}

// ReasoningDelta is a piece of the main agent's reasoning.
type ReasoningDelta struct {
	Delta       string `json:"delta"`
	ReasoningID string `json:"reasoning_id"`
}

// Reasoning closes a block of reasoning; Content is the sum of its deltas.
type Reasoning struct {
	Content     string `json:"content"`
	ReasoningID string `json:"reasoning_id"`
}

// MessageDelta is a piece of the main agent's answer.
type MessageDelta struct {
	Delta     string `json:"delta"`
	MessageID string `json:"message_id"`
}

// Message closes a message; Content is exactly the sum of its deltas.
type Message struct {
	Content      string        `json:"content"`
	MessageID    string        `json:"message_id"`
	ToolCalls    []CallSummary `json:"tool_calls,omitempty"`    // what was known when the message closed, often nothing
	FinishReason string        `json:"finish_reason,omitempty"` // last message only
	Partial      bool          `json:"partial,omitempty"`       // it was cut and will not be said again
	Synthetic    bool          `json:"synthetic,omitempty"`     // said by innerd, not by the agent
	Extensions   []Extension   `json:"extensions,omitempty"`
}

// CallSummary names a tool call inside a message.
type CallSummary struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Arguments  json.RawMessage `json:"arguments"`
	Extensions []Extension     `json:"extensions,omitempty"`
}

// Discarded takes a message or a block of reasoning back: the agent says it
// again, or the run fails.
type Discarded struct {
	MessageID   string `json:"message_id,omitempty"`
	ReasoningID string `json:"reasoning_id,omitempty"`
	Reason      string `json:"reason,omitempty"`
}

// ToolCall is a call of the agent's own tool, about to run. The telemetry
// extension that hosts expect is added by the encoding.
type ToolCall struct {
	ID       string          `json:"id"`
	NativeID string          `json:"native_id,omitempty"` // the agent's own id; may repeat
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
}

// ToolUpdate is a piece of the output of a tool that runs on.
type ToolUpdate struct {
	ID       string          `json:"id"`
	ParentID string          `json:"parent_id,omitempty"` // the call that started the sub-agent which runs it
	Name     string          `json:"name,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"` // sub-agents' tools only: they have no assistant.tool_call
	Output   string          `json:"output,omitempty"`
}

// ToolComplete ends a call of the agent's own tool.
type ToolComplete struct {
	ID         string          `json:"id"`
	ParentID   string          `json:"parent_id,omitempty"`
	Name       string          `json:"name,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Success    bool            `json:"success"`
	ExitCode   *int            `json:"exit_code,omitempty"`
	Result     string          `json:"result"`
	DurationMS int64           `json:"duration_ms,omitempty"`
}

// Usage is what a run used. Counts are disjoint; an unknown one is nil and is
// left out. TurnUsage has the same fields for one model turn.
type Usage struct {
	InputTokens          *int64      `json:"input_tokens,omitempty"` // without cached ones
	OutputTokens         *int64      `json:"output_tokens,omitempty"`
	CacheReadTokens      *int64      `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens     *int64      `json:"cache_write_tokens,omitempty"`
	ReasoningTokens      *int64      `json:"reasoning_tokens,omitempty"`
	TotalTokens          *int64      `json:"total_tokens,omitempty"`
	Cost                 *float64    `json:"cost,omitempty"` // USD
	PremiumRequests      *int64      `json:"premium_requests,omitempty"`
	PremiumRequestsExact *float64    `json:"premium_requests_exact,omitempty"`
	Duration             *float64    `json:"duration,omitempty"` // seconds
	TTFTMS               *int64      `json:"ttft_ms,omitempty"`  // milliseconds to the first token
	Model                string      `json:"model,omitempty"`
	Backend              string      `json:"backend,omitempty"`
	Extensions           []Extension `json:"extensions,omitempty"`
}

// TurnUsage is the usage of one model turn.
type TurnUsage struct{ Usage }

// EventType implementations.
func (TaskID) EventType() Type         { return TypeTaskID }
func (ReasoningDelta) EventType() Type { return TypeReasoningDelta }
func (Reasoning) EventType() Type      { return TypeReasoning }
func (MessageDelta) EventType() Type   { return TypeMessageDelta }
func (Message) EventType() Type        { return TypeMessage }
func (Discarded) EventType() Type      { return TypeDiscarded }
func (ToolCall) EventType() Type       { return TypeToolCall }
func (ToolUpdate) EventType() Type     { return TypeToolUpdate }
func (ToolComplete) EventType() Type   { return TypeToolComplete }
func (Usage) EventType() Type          { return TypeUsage }
func (TurnUsage) EventType() Type      { return TypeTurnUsage }
