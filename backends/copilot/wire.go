package copilot

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Types of events. All others mean nothing here: they are signs of life, and
// those of a name that is not known are counted.
const (
	evUser          = "user.message"
	evTurnStart     = "assistant.turn_start"
	evTurnEnd       = "assistant.turn_end"
	evTurnRetry     = "assistant.turn_retry"
	evReasoningPart = "assistant.reasoning_delta"
	evReasoning     = "assistant.reasoning"
	evMessageStart  = "assistant.message_start"
	evMessagePart   = "assistant.message_delta"
	evMessage       = "assistant.message"
	evUsage         = "assistant.usage"
	evAssistantIdle = "assistant.idle"
	evIdle          = "session.idle"
	evError         = "session.error"
	evCallFailure   = "model.call_failure"
	evToolStart     = "tool.execution_start"
	evToolPartial   = "tool.execution_partial_result"
	evShellOutput   = "tool.shell_output"
	evToolComplete  = "tool.execution_complete"
	evPermission    = "permission.requested"
	evPermDone      = "permission.completed"
	evExternal      = "external_tool.requested"
	evExternalDone  = "external_tool.completed"
	evSubStart      = "subagent.started"
	evSubComplete   = "subagent.completed"
	evSubFailed     = "subagent.failed"
	evCompactStart  = "session.compaction_start"
	evCompactDone   = "session.compaction_complete"
	evTodos         = "session.todos_changed"
	evNotification  = "system.notification"
	evWarning       = "session.warning"
	evResume        = "session.resume"
)

// handled are the types that are decoded.
var handled = set(
	evUser, evTurnStart, evTurnEnd, evTurnRetry, evReasoningPart, evReasoning, evMessageStart, evMessagePart, evMessage, evUsage,
	evAssistantIdle, evIdle, evError, evCallFailure, evToolStart, evToolPartial, evShellOutput, evToolComplete, evPermission, evPermDone,
	evExternal, evExternalDone,
	evSubStart, evSubComplete, evSubFailed, evCompactStart, evCompactDone, evTodos, evNotification, evWarning, evResume,
)

