package api

import (
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
	if err := syntaxError(body); err != nil {
		return err
	}
	if kind(body) != '{' {
		return fieldErr("body", "must be an object, not %s", kindName(body))
	}
	var contextID, list, metadata []byte
	for w := walkIn(body); w.next(); {
		switch string(fieldOf(w.key)) {
		case "context_id":
			contextID = w.val
		case "messages":
			list = w.val
		case "metadata":
			metadata = w.val
		}
	}
	var err error
	if r.Messages, err = decodeMessages(list); err != nil {
		return err
	}
	if r.ContextID, err = optString("context_id", contextID); err != nil {
		return err
	}
	if n := len(r.ContextID); n > MaxContextID {
		return fieldErr("context_id", "is %d bytes long, at most %d are allowed", n, MaxContextID)
	}
	return r.Metadata.decode(metadata)
}

// OwnContext reports whether the run shall have a conversation of its own.
func (r *Request) OwnContext() bool { return r.ContextID == "" || r.ContextID == "default" }

// decodeMessages reads a list of messages, of valid JSON; null is none. A fault
// is a *FieldError that names its place in the list.
func decodeMessages(raw []byte) ([]Message, error) {
	if absent(raw) {
		return nil, nil
	}
	if kind(raw) != '[' {
		return nil, fieldErr("messages", "must be a list, not %s", kindName(raw))
	}
	list := elements(raw)
	n := 0
	for i, item := range list {
		switch kind(item) {
		case '{':
			n++
		case 'n':
		default:
			return nil, fieldErr(fmt.Sprintf("messages[%d]", i), "must be an object, not %s", kindName(item))
		}
	}
	if n == 0 {
		return nil, nil
	}
	out := make([]Message, 0, n)
	for _, item := range list {
		if kind(item) == '{' {
			out = append(out, Message{})
			out[len(out)-1].decode(item)
		}
	}
	return out, nil
}

// Prompt is what the host's own A2A tool asks where it sends no messages.
func (m *Metadata) Prompt() string {
	if strings.TrimSpace(m.Context) == "" {
		return m.Query
	}
	return m.Query + "\n\nContext:\n" + m.Context
}
