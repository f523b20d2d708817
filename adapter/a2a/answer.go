package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"innerd/adapter/a2a/extension"
	"innerd/adapter/a2a/spec"
	"innerd/events"
	"innerd/runs"
	"innerd/runs/history"
	"innerd/toolbridge"
)

// more takes a message to a task that is there: results of the client's tools,
// the answer to what it waits for, or input to what it does.
func (s *Server) more(ctx context.Context, c Call, req *spec.SendMessageRequest) (turn, error) {
	msg := req.Message
	run, m, err := s.find(ctx, c, req.Tenant, "message.taskId", msg.TaskID)
	if err != nil {
		return turn{}, err
	}
	before := run.Log().Last()
	t := turn{run: run, at: before, ext: c.Ext}
	contextID := contextOf(run)
	if msg.ContextID != "" && msg.ContextID != contextID {
		return t, spec.InvalidParams("message.contextId", "is not the context of the task")
	}
	if _, ended := run.Log().Ended(); ended {
		return t, spec.ErrUnsupported.With("the task has ended; send a message with its contextId alone to go on")
	}
	kept := withoutSecrets(*msg)
	kept.ContextID = contextID
	answers, results, err := ourParts(c, msg)
	if err != nil {
		return t, err
	}
	for _, r := range results {
		if err := toolResult(m, c.Owner, r); err != nil {
			return t, err
		}
	}
	if len(results) > 0 && len(answers) == 0 {
		t.brief = true
		return t, nil
	}
	open, asked := oldest(run)
	switch {
	case len(answers) > 0:
		err = s.answer(m, run, c.Owner, kept, answers)
	case asked:
		err = s.reply(m, run, c.Owner, kept, open)
	default:
		err = s.steer(ctx, m, run, c, kept)
	}
	t.at = taken(run, before)
	return t, err
}

// ourParts reads the data parts that are the extension's.
func ourParts(c Call, msg *spec.Message) (answers []extension.Answer, results []extension.ToolResult, err error) {
	if !c.Ext && !slices.Contains(msg.Extensions, extension.URI) {
		return nil, nil, nil
	}
	for _, p := range msg.Parts {
		if p.Data == nil {
			continue
		}
		var what struct {
			RequestID  string `json:"requestId"`
			ToolCallID string `json:"toolCallId"`
		}
		if json.Unmarshal(p.Data, &what) != nil {
			continue
		}
		switch {
		case what.ToolCallID != "":
			var r extension.ToolResult
			if err := json.Unmarshal(p.Data, &r); err != nil {
				return nil, nil, spec.InvalidParams("message.parts", "a tool's result: "+err.Error())
			}
			results = append(results, r)
		case what.RequestID != "":
			var a extension.Answer
			if err := json.Unmarshal(p.Data, &a); err != nil {
				return nil, nil, spec.InvalidParams("message.parts", "an answer: "+err.Error())
			}
			answers = append(answers, a)
		}
	}
	return answers, results, nil
}

// toolResult gives a tool's result to the run that waits for it. The same one
// again is a retry.
func toolResult(m *runs.Manager, owner string, r extension.ToolResult) error {
	res := toolbridge.Result{Result: r.Result, IsError: r.IsError}
	if len(r.Content) > 0 {
		if err := json.Unmarshal(r.Content, &res.Content); err != nil {
			return spec.InvalidParams("message.parts", "content of a tool's result must be a list of parts")
		}
	}
	if m.ToolResult(owner, r.ToolCallID, res) == toolbridge.NotFound {
		return spec.InvalidParams("message.parts", "no open call has the toolCallId "+r.ToolCallID)
	}
	return nil
}

// answer takes the answers of a client that knows the extension.
func (s *Server) answer(m *runs.Manager, run *runs.Run, owner string, kept spec.Message, answers []extension.Answer) error {
	noted := false
	for _, a := range answers {
		i := slices.IndexFunc(run.Pending(), func(p runs.Pending) bool { return p.ID == a.RequestID })
		if i < 0 {
			return spec.InvalidParams("message.parts", "nothing is open under the requestId "+a.RequestID)
		}
		if !noted {
			s.note(run, kept)
			noted = true
		}
		reply := toolbridge.Reply{Option: a.OptionID, Message: a.Message, Remember: a.Remember, Value: a.Value}
		if _, err := m.Answer(owner, run.ID(), a.RequestID, reply); err != nil {
			return errorOf(err)
		}
	}
	return nil
}

// oldest is the question or permission that waits longest.
func oldest(run *runs.Run) (runs.Pending, bool) {
	for _, p := range run.Pending() {
		if p.Kind == events.KindQuestion || p.Kind == events.KindPermission {
			return p, true
		}
	}
	return runs.Pending{}, false
}

// reply takes a message in words, or a data part, as the answer to what is
// open.
func (s *Server) reply(m *runs.Manager, run *runs.Run, owner string, kept spec.Message, open runs.Pending) error {
	text, data := textOf(kept), dataOf(kept)
	s.note(run, kept)
	var err error
	switch {
	case open.Kind == events.KindPermission:
		_, err = m.Answer(owner, run.ID(), open.ID, decision(text))
	case text == "" && data != nil:
		_, err = m.Answer(owner, run.ID(), open.ID, toolbridge.Reply{Value: data})
	default:
		_, err = m.ReplyText(owner, run.ID(), open.ID, text, nil)
	}
	return errorOf(err)
}

// decision reads what a user means by a text. What is no clear yes is a no,
// and the agent is told the words.
func decision(text string) toolbridge.Reply {
	switch word := strings.ToLower(strings.Trim(strings.TrimSpace(text), ".!")); word {
	case events.AllowOnce, "yes", "y", "ok", "okay", "allow", "allowed", "approve", "approved", "proceed":
		return toolbridge.Reply{Option: events.AllowOnce}
	case events.AllowAlways, "always", "always allow":
		return toolbridge.Reply{Option: events.AllowAlways}
	case events.Deny, "no", "n", "denied", "reject", "rejected", "":
		return toolbridge.Reply{Option: events.Deny}
	}
	return toolbridge.Reply{Option: events.Deny, Message: text}
}

// steer gives a message to an agent that is at work.
func (s *Server) steer(ctx context.Context, m *runs.Manager, run *runs.Run, c Call, kept spec.Message) error {
	text := textOf(kept)
	if text == "" {
		return spec.ErrUnsupported.With("a task that is at work takes text alone")
	}
	_, err := m.Steer(ctx, c.Owner, run.ID(), []history.Message{{Role: "user", Text: text}})
	switch {
	case errors.Is(err, runs.ErrUnsupported):
		return spec.ErrUnsupported.With("this agent takes no messages while it works; wait for the task's end, or cancel it")
	case errors.Is(err, runs.ErrEnded): // or is about to
		return spec.ErrUnsupported.With("%v; send a message with its contextId alone to go on", err)
	case err != nil:
		return errorOf(err)
	}
	s.note(run, kept)
	return nil
}

// note puts a client's message into the run's log, where it is a part of the
// task's history. A run that ended meanwhile has its history.
func (s *Server) note(run *runs.Run, m spec.Message) {
	m.TaskID = run.ID()
	_ = run.Note(events.Unknown{Type: TypeMessage, Raw: encode(m)})
}

func textOf(m spec.Message) string {
	var texts []string
	for _, p := range m.Parts {
		if p.Text != nil {
			texts = append(texts, *p.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

func dataOf(m spec.Message) json.RawMessage {
	for _, p := range m.Parts {
		if p.Data != nil {
			return p.Data
		}
	}
	return nil
}