// known are types that say nothing to a host.
var known = set(
	"abort", "agent.interrupted", "assistant.intent", "assistant.streaming_delta", "assistant.tool_call_delta", "capabilities.changed",
	"hook.end", "hook.progress", "hook.start", "model.call_final_result", "model.call_finished", "model.call_start", "model.compaction_completed",
	"model.compaction_started", "model.log", "model.message", "model.messages_snapshot", "model.model_call_failure", "model.model_call_started",
	"model.model_call_success", "model.response", "model.telemetry", "model.tool_execution", "model.turn_ended", "model.turn_failed",
	"model.turn_retry", "model.turn_started", "pending_messages.modified", "prompt_cache_break", "sandbox.decision",
	"session.background_tasks_changed", "session.binary_asset", "session.context_changed", "session.custom_agents_updated", "session.indexed_search",
	"session.info", "session.managed_settings_resolved", "session.mcp_server_status_changed", "session.mcp_server_tools_loaded",
	"session.mcp_servers_loaded", "session.mode_changed", "session.model_change", "session.permissions_changed", "session.plan_changed",
	"session.shutdown", "session.skills_loaded", "session.start", "session.title_changed", "session.tools_updated", "session.truncation",
	"session.usage_checkpoint", "session.usage_info", "session.workspace_file_changed", "subagent.configured", "subagent.deselected",
	"subagent.selected", "system.message", "tool.execution_progress", "user_input.completed", "user_input.requested",
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// event is one event of a session.
type event struct {
	Type    string `json:"type"`
	AgentID string `json:"agentId"` // set: a sub-agent's
	Data    data   `json:"data"`
}

// data is the payload of an event, with the fields of all types together: one
// pass that forgives a field of another type, which is then left out. Its turnId
// is not among them: it begins anew with each send, and tells no turns apart.
// Messages, calls and requests have ids of their own.
type data struct {
	MessageID    string        `json:"messageId"`
	ReasoningID  string        `json:"reasoningId"`
	DeltaContent string        `json:"deltaContent"`
	Content      string        `json:"content"`
	Thought      string        `json:"reasoningText"`
	ToolRequests []toolRequest `json:"toolRequests"`
	Model        string        `json:"model"`
	Source       string        `json:"source"` // user.message: "" and "user" are ours
	Aborted      bool          `json:"aborted"`
	Reason       string        `json:"reason"` // turn_retry
	AlreadyInUse bool          `json:"alreadyInUse"`

	ToolCallID       string          `json:"toolCallId"`
	ParentToolCallID string          `json:"parentToolCallId"`
	ToolName         string          `json:"toolName"`
	Arguments        json.RawMessage `json:"arguments"`
	PartialOutput    string          `json:"partialOutput"` // all so far, up to 10,000 characters
	Text             string          `json:"text"`          // of a command, since the last
	Success          bool            `json:"success"`
	Result           json.RawMessage `json:"result"`
	Error            json.RawMessage `json:"error"`
	Shell            *shellExecution `json:"shellExecution"`
	FileEdits        []fileEdit      `json:"fileEdits"`

	RequestID  string            `json:"requestId"`
	Permission permissionRequest `json:"permissionRequest"`

	ErrorType    string `json:"errorType"`
	ErrorCode    string `json:"errorCode"`
	ErrorMessage string `json:"errorMessage"`
	Message      string `json:"message"`
	StatusCode   num    `json:"statusCode"`
	RetryAttempt num    `json:"retryAttempt"`
	FailureKind  string `json:"failureKind"`

	usage
	Compaction *usage `json:"compactionTokensUsed"`
	Summary    string `json:"summaryContent"`

	AgentName   string `json:"agentName"`
	DisplayName string `json:"agentDisplayName"`
	Description string `json:"agentDescription"`
	Kind        struct {
		Type string `json:"type"`
	} `json:"kind"` // system.notification
}

// num is a count that may come with a fraction.
type num float64

type usage struct {
	Input      *num   `json:"inputTokens"`  // with cached ones
	Output     *num   `json:"outputTokens"` // with reasoning
	CacheRead  *num   `json:"cacheReadTokens"`
	CacheWrite *num   `json:"cacheWriteTokens"`
	Reasoning  *num   `json:"reasoningTokens"`
	Cost       *num   `json:"cost"` // premium requests
	Initiator  string `json:"initiator"`
	Finish     string `json:"finishReason"`
	Filtered   bool   `json:"contentFilterTriggered"`
}

type toolRequest struct {
	ID        string          `json:"toolCallId"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type shellExecution struct {
	ExitCode *num `json:"exitCode"`
}

type fileEdit struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
}

type toolResult struct {
	Content  string `json:"content"`
	Detailed string `json:"detailedContent"`
}

type permissionRequest struct {
	Kind       string          `json:"kind"`
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	ToolArgs   json.RawMessage `json:"toolArgs"`
}

// notice is the envelope of session.event.
type notice struct {
	SessionID string          `json:"sessionId"`
	Event     json.RawMessage `json:"event"`
}

var typeMark = []byte(`"type":"`)

// typeOf is the type of an event without decoding it: it stands first. ""
// where it does not.
func typeOf(raw json.RawMessage) string {
	at := bytes.Index(raw[:min(len(raw), 16)], typeMark)
	if at < 0 {
		return ""
	}
	rest := raw[at+len(typeMark):]
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return ""
	}
	return string(rest[:end])
}

// decode reads an event. Fields that are not as expected are left out: only
// what is not a JSON object at all is an error.
func decode(raw json.RawMessage) (*event, error) {
	e := new(event)
	if err := lenient(json.Unmarshal(raw, e)); err != nil {
		return nil, err
	}
	return e, nil
}

// lenient forgives a field of an unexpected type; encoding/json has read the
// others all the same. A value that is no object is not forgiven.
func lenient(err error) error {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) && te.Field != "" {
		return nil
	}
	return err
}

func isObject(raw json.RawMessage) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(raw, &m) == nil && m != nil
}

// object is raw where it is a JSON object, and one that holds it where it is
// not: apply_patch takes a text.
func object(raw json.RawMessage) json.RawMessage {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return json.RawMessage("{}")
	case isObject(raw):
		return raw
	}
	b, err := json.Marshal(map[string]json.RawMessage{"input": raw})
	if err != nil {
		return json.RawMessage("{}")
	}
	return b
}
