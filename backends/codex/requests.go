package codex

import (
	"context"
	"encoding/json"
	"time"

	"innerd/backends/internal/rpc"
	"innerd/events"
)

// request answers what codex asks. It runs on the goroutine that reads: what
// waits for the host gets one of its own. False: there is no such thing.
func (c *conversation) request(to *route, r *rpc.Request, q *request) bool {
	c.mu.Lock()
	t := c.turn
	c.mu.Unlock()
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.finished || to.agent == "" && q.TurnID != t.id || c.ended.Has(q.TurnID) {
			t = nil // of a turn that is over
		}
	}
	switch r.Method {
	case "item/tool/call":
		c.toolCall(t, to, r, q)
	case askCommand, askPatch:
		if t == nil {
			_ = r.Respond(decision{"decline"})
			return true
		}
		t.permission(to, r, q)
	case "item/tool/requestUserInput":
		if t == nil || !t.interactive || len(q.Questions) == 0 {
			_ = r.Respond(q.answers(func(question) string { return noUser }))
			return true
		}
		t.question(r, q)
	case "item/permissions/requestApproval": // of more than full access there is none
		_ = r.Respond(map[string]any{"permissions": map[string]any{}, "scope": "turn"})
	case "mcpServer/elicitation/request":
		_ = r.Respond(map[string]any{"action": "decline", "content": nil, "_meta": nil})
	default:
		c.noted(r.Method)
		return false
	}
	return true
}

func (c *conversation) noted(what string) {
	c.mu.Lock()
	s := c.srv
	c.mu.Unlock()
	if s != nil {
		s.note(what)
	}
}

// toolCall asks the host to run one of its tools.
func (c *conversation) toolCall(t *turn, to *route, r *rpc.Request, q *request) {
	if t == nil {
		_ = r.Respond(textAnswer("No run is active; the tool was not called.", false))
		return
	}
	tool, ok := t.tools.host(q.Tool)
	if !ok {
		t.respond(r, textAnswer("There is no such tool: "+q.Tool, false))
		return
	}
	if to.agent == "" { // a sub-agent's says nothing of what the main one is saying
		t.tr.next()
	}
	t.ask(events.Request{
		Kind: events.KindTool, NativeID: q.CallID, Tool: tool.Name, Input: orObject(q.Arguments),
	}, func(a events.Answer) { t.respond(r, answerOf(a)) })
}

// permission asks the host whether one of codex's own tools may run.
func (t *turn) permission(to *route, r *rpc.Request, q *request) {
	if t.noTools {
		t.respond(r, decision{"decline"})
		return
	}
	name, input, call := t.asked(to, r.Method, q)
	if to.agent == "" {
		t.tr.next()
	}
	t.ask(events.Request{Kind: events.KindPermission, NativeID: q.ItemID, Tool: name, Input: input}, func(a events.Answer) {
		if a.Outcome == events.OutcomeAllowed {
			t.mu.Lock()
			if call != nil && r.Method == askCommand {
				call.runs = true // from now on it may outlive the turn
			}
			t.mu.Unlock()
			t.respond(r, decision{"accept"})
			return
		}
		t.tell(q.ThreadID, q.TurnID, "[host] "+name+" was not permitted: "+denial(a))
		t.respond(r, decision{"decline"})
	})
}

// The questions for permission.
const (
	askCommand = "item/commandExecution/requestApproval"
	askPatch   = "item/fileChange/requestApproval"
)

// asked is the tool that wants permission, as its call was told.
func (t *turn) asked(to *route, method string, q *request) (string, json.RawMessage, *call) {
	tr := t.tr
	if a := t.subs[to.agent]; a != nil {
		tr = a.tr
	}
	if call := tr.calls[q.ItemID]; call != nil && q.Kind != "stdin" {
		return call.name, call.input, call
	}
	if method == askPatch {
		return toolPatch, object("reason", q.Reason), nil
	}
	return toolExec, commandInput(q.Command, q.Cwd), nil
}

// tellLimit bounds the wait for codex to take a word of ours.
const tellLimit = 2 * time.Second

// tell puts a word into the running turn: the model reads it with the result
// of the call that was refused, for which codex has no words but its own.
func (t *turn) tell(thread, turn, text string) {
	ctx, cancel := context.WithTimeout(t.ctx, tellLimit)
	defer cancel()
	err := t.s.peer.Call(ctx, "turn/steer", steerParams{ThreadID: thread, Expected: turn, Input: []userInput{textInput(text)}}, nil)
	if err != nil {
		t.c.b.log.Info("the reason of a refusal could not be told", "conversation", t.c.cfg.ID, "err", err)
	}
}

func denial(a events.Answer) string {
	switch {
	case a.Message != "":
		return a.Message
	case a.Outcome == events.OutcomeExpired || a.Outcome == events.OutcomeTimeout:
		return "nobody answered the request for permission in time, which counts as a no"
	}
	return "the host does not permit this"
}

func textAnswer(text string, ok bool) toolAnswer {
	return toolAnswer{Items: []contentItem{{Type: "inputText", Text: text}}, Success: ok}
}
