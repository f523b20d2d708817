package api

import (
	"encoding/json"
	"fmt"
	"strings"
)

// MaxContextID is the longest context_id, in bytes.
const MaxContextID = 512

// Request is the body of /message:stream and /message:send.
type Request struct {
	ContextID string    `json:"context_id,omitempty"`
	Messages  []Message `json:"messages"`
	Metadata  Metadata  `json:"metadata"`
}

// DecodeRequest reads the body of /message:*. A fault is a *FieldError, or the
// error of a body that is not JSON.
func DecodeRequest(body []byte) (*Request, error) {
	return NewHollow(body).Decode()
}

// UnmarshalJSON reads a request as DecodeRequest does.
func (r *Request) UnmarshalJSON(body []byte) error {
	got, err := DecodeRequest(body)
	if err != nil {
		return err
	}
	*r = *got
	return nil
}

func (r *Request) decode(body []byte) error {
	if len(body) == 0 {
		return fmt.Errorf("the body is empty")
	}
	if err := tooMany("body", body); err != nil {
		return err
	}
	if k := kind(body); k != '{' && k != 0 && json.Valid(body) {
		return fieldErr("body", "must be an object, not %s", kindName(body))
	}
	var w struct {
		ContextID json.RawMessage `json:"context_id"`
		Messages  messages        `json:"messages"`
		Metadata  json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return err
	}
	if w.Messages.fault != nil {
		return w.Messages.fault
	}
	*r = Request{Messages: w.Messages.list}
	id, err := optString("context_id", w.ContextID)
	if err != nil {
		return err
	}
	if len(id) > MaxContextID {
		return fieldErr("context_id", "is %d bytes long, at most %d are allowed", len(id), MaxContextID)
	}
	r.ContextID = id
	return r.Metadata.decode(w.Metadata)
}

// OwnContext reports whether the run shall have a conversation of its own.
func (r *Request) OwnContext() bool { return r.ContextID == "" || r.ContextID == "default" }

// messages remembers a fault instead of returning it, so that its place in the
// list can be named.
type messages struct {
	list  []Message
	fault error
}

func (m *messages) UnmarshalJSON(raw []byte) error {
	*m = messages{}
	switch kind(raw) {
	case 'n':
		return nil
	case '[':
	default:
		m.fault = fieldErr("messages", "must be a list, not %s", kindName(raw))
		return nil
	}
	var l []message
	if err := json.Unmarshal(raw, &l); err != nil {
		return err
	}
	for i, w := range l {
		switch {
		case w.bad != "":
			m.fault = fieldErr(fmt.Sprintf("messages[%d]", i), "must be an object, not %s", w.bad)
			return nil
		case w.msg != nil:
			m.list = append(m.list, *w.msg)
		}
	}
	return nil
}

type message struct {
	msg *Message
	bad string
}

func (m *message) UnmarshalJSON(raw []byte) error {
	switch kind(raw) {
	case 'n':
		return nil
	case '{':
		m.msg = &Message{}
		return m.msg.UnmarshalJSON(raw)
	}
	m.bad = kindName(raw)
	return nil
}

// Prompt is what the host's own A2A tool asks where it sends no messages.
func (m *Metadata) Prompt() string {
	if strings.TrimSpace(m.Context) == "" {
		return m.Query
	}
	return m.Query + "\n\nContext:\n" + m.Context
}
