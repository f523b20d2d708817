package claudecode

import (
	"bytes"
	"encoding/json"

	"innerd/backends"
	"innerd/events"
	"innerd/events/mcpjson"
)

// rpcRequest is what claude, as an MCP client, asks the server that this
// process is for it.
type rpcRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Name            string          `json:"name"`
		Arguments       json.RawMessage `json:"arguments"`
		RequestID       json.RawMessage `json:"requestId"` // notifications/cancelled
		Meta            struct {
			ToolUseID string `json:"claudecode/toolUseId"`
		} `json:"_meta"`
	} `json:"params"`
}

type rpcResponse struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

const (
	codeNoMethod  = -32601
	codeBadParams = -32602
)

func rpcResult(id json.RawMessage, result any) *rpcResponse {
	if len(id) == 0 {
		id = json.RawMessage("0") // notifications are answered too; claude wants an id in it
	}
	return &rpcResponse{Version: "2.0", ID: id, Result: result}
}

func rpcFailure(id json.RawMessage, code int, message string) *rpcResponse {
	r := rpcResult(id, nil)
	r.Error = &rpcError{code, message}
	return r
}

const mcpInstructions = "The tools of this server belong to the host that this conversation runs in. " +
	"Where instructions or the user name one of them, they mean the tool " + mcpPrefix + "NAME, " +
	"with _ for every character of NAME that is not a letter, a digit, _ or -."

func mcpInitialize(version string) any {
	return map[string]any{
		"protocolVersion": orElse(version, "2025-11-25"),
		"capabilities":    map[string]any{"tools": map[string]any{"listChanged": true}},
		"serverInfo":      map[string]any{"name": serverName, "version": "1"},
		"instructions":    mcpInstructions,
	}
}

// toolMeta loads every tool at once, instead of behind a search, and lets the
// model have results that would otherwise be put into a file from 50 kB on.
var toolMeta = map[string]any{"anthropic/alwaysLoad": true, "anthropic/maxResultSizeChars": 500_000}

// list is the answer to tools/list. Claude runs tools side by side that it
// takes for read-only, and others one at a time: that is what Parallel means.
func (ts *toolset) list() any {
	tools := make([]json.RawMessage, 0, len(ts.tools))
	for i, t := range ts.tools {
		tools = append(tools, mcpjson.Tool(ts.names[i], t.Description, t.Schema, t.Parallel, toolMeta))
	}
	return map[string]any{"tools": tools}
}

// toolResult is a host's answer as an MCP result. An answer that nobody gave
// says so: the model would make nothing of an empty one.
func toolResult(a events.Answer) json.RawMessage {
	if a.Result == "" && len(a.Content) == 0 {
		switch a.Outcome {
		case events.OutcomeTimeout:
			a.Result = "The tool did not answer in time."
		case events.OutcomeCanceled:
			a.Result = "The tool call was canceled."
		}
	}
	return mcpjson.Result(a)
}

func textError(text string) json.RawMessage {
	return mcpjson.Result(events.Answer{Outcome: events.OutcomeError, Result: text, IsError: true})
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// sameTools reports whether the model would see the same list.
func sameTools(a, b []backends.Tool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i], b[i]
		if x.Name != y.Name || x.Description != y.Description || x.Parallel != y.Parallel || !bytes.Equal(x.Schema, y.Schema) {
			return false
		}
	}
	return true
}
