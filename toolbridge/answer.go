package toolbridge

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"innerd/events"
)

// Verdict is what became of a tool's result.
type Verdict int

// The verdicts.
const (
	NotFound  Verdict = iota // no such open call of this owner, or answered otherwise
	Accepted                 // the run has it
	Duplicate                // it had the same one already
)

// Result is a tool's result as the host sent it.
type Result struct {
	Result   string
	Content  []events.Part
	IsError  bool
	Metadata json.RawMessage
}

// Reply is the host's answer to a permission (Option, Message, Remember) or a
// question (Value).
type Reply struct {
	Option   string // id of one of the options offered
	Message  string // what the agent is told with a deny
	Value    json.RawMessage
	Remember bool // an allow counts as allow_always
}

// ToolResult answers an open call. When it returns Accepted, the result is in
// the log and on its way to the agent. No result is ever refused for its
// content: a part that cannot be used becomes a note to the model.
func (b *Bridge) ToolResult(owner, callID string, r Result) Verdict {
	body := bodyOf(r)
	b.mu.Lock()
	p := b.open[callID]
	b.mu.Unlock()
	if p != nil && p.s.c.Owner == owner && p.r.Kind == events.KindTool {
		if b.resolve(p, toolResolution(r, body)) {
			return Accepted
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old, ok := b.past.get(callID)
	if ok && old.owner == owner && old.kind == events.KindTool && old.body == body {
		return Duplicate
	}
	return NotFound
}

func toolResolution(r Result, body [32]byte) resolution {
	outcome := events.OutcomeOK
	if r.IsError {
		outcome = events.OutcomeError
	}
	logged := events.Answer{Outcome: outcome, Result: r.Result, Content: loggable(r.Content), IsError: r.IsError}
	told := logged
	told.Content = usable(logged.Content)
	return resolution{answer: told, logged: &logged, body: body}
}

// bodyOf is the identity of a result: the same one sent again is a retry.
func bodyOf(r Result) [32]byte {
	r.Metadata = canonical(r.Metadata)
	h := sha256.New()
	enc := json.NewEncoder(h)
	if err := enc.Encode(struct {
		R string
		C []events.Part
		E bool
	}{r.Result, loggable(r.Content), r.IsError}); err != nil {
		fmt.Fprintf(h, "%+v", r)
	}
	h.Write(r.Metadata)
	return [32]byte(h.Sum(nil))
}

// Answer answers a permission or a question. ErrInvalid leaves it open.
func (b *Bridge) Answer(owner, runID, requestID string, a Reply) error {
	p, err := b.find(owner, runID, requestID)
	if err != nil {
		return err
	}
	var r resolution
	if p.r.Kind == events.KindPermission {
		r, err = p.decide(a)
	} else {
		r, err = p.value(a)
	}
	if err != nil {
		return err
	}
	if !b.resolve(p, r) {
		return ErrAnswered
	}
	return nil
}

// find is the open permission or question of that id.
func (b *Bridge) find(owner, runID, id string) (*Pending, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.open[id]; p != nil && p.s.c.Owner == owner && p.s.c.RunID == runID && p.r.Kind != events.KindTool {
		return p, nil
	}
	if old, ok := b.past.get(id); ok && old.owner == owner && old.runID == runID && old.kind != events.KindTool {
		return nil, ErrAnswered
	}
	return nil, ErrNotFound
}

// decide turns the chosen option into a resolution.
func (p *Pending) decide(a Reply) (resolution, error) {
	out := events.Answer{By: byHost, Message: a.Message}
	switch a.Option {
	case events.AllowOnce, events.AllowAlways:
		out.Outcome = events.OutcomeAllowed
	case events.Deny:
		out.Outcome = events.OutcomeDenied
	default:
		return resolution{}, fmt.Errorf("%w: option %q is none of %s, %s, %s", ErrInvalid, a.Option, events.AllowOnce, events.AllowAlways, events.Deny)
	}
	logged := out
	r := resolution{answer: out, logged: &logged}
	if out.Outcome == events.OutcomeDenied && out.Message == "" {
		r.answer.Message = "denied by the user" // the model has to be told something
	}
	if out.Outcome == events.OutcomeAllowed && (a.Remember || a.Option == events.AllowAlways) {
		r.after = func() { p.s.c.Memory.add(p.r.Tool, p.r.Input) }
	}
	return r, nil
}

// value turns the given value into a resolution.
func (p *Pending) value(a Reply) (resolution, error) {
	v := a.Value
	switch {
	case len(v) == 0 && a.Message != "":
		v = textValue(p.r.Schema, a.Message)
	case len(v) == 0:
		return resolution{}, fmt.Errorf("%w: a question takes a value", ErrInvalid)
	case !json.Valid(v):
		return resolution{}, fmt.Errorf("%w: the value is not JSON", ErrInvalid)
	}
	if why := Misfit(p.r.Schema, v); why != "" {
		return resolution{}, fmt.Errorf("%w: value: %s", ErrInvalid, why)
	}
	return resolution{answer: answered(v, byHost)}, nil
}

// ReplyText answers a question with the user's words; the oldest open one
// when requestID is "". The words are taken as they are, whatever the schema
// says: a user can't be asked to write JSON.
func (b *Bridge) ReplyText(owner, runID, requestID, text string, _ json.RawMessage) error {
	for {
		p, err := b.question(owner, runID, requestID)
		if err != nil {
			return err
		}
		v := textValue(p.r.Schema, text)
		if b.resolve(p, resolution{answer: answered(v, byHost)}) {
			return nil
		}
		if requestID != "" {
			return ErrAnswered
		}
	}
}

// question finds the question that a text answers.
func (b *Bridge) question(owner, runID, id string) (*Pending, error) {
	if id != "" {
		p, err := b.find(owner, runID, id)
		if err == nil && p.r.Kind != events.KindQuestion {
			return nil, fmt.Errorf("%w: %s is a permission, which takes an option", ErrInvalid, id)
		}
		return p, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[runID]
	if s == nil || s.c.Owner != owner {
		return nil, ErrNotFound
	}
	for _, p := range s.all {
		if p.state == stateOpen && p.r.Kind == events.KindQuestion {
			return p, nil
		}
	}
	return nil, ErrAnswered
}

// textValue makes the value that text means under a schema: where the answer
// is an object of one text, that text; where it is a text, the text; else
// JSON, if the text is JSON.
func textValue(schema json.RawMessage, text string) json.RawMessage {
	var s struct {
		Type       any                   `json:"type"`
		Properties map[string]typeHolder `json:"properties"`
	}
	_ = json.Unmarshal(schema, &s) // an odd schema is no schema
	quotedText, _ := json.Marshal(text)
	if len(s.Properties) == 1 {
		for name, prop := range s.Properties {
			if prop.Type == "string" {
				out, _ := json.Marshal(map[string]json.RawMessage{name: quotedText})
				return out
			}
		}
	}
	if s.Type != "string" && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return quotedText
}

type typeHolder struct {
	Type any `json:"type"`
}
