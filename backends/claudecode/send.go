package claudecode

import "encoding/json"

// What goes to claude's stdin. It is made by encoding/json alone: one line
// that is not as expected ends the process.

type outRequest struct {
	Type      string `json:"type"`
	RequestID string `json:"request_id"`
	Request   any    `json:"request"`
}

type outResponse struct {
	Type     string  `json:"type"`
	Response outBody `json:"response"`
}

type outBody struct {
	Subtype   string `json:"subtype"`
	RequestID string `json:"request_id"`
	Response  any    `json:"response,omitempty"`
	Error     string `json:"error,omitempty"`
}

type outUser struct {
	Type     string     `json:"type"`
	Message  outMessage `json:"message"`
	UUID     string     `json:"uuid"`
	Parent   *string    `json:"parent_tool_use_id"`
	Composed bool       `json:"client_composed,omitempty"` // no slash commands, no @files: it is text
}

type outMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

func successBody(id string, response any) outBody {
	return outBody{Subtype: "success", RequestID: id, Response: response}
}

func errorBody(id, message string) outBody {
	return outBody{Subtype: "error", RequestID: id, Error: message}
}

type initializeRequest struct {
	Subtype    string                   `json:"subtype"`
	SDKServers []string                 `json:"sdkMcpServers,omitempty"`
	Append     string                   `json:"appendSystemPrompt,omitempty"`
	Hooks      map[string][]hookMatcher `json:"hooks"`
}

type hookMatcher struct {
	CallbackIDs []string `json:"hookCallbackIds"`
}

func newInitialize(system string, serves bool) initializeRequest {
	r := initializeRequest{
		Subtype: "initialize", Append: system,
		Hooks: map[string][]hookMatcher{"PreToolUse": {{CallbackIDs: []string{"pre"}}}},
	}
	if serves {
		r.SDKServers = []string{serverName}
	}
	return r
}

type interruptRequest struct {
	Subtype      string `json:"subtype"`
	CancelQueued bool   `json:"cancel_queued"`
}

type flagsRequest struct {
	Subtype  string       `json:"subtype"`
	Settings flagSettings `json:"settings"`
}

type flagSettings struct {
	Effort      *string         `json:"effortLevel"`
	Permissions permissionRules `json:"permissions"`
}

type permissionRules struct {
	Deny []string `json:"deny"`
}

type thinkingRequest struct {
	Subtype string `json:"subtype"`
	Max     *int   `json:"max_thinking_tokens"`
}

type mcpNotification struct {
	Subtype string         `json:"subtype"`
	Server  string         `json:"server_name"`
	Message map[string]any `json:"message"`
}

type serversRequest struct {
	Subtype string               `json:"subtype"`
	Servers map[string]mcpServer `json:"servers"`
}

type mcpServer struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

// serverAdded gives claude the server that its start was not told of.
func serverAdded() serversRequest {
	return serversRequest{"mcp_set_servers", map[string]mcpServer{serverName: {"sdk", serverName}}}
}

func toolsChanged() mcpNotification {
	return mcpNotification{
		Subtype: "mcp_message", Server: serverName,
		Message: map[string]any{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
	}
}

// hookAnswer decides whether a tool asks: ours are let through, claude's own
// always ask, also those that claude would run unasked.
func hookAnswer(in hookInput) any {
	decision := "ask"
	if isHostTool(in.ToolName) || in.ToolName == toolStructured {
		decision = "allow"
	}
	return map[string]any{"hookSpecificOutput": map[string]any{
		"hookEventName": "PreToolUse", "permissionDecision": decision,
	}}
}

type allow struct {
	Behavior string          `json:"behavior"`
	Input    json.RawMessage `json:"updatedInput,omitempty"`
}

type deny struct {
	Behavior string `json:"behavior"`
	Message  string `json:"message"`
}

func allowed(input json.RawMessage) any { return allow{"allow", input} }

func denied(message string) any { return deny{"deny", message} }
