package claudecode

import (
	"encoding/json"
	"errors"
	"slices"
)

// Types of lines that claude prints. All others mean nothing here; they are
// signs of life and are counted.
const (
	lineSystem          = "system"
	lineStream          = "stream_event"
	lineAssistant       = "assistant"
	lineUser            = "user"
	lineResult          = "result"
	lineLifecycle       = "command_lifecycle"
	lineReset           = "conversation_reset"
	lineToolProgress    = "tool_progress"
	lineControlRequest  = "control_request"
	lineControlResponse = "control_response"
	lineControlCancel   = "control_cancel_request"
)

// line is one line of stdout. Its fields are those of all types together:
// the type field may stand anywhere, and one pass is cheaper than two.
type line struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	SessionID string `json:"session_id"`
	Parent    string `json:"parent_tool_use_id"` // set: said by a sub-agent
	AgentID   string `json:"agent_id"`           // of that

	Event     streamEvent `json:"event"`
	Abandoned *struct {
		From int `json:"from_block_index"`
	} `json:"abandoned_blocks"`

	Message       message         `json:"message"` // assistant, user
	ToolUseResult json.RawMessage `json:"tool_use_result"`
	Replay        bool            `json:"isReplay"`
	APIError      bool            `json:"is_api_error_message"`
	Error         flexString      `json:"error"` // assistant, api_retry: the kind of failure

	State       string `json:"state"`  // session_state_changed, command_lifecycle
	Status      string `json:"status"` // status: requesting, compacting
	CommandUUID string `json:"command_uuid"`
	Model       string `json:"model"`   // init
	Attempt     int    `json:"attempt"` // api_retry, with the next two
	DelayMS     num    `json:"retry_delay_ms"`
	ErrorStatus int    `json:"error_status"`

	Tasks        []task `json:"tasks"`   // background_tasks_changed
	TaskID       string `json:"task_id"` // task_started, task_notification, with the next ones
	TaskType     string `json:"task_type"`
	ToolUseID    string `json:"tool_use_id"`
	SubagentType string `json:"subagent_type"`
	Backgrounded bool   `json:"is_backgrounded"`
	Prompt       string `json:"prompt"`
	Summary      string `json:"summary"`

	CompactResult string `json:"compact_result"` // status
	CompactError  string `json:"compact_error"`
	Compacted     struct {
		Before num `json:"pre_tokens"`
		After  num `json:"post_tokens"`
	} `json:"compact_metadata"` // compact_boundary
	CommandOutcome struct {
		Kind string `json:"kind"`
	} `json:"local_command_outcome"` // assistant: what a command of claude's own said

	result

	RequestID string          `json:"request_id"` // control_*
	Request   controlRequest  `json:"request"`
	Response  controlResponse `json:"response"`
}

// result is the line that ends a turn of claude's, which is not always ours.
type result struct {
	IsError        bool                  `json:"is_error"`
	NumTurns       int                   `json:"num_turns"`
	Text           string                `json:"result"`
	Errors         []string              `json:"errors"`
	StopReason     string                `json:"stop_reason"`
	Terminal       string                `json:"terminal_reason"`
	APIErrorStatus int                   `json:"api_error_status"`
	DurationMS     num                   `json:"duration_ms"`
	TTFTMS         num                   `json:"ttft_ms"`
	Used           map[string]modelUsage `json:"model_usage_since_last_result"`
	Structured     json.RawMessage       `json:"structured_output"`
	UserUUIDs      []string              `json:"user_message_uuids"`
	Origin         *struct {
		Kind string `json:"kind"`
	} `json:"origin"`
}

// answers reports whether the result is the end of what the input uuid began.
// A failure before inputs were joined to a request names none: it is that of
// all that claude had taken.
func (r *result) answers(uuid string, taken bool) bool {
	if len(r.UserUUIDs) > 0 {
		return slices.Contains(r.UserUUIDs, uuid)
	}
	return r.Origin == nil && taken
}

type modelUsage struct {
	Input      int64   `json:"inputTokens"`
	Output     int64   `json:"outputTokens"` // with thinking
	CacheRead  int64   `json:"cacheReadInputTokens"`
	CacheWrite int64   `json:"cacheCreationInputTokens"`
	Thinking   *int64  `json:"thinkingTokens"`
	Cost       float64 `json:"costUSD"`
}

type streamEvent struct {
	Type    string  `json:"type"`
	Index   int     `json:"index"`
	Message message `json:"message"`
	Block   block   `json:"content_block"`
	Delta   struct {
		Type       string `json:"type"`
		Text       string `json:"text"`
		Thinking   string `json:"thinking"`
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	Usage apiUsage `json:"usage"`
}

type apiUsage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
}

type message struct {
	ID         string   `json:"id"`
	Model      string   `json:"model"`
	StopReason string   `json:"stop_reason"`
	Content    content  `json:"content"`
	Usage      apiUsage `json:"usage"`
}

// block is a block of content, the fields of all its types together.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`

	ToolUseID string  `json:"tool_use_id"` // tool_result, with the next two
	Content   content `json:"content"`
	IsError   bool    `json:"is_error"`
}

// content is a list of blocks; a string stands for one text block.
type content []block

// UnmarshalJSON takes both forms and, of anything else, nothing.
func (c *content) UnmarshalJSON(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	switch b[0] {
	case '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*c = content{{Type: "text", Text: s}}
	case '[':
		var l []block
		if err := lenient(json.Unmarshal(b, &l)); err != nil {
			return err
		}
		*c = l
	}
	return nil
}

// flexString is a string where some lines have an object.
type flexString string

// UnmarshalJSON keeps what is no string as its JSON.
func (f *flexString) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) != nil {
		s = string(b)
	}
	*f = flexString(s)
	return nil
}

// num is a count that may come with a fraction.
type num float64

type controlRequest struct {
	Subtype string `json:"subtype"`

	ServerName string          `json:"server_name"` // mcp_message
	Message    json.RawMessage `json:"message"`

	ToolName  string          `json:"tool_name"` // can_use_tool
	Input     json.RawMessage `json:"input"`     // hook_callback: hookInput
	ToolUseID string          `json:"tool_use_id"`
}

type hookInput struct {
	ToolName string `json:"tool_name"`
}

type controlResponse struct {
	Subtype   string          `json:"subtype"`
	RequestID string          `json:"request_id"`
	Response  json.RawMessage `json:"response"`
	Error     flexString      `json:"error"`
	ErrorCode string          `json:"error_code"`
}

// decode reads a line of stdout. Fields that are not as expected are left out:
// only what is not a JSON object at all is an error.
func decode(b []byte) (*line, error) {
	l := new(line)
	if err := lenient(json.Unmarshal(b, l)); err != nil {
		return nil, err
	}
	return l, nil
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
