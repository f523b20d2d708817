package claudecode

import (
	"context"
	"encoding/json"
	"maps"

	"innerd/backends/claudecode/internal/changes"
	"innerd/events"
)

// request answers what claude asks over the control channel. It runs on the
// goroutine that reads stdout: what waits for the host gets one of its own.
func (p *process) request(t *turn, l *line) {
	r := &l.Request
	switch r.Subtype {
	case "mcp_message":
		p.mcp(t, l)
	case "can_use_tool":
		p.permission(t, l)
	case "hook_callback":
		var in hookInput
		_ = json.Unmarshal(r.Input, &in)
		p.answer(successBody(l.RequestID, hookAnswer(in)))
	default:
		p.answer(errorBody(l.RequestID, "unsupported: "+r.Subtype))
	}
}

// mcp is the server that the host's tools are in.
func (p *process) mcp(t *turn, l *line) {
	reply := func(r *rpcResponse) {
		p.answer(successBody(l.RequestID, map[string]any{"mcp_response": r}))
	}
	var m rpcRequest
	if err := lenient(json.Unmarshal(l.Request.Message, &m)); err != nil || l.Request.ServerName != serverName {
		p.answer(errorBody(l.RequestID, "no such server, or no JSON-RPC"))
		return
	}
	switch m.Method {
	case "initialize":
		reply(rpcResult(m.ID, mcpInitialize(m.Params.ProtocolVersion)))
	case "tools/list":
		p.mu.Lock()
		tools, listed := p.tools, p.listed
		p.mu.Unlock()
		reply(rpcResult(m.ID, tools.list()))
		closeOnce(listed)
	case "tools/call":
		p.toolCall(t, l.RequestID, &m, reply)
	case "notifications/cancelled":
		p.cancel(rpcKey(m.Params.RequestID))
		reply(rpcResult(nil, struct{}{}))
	case "ping", "notifications/initialized", "notifications/progress", "notifications/roots/list_changed":
		reply(rpcResult(m.ID, struct{}{}))
	default:
		reply(rpcFailure(m.ID, codeNoMethod, "no such method: "+m.Method))
	}
}

// closeOnce closes a channel that only the reader closes.
func closeOnce(ch chan struct{}) {
	select {
	case <-ch:
	default:
		close(ch)
	}
}

func rpcKey(id json.RawMessage) string { return "rpc:" + string(id) }

// toolCall asks the host to run one of its tools.
func (p *process) toolCall(t *turn, requestID string, m *rpcRequest, reply func(*rpcResponse)) {
	p.mu.Lock()
	tools := p.tools
	p.mu.Unlock()
	tool, ok := tools.host(m.Params.Name)
	switch {
	case !ok:
		reply(rpcFailure(m.ID, codeBadParams, "no such tool: "+m.Params.Name))
		return
	case t == nil:
		reply(rpcResult(m.ID, textError("No run is active; the tool was not called.")))
		return
	}
	args := m.Params.Arguments
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	t.tr.interrupt()
	id := m.ID
	t.request(p, []string{requestID, rpcKey(id)}, events.Request{
		Kind: events.KindTool, NativeID: m.Params.Meta.ToolUseID, Tool: tool.Name, Input: args,
	}, func(a events.Answer) {
		reply(rpcResult(id, toolResult(a)))
	})
}

// permission asks the host whether one of claude's own tools may run, or puts
// claude's question to the user.
func (p *process) permission(t *turn, l *line) {
	r := &l.Request
	id, tool, input, call := l.RequestID, r.ToolName, r.Input, r.ToolUseID
	switch {
	case isHostTool(tool):
		p.answer(successBody(id, allowed(input)))
	case t == nil:
		p.answer(successBody(id, denied("No run is active.")))
	case tool == toolAsk:
		p.question(t, l)
	default:
		t.request(p, []string{id}, events.Request{
			Kind: events.KindPermission, NativeID: r.ToolUseID, Tool: tool, Input: input,
		}, func(a events.Answer) {
			if a.Outcome == events.OutcomeAllowed {
				if tool == toolShell {
					t.tr.mayLeave(call, changes.LeavingOf(p.dir, input))
				}
				p.answer(successBody(id, allowed(t.adjusted(tool, input))))
				return
			}
			p.answer(successBody(id, denied(denial(a))))
		})
	}
}

func denial(a events.Answer) string {
	switch {
	case a.Message != "":
		return a.Message
	case a.Outcome == events.OutcomeExpired || a.Outcome == events.OutcomeTimeout:
		return "Nobody answered the request for permission in time, which counts as a no."
	}
	return "The host does not permit this."
}

// remember keeps how to cancel a request of claude's under its ids.
func (p *process) remember(keys []string, cancel context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range keys {
		p.cancels[k] = cancel
	}
}

func (p *process) forget(keys []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.cancels, func(k string, _ context.CancelFunc) bool {
		for _, key := range keys {
			if k == key {
				return true
			}
		}
		return false
	})
}

// cancel withdraws a request: claude does not want its answer any more.
func (p *process) cancel(key string) {
	p.mu.Lock()
	cancel := p.cancels[key]
	p.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
