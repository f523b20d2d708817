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
	Tools []Tool

	// Permission decides where Metadata.PermissionMode is "ask". Its error
	// denies. Nil: nobody answers, and the server denies after its own time.
	Permission func(context.Context, events.PermissionRequest) (Decision, error)

	// Question answers where Metadata.Interactive is set: with JSON that fits
	// the question's schema. After an error the question stays open. Nil:
	// nobody answers, and the run fails after the server's own time.
	Question func(context.Context, events.InputRequired) (json.RawMessage, error)
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
	w := r.wire()
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
func (r *Request) wire() api.Request {
	w := r.Request
	if w.Messages == nil {
		w.Messages = []api.Message{}
	}
	w.Metadata.Tools = slices.Clone(w.Metadata.Tools)
	for _, t := range r.Tools {
		w.Metadata.Tools = append(w.Metadata.Tools, api.Tool{
			Name: t.Name, Description: t.Description, Parameters: t.Schema, Serial: t.Serial,
		})
	}
	return w
}

// newTaskID is 130 random bits.
func newTaskID() string { return "t-" + rand.Text() }
