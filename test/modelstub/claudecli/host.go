package claudecli

import (
	"encoding/json"
	"strings"
)

// Control is a control request of the CLI.
type Control struct {
	Type      string
	RequestID string `json:"request_id"`
	Request   struct {
		Subtype    string
		ServerName string          `json:"server_name"`
		Message    json.RawMessage // of mcp_message
		ToolName   string          `json:"tool_name"` // of can_use_tool
		Input      json.RawMessage // of can_use_tool and hook_callback
		CallbackID string          `json:"callback_id"`
	}
}

// Host answers what the CLI asks.
type Host struct {
	System string
	// Tools are tools/list entries; with any, there is an MCP server "host".
	Tools []map[string]any
	// Call runs a tool of the host; what it returns is the MCP result.
	Call func(name string, args json.RawMessage) any
	// Permit answers can_use_tool. nil: allow.
	Permit func(tool string, input json.RawMessage) any
}

func (h *Host) initialize() map[string]any {
	req := map[string]any{
		"subtype": "initialize",
		"hooks":   map[string]any{"PreToolUse": []any{map[string]any{"hookCallbackIds": []string{"pre"}}}},
	}
	if h.System != "" {
		req["appendSystemPrompt"] = h.System
	}
	if len(h.Tools) > 0 {
		req["sdkMcpServers"] = []string{"host"}
		req["sdkMcpServerConfigs"] = map[string]any{"host": map[string]any{"timeout": 3600000}}
	}
	return req
}

func (h *Host) answer(m Control) any {
	switch m.Request.Subtype {
	case "mcp_message":
		return h.mcp(m.Request.Message)
	case "hook_callback":
		return preToolUse(m.Request.Input)
	case "can_use_tool":
		if h.Permit != nil {
			return h.Permit(m.Request.ToolName, m.Request.Input)
		}
		return Allow(m.Request.Input)
	default:
		return map[string]any{}
	}
}

// Allow is the answer that lets a tool run with an input.
func Allow(input any) any { return map[string]any{"behavior": "allow", "updatedInput": input} }

// Deny is the answer that refuses a tool.
func Deny(message string) any { return map[string]any{"behavior": "deny", "message": message} }

// preToolUse has the CLI ask about every tool but the host's own.
func preToolUse(input json.RawMessage) any {
	var in struct {
		ToolName string `json:"tool_name"`
	}
	_ = json.Unmarshal(input, &in) // without a name it asks
	decision := "ask"
	if strings.HasPrefix(in.ToolName, "mcp__host__") {
		decision = "allow"
	}
	return map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": "PreToolUse", "permissionDecision": decision}}
}

// mcp is the host's side of the in-process MCP server.
func (h *Host) mcp(msg json.RawMessage) any {
	var m struct {
		ID     *int
		Method string
		Params struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	_ = json.Unmarshal(msg, &m) // an odd message gets an empty result
	var result any = map[string]any{}
	switch m.Method {
	case "initialize":
		result = map[string]any{
			"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "host", "version": "1"},
		}
	case "tools/list":
		result = map[string]any{"tools": h.Tools}
	case "tools/call":
		result = h.Call(m.Params.Name, m.Params.Arguments)
	}
	id := 0 // notifications are answered too
	if m.ID != nil {
		id = *m.ID
	}
	return map[string]any{"mcp_response": map[string]any{"jsonrpc": "2.0", "id": id, "result": result}}
}
