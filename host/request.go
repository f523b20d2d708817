package host

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"

	"innerd/adapter/api"
	"innerd/events"
)

// Request is a run to start: what is sent, and what the host does for it.
//
// Stream changes two fields that are absent: Metadata.TaskID, so that the
// start can be repeated, and Metadata.Events, which becomes "all".
type Request struct {
	api.Request

	// Tools are lent to the agent, beside Metadata.Tools, which nobody here runs.
	// Sensitive ones are not offered.
	Tools []ToolDef

	// Permission decides where Metadata.PermissionMode is "ask". Its error
	// denies. Nil: nobody answers, and the server denies after its own time.
	Permission func(context.Context, events.PermissionRequest) (Decision, error)

	// Question answers where Metadata.Interactive is set: with JSON that fits
	// the question's schema; it is asked again, with the reason, until it does.
	// After an error the question stays open. Nil: nobody answers, and the run
	// fails after the server's own time.
	Question func(context.Context, Question) (json.RawMessage, error)

	// Fallback is set where an InnerLoop hands the request to the native loop:
	// why, and what was said before. Clients do not look at it.
	Fallback *Fallback
}

// Prompt makes the request of one user message in a conversation.
func Prompt(contextID, text string) Request {
	return Request{Request: api.Request{ContextID: contextID, Messages: []api.Message{api.UserText(text)}}}
}

// startBody is a request made ready for the wire.
type startBody struct {
	json   []byte
	taskID string
	attach bool                   // the task id is the caller's: the run may exist already
	keep   func(events.Type) bool // nil: all types
}

func (r *Request) start() (*startBody, error) {
	w, err := r.wire()
	if err != nil {
		return nil, err
	}
	b := &startBody{taskID: w.Metadata.TaskID, attach: w.Metadata.TaskID != ""}
	if !b.attach {
		b.taskID = newTaskID()
		w.Metadata.TaskID = b.taskID
	}
	if len(w.Metadata.Events) == 0 {
		w.Metadata.Events = api.Events{api.EventsAll}
	}
	b.keep = w.Metadata.Filter()
	raw, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("host: request: %w", err)
	}
	b.json = raw
	return b, nil
}

// wire is the request with the tools in its metadata.
func (r *Request) wire() (api.Request, error) {
	w := r.Request
	if w.Messages == nil {
		w.Messages = []api.Message{}
	}
	w.Metadata.Tools = slices.Clone(w.Metadata.Tools)
	for i := range r.Tools {
		if r.Tools[i].Sensitive {
			continue
		}
		t, err := r.Tools[i].offer()
		if err != nil {
			return w, err
		}
		if slices.ContainsFunc(w.Metadata.Tools, func(o api.Tool) bool { return o.Name == t.Name }) {
			return w, fmt.Errorf("host: two tools are called %s", t.Name)
		}
		w.Metadata.Tools = append(w.Metadata.Tools, t)
	}
	return w, nil
}

// newTaskID is 130 random bits.
func newTaskID() string { return "t-" + rand.Text() }
