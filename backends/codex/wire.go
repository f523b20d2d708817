package codex

import (
	"encoding/json"
)

// What the app-server says. Numbers and texts that are null are zero; what has
// another form than expected is left out, so that one odd field never loses a
// whole message.

// notification is every notification of a thread; each uses a part of it.
type notification struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`
	Delta    string `json:"delta"`
	Message  string `json:"message"`

	ProcessID    string      `json:"processId"`
	Stdin        string      `json:"stdin"`
	SummaryIndex int         `json:"summaryIndex"`
	ContentIndex int         `json:"contentIndex"`
	Item         item        `json:"item"`
	Turn         turnInfo    `json:"turn"`
	Thread       threadInfo  `json:"thread"`
	TokenUsage   tokenUsage  `json:"tokenUsage"`
	Plan         []planStep  `json:"plan"`
	Error        turnError   `json:"error"`
	WillRetry    bool        `json:"willRetry"`
	RateLimits   *rateLimits `json:"rateLimits"`
}

type planStep struct {
	Step   string `json:"step"`
	Status string `json:"status"` // pending, inProgress, completed
}

type threadInfo struct {
	ID     string `json:"id"`
	Path   string `json:"path"`
	Parent string `json:"parentThreadId"`
	Nick   string `json:"agentNickname"`
	Role   string `json:"agentRole"`
}

type turnInfo struct {
	ID     string     `json:"id"`
	Status string     `json:"status"` // inProgress, completed, interrupted, failed
	Error  *turnError `json:"error"`
}

type turnError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"` // a word, or an object of one key
	Details string          `json:"additionalDetails"`
}

type tokenUsage struct {
	Total counts `json:"total"`
	Last  counts `json:"last"`
}

// counts are not disjoint: input holds what was cached, output the reasoning.
type counts struct {
	Total      int64 `json:"totalTokens"`
	Input      int64 `json:"inputTokens"`
	CacheRead  int64 `json:"cachedInputTokens"`
	CacheWrite int64 `json:"cacheWriteInputTokens"`
	Output     int64 `json:"outputTokens"`
	Reasoning  int64 `json:"reasoningOutputTokens"`
}

type rateLimits struct {
	Primary   *rateWindow `json:"primary"`
	Secondary *rateWindow `json:"secondary"`
}

type rateWindow struct {
	Used     float64 `json:"usedPercent"`
	ResetsAt int64   `json:"resetsAt"` // Unix seconds
}

// Types of items.
const (
	itemMessage    = "agentMessage"
	itemReasoning  = "reasoning"
	itemCommand    = "commandExecution"
	itemFileChange = "fileChange"
	itemMCP        = "mcpToolCall"
	itemDynamic    = "dynamicToolCall"
	itemWebSearch  = "webSearch"
	itemImageView  = "imageView"
	itemCompaction = "contextCompaction"
	itemCollab     = "collabAgentToolCall"
	itemActivity   = "subAgentActivity"
)

// item is every type of item; each uses a part of it.
type item struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Status string `json:"status"` // inProgress, completed, failed, declined

	Text    string   `json:"text"`
	Summary []string `json:"summary"`
	Content texts    `json:"content"` // reasoning; a user's message has another form

	Command    string  `json:"command"`
	Cwd        string  `json:"cwd"`
	Output     *string `json:"aggregatedOutput"`
	ExitCode   *int    `json:"exitCode"`
	DurationMS int64   `json:"durationMs"`

	Changes []fileChange `json:"changes"`

	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result"`
	ToolError *struct {
		Message string `json:"message"`
	} `json:"error"`

	Query  string          `json:"query"`
	Action json.RawMessage `json:"action"`
	Path   string          `json:"path"`

	Prompt    string                `json:"prompt"`
	Receivers []string              `json:"receiverThreadIds"`
	Agents    map[string]agentState `json:"agentsStates"`
	Kind      string                `json:"kind"`
	Agent     string                `json:"agentThreadId"`
	AgentPath string                `json:"agentPath"`
}

type agentState struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

type fileChange struct {
	Path string `json:"path"`
	Kind struct {
		Type string `json:"type"` // add, delete, update
		Move string `json:"move_path"`
	} `json:"kind"`
	Diff string `json:"diff"`
}

// texts is a list of texts, or nothing.
type texts []string

// UnmarshalJSON takes a list of texts and passes anything else over.
func (t *texts) UnmarshalJSON(b []byte) error {
	var list []string
	if json.Unmarshal(b, &list) == nil {
		*t = list
	}
	return nil
}

// decode reads params; a field of an odd form is left out.
func decode(raw json.RawMessage, into any) error {
	err := json.Unmarshal(raw, into)
	if _, odd := err.(*json.UnmarshalTypeError); odd { //nolint:errorlint // encoding/json returns it bare
		return nil
	}
	return err
}

// request is every question of the app-server; each uses a part of it.
type request struct {
	ThreadID  string          `json:"threadId"`
	TurnID    string          `json:"turnId"`
	ItemID    string          `json:"itemId"`
	CallID    string          `json:"callId"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Reason    string          `json:"reason"`
	Command   string          `json:"command"`
	Cwd       string          `json:"cwd"`
	Kind      string          `json:"kind"`
	Message   string          `json:"message"`
	Questions []question      `json:"questions"`
}

type question struct {
	ID       string `json:"id"`
	Header   string `json:"header"`
	Question string `json:"question"`
	Options  []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
}

// What goes to it.

type threadParams struct {
	ThreadID     string         `json:"threadId,omitempty"`
	Cwd          string         `json:"cwd"`
	Roots        []string       `json:"runtimeWorkspaceRoots,omitempty"`
	Approval     string         `json:"approvalPolicy"`
	Sandbox      string         `json:"sandbox"`
	Model        string         `json:"model,omitempty"`
	Developer    string         `json:"developerInstructions"`
	Config       map[string]any `json:"config"`
	DynamicTools []dynamicTool  `json:"dynamicTools,omitempty"`
	ExcludeTurns bool           `json:"excludeTurns,omitempty"`
}

type dynamicTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

type turnParams struct {
	ThreadID string          `json:"threadId"`
	Input    []userInput     `json:"input"`
	Model    string          `json:"model,omitempty"`
	Effort   string          `json:"effort,omitempty"`
	Summary  string          `json:"summary,omitempty"`
	Schema   json.RawMessage `json:"outputSchema,omitempty"`
}

type userInput struct {
	Type string `json:"type"` // text, image
	Text string `json:"text,omitempty"`
	URL  string `json:"url,omitempty"`
}

type threadRef struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId,omitempty"`
}

type steerParams struct {
	ThreadID string      `json:"threadId"`
	Expected string      `json:"expectedTurnId"`
	Input    []userInput `json:"input"`
}

type decision struct {
	Decision string `json:"decision"` // accept, decline
}

type toolAnswer struct {
	Items   []contentItem `json:"contentItems"`
	Success bool          `json:"success"`
}

type contentItem struct {
	Type     string `json:"type"` // inputText, inputImage
	Text     string `json:"text"`
	ImageURL string `json:"imageUrl,omitempty"`
}
