package copilot

import (
	"encoding/json"
	"fmt"
	"strings"

	"innerd/backends/internal/rpc"
	"innerd/backends/internal/told"
	"innerd/events"
)

const (
	toolAsk = "ask_user"
	noRun   = "No run is active."
	noUser  = "No user is present; decide yourself."
)

// shellTools run commands, which may leave processes.
var shellTools = set("bash", "powershell", "local_shell")

// hookCall is what copilot asks before and after things happen.
type hookCall struct {
	SessionID string `json:"sessionId"`
	Type      string `json:"hookType"`
	Input     struct {
		ToolName string     `json:"toolName"`
		Result   hostResult `json:"toolResult"`
		Error    string     `json:"error"`
	} `json:"input"`
}

type hookAnswer struct {
	Output *hookDecision `json:"output,omitempty"`
}

type hookDecision struct {
	Decision string `json:"permissionDecision"`
	Reason   string `json:"permissionDecisionReason"`
}

// hook decides whether a tool asks: the host's are let through, copilot's own
// always ask, also those that it would run unasked. The request that follows
// names tool, input and call, waits as long as it must, and stands in order
// with the other events.
func (p *process) hook(r *rpc.Request) {
	var h hookCall
	_ = lenient(json.Unmarshal(r.Params, &h)) // what is not said is not let through
	c := p.hears(h.SessionID)                 // nil: a sub-agent's session
	switch h.Type {
	case "preToolUse":
		d := hookDecision{"ask", "The host of this agent decides on every use of a tool."}
		switch t := c.currentOf(); {
		case t == nil: // a sub-agent's session: the request that follows says whose
		case h.Input.ToolName == toolAsk && !t.interactive && !t.hosts(toolAsk):
			d = hookDecision{"deny", noUser}
		case t.silent(h.Input.ToolName):
			d.Decision = "allow"
		}
		_ = r.Respond(hookAnswer{&d}) // fails if copilot is gone
	case "postToolUse", "postToolUseFailure":
		if t := c.currentOf(); t != nil {
			t.lastCall(r)
		}
		_ = r.Respond(hookAnswer{})
	default:
		_ = r.Respond(hookAnswer{})
	}
}

// currentOf is the turn of a conversation that may be none.
func (c *conversation) currentOf() *turn {
	if c == nil {
		return nil
	}
	return c.current()
}

// permission asks the host whether one of copilot's own tools may run.
func (t *turn) permission(e *event) {
	d := &e.Data
	id, q := d.RequestID, d.Permission
	answer := func(result decision) {
		t.p.tell("session.permissions.handlePendingPermissionRequest", permissionAnswer{t.c.session, id, result})
	}
	tool, input := q.ToolName, q.ToolArgs
	if tool == "" { // not by our hook: the call says what it is
		if c := t.tr.calls[q.ToolCallID]; c != nil {
			tool = c.name
		}
		input, _ = json.Marshal(map[string]string{"kind": q.Kind})
	}
	switch {
	case tool == toolAsk && !t.interactive && !t.hosts(toolAsk):
		answer(decision{Kind: "reject", Feedback: noUser})
		return
	case t.silent(tool):
		answer(decision{Kind: "approve-once"})
		return
	}
	t.request(id, events.Request{
		Kind: events.KindPermission, NativeID: q.ToolCallID, Tool: orElse(tool, q.Kind), Input: object(input),
	}, func(a events.Answer) {
		if a.Outcome == events.OutcomeAllowed {
			answer(decision{Kind: "approve-once"})
			return
		}
		answer(decision{Kind: "reject", Feedback: denial(a)})
	})
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

// hostCall asks the host to run one of its tools. One that must not run beside
// itself waits for its turn.
func (t *turn) hostCall(e *event) {
	d := &e.Data
	id := d.RequestID
	answer := func(r hostResult) {
		t.p.tell("session.tools.handlePendingToolCall", toolAnswer{t.c.session, id, r})
	}
	tool, ok := t.tools.host(d.ToolName)
	if !ok {
		answer(failed("no such tool: " + d.ToolName))
		return
	}
	if e.AgentID == "" {
		t.tr.interrupt()
	}
	r := events.Request{Kind: events.KindTool, NativeID: d.ToolCallID, Tool: tool.Name, Input: object(d.Arguments)}
	if tool.Parallel {
		t.request(id, r, func(a events.Answer) { answer(t.c.result(a)) })
		return
	}
	t.inTurn(d.ToolName, func() {
		t.requestThen(id, r, func(a events.Answer) { answer(t.c.result(a)) }, func() { t.nextInTurn(d.ToolName) })
	})
}

// result is a host's answer as copilot takes it: never without a text.
func (c *conversation) result(a events.Answer) hostResult {
	var text []string
	r := hostResult{Type: "success"}
	for _, part := range a.Parts() {
		switch {
		case part.Type == events.PartImage && part.Data != "" && told.Visible(part.MimeType):
			r.Binary = append(r.Binary, binaryResult{
				Data: part.Data, MimeType: orElse(part.MimeType, "image/png"), Type: "image", Description: orElse(part.Name, "image"),
			})
		default:
			text = append(text, c.resultText(part))
		}
	}
	r.Text = strings.Join(text, "\n")
	failedCall := a.IsError || a.Outcome != events.OutcomeOK && a.Outcome != ""
	switch {
	case r.Text != "":
	case a.Outcome == events.OutcomeTimeout:
		r.Text = "The tool did not answer in time."
	case a.Outcome == events.OutcomeCanceled:
		r.Text = "The tool call was canceled."
	case failedCall:
		r.Text = "The tool failed without a word."
	case len(r.Binary) > 0:
		r.Text = "(an image)"
	default:
		r.Text = "(no output)"
	}
	if failedCall {
		r.Type, r.Error = "failure", r.Text
	}
	return r
}

// resultText is a part of a result that the model gets as text: a file is
// kept where copilot can read it.
func (c *conversation) resultText(part events.Part) string {
	switch {
	case part.Type == events.PartText:
		return part.Text
	case part.Type == events.PartJSON:
		return string(part.JSON)
	case part.Path != "":
		return told.Note(part, part.Path).Text
	case part.URL != "":
		return told.Note(part, part.URL).Text
	}
	if text, ok := told.SmallText(part.Data); ok && part.Type == events.PartFile {
		return text
	}
	path, err := c.b.kept().Keep(c.cfg.ID, part)
	if err != nil {
		return fmt.Sprintf("[%s %s could not be kept: %v]", part.Type, part.Name, err)
	}
	return told.Note(part, path).Text
}

// failed is a result that says why there is none: an error of the call would
// reach the model without its words.
func failed(text string) hostResult { return hostResult{Text: text, Type: "failure", Error: text} }

// question is what copilot asks the user.
type question struct {
	SessionID string   `json:"sessionId"`
	Question  string   `json:"question"`
	Choices   []string `json:"choices"`
	Freeform  *bool    `json:"allowFreeform"`
}

type userAnswer struct {
	Answer   string `json:"answer"`
	Freeform bool   `json:"wasFreeform"`
}

// ask puts a question to the user. The reader calls it.
func (c *conversation) ask(r *rpc.Request, q *question) {
	respond := func(text string) {
		free := true
		for _, choice := range q.Choices {
			free = free && choice != text
		}
		_ = r.Respond(userAnswer{text, free}) // fails if copilot is gone
	}
	t := c.current()
	if t == nil || !t.interactive {
		respond(noUser)
		return
	}
	begun := false
	asked := t.locked(func() {
		if begun = t.begun; !begun {
			return // it is of the turn before
		}
		t.tr.interrupt()
		t.request("", events.Request{Kind: events.KindQuestion, Message: q.message(), Schema: q.schema()}, func(a events.Answer) {
			text := plainText(a.Value)
			if a.Outcome != events.OutcomeAnswered || text == "" {
				text = orElse(a.Message, "The user did not answer; decide yourself.")
			}
			respond(text)
		})
	})
	if !asked || !begun {
		respond(noUser)
	}
}

func (q *question) message() string {
	var b strings.Builder
	b.WriteString(q.Question)
	for _, c := range q.Choices {
		b.WriteString("\n- " + c)
	}
	return b.String()
}

// schema: choices are an enum only where copilot takes nothing else.
func (q *question) schema() json.RawMessage {
	s := map[string]any{"type": "string"}
	switch {
	case len(q.Choices) > 0 && q.Freeform != nil && !*q.Freeform:
		s["enum"] = q.Choices
	case len(q.Choices) > 0:
		s["examples"] = q.Choices
	}
	b, err := json.Marshal(s)
	if err != nil {
		return json.RawMessage(`{"type":"string"}`)
	}
	return b
}

// plainText is a JSON value as a user would write it; an object with one field
// stands for that.
func plainText(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	var o map[string]json.RawMessage
	if json.Unmarshal(v, &o) == nil && len(o) == 1 {
		for _, only := range o {
			return plainText(only)
		}
	}
	return strings.TrimSpace(string(v))
}
