package host

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"innerd/adapter/api"
	"innerd/events"
)

// Outcome is what a run comes to, gathered from its events. Deltas and whole
// texts are kept apart, so that nothing stands twice. The zero value is ready.
type Outcome struct {
	TaskID  string
	Backend string

	Messages  []string // whole messages, in order; one that the agent took back is not among them
	Reasoning []string // whole blocks, likewise
	Shown     string   // all deltas of messages as they came: what a chat that only appends has shown
	Calls     []Call   // of the host's tools
	Usage     *events.Usage
	Failure   *events.Error
	State     string // events.Completed, Failed, Canceled; "" while it runs, or if its end was not seen
	Reason    string
	Output    json.RawMessage // what a response_format asked for
	Fallback  *Fallback       // of an InnerLoop whose native loop answered

	shown   strings.Builder
	open    block // message
	thought block
	ids     []string // of Messages
	blocks  []string // of Reasoning
}

// block is a text that is not closed yet.
type block struct {
	id   string
	text strings.Builder
	is   bool
}

func (b *block) add(id, delta string) {
	if !b.is || b.id != id {
		*b = block{id: id, is: true}
	}
	b.text.WriteString(delta)
}

func (b *block) close() { *b = block{} }

// Call is a call of a host's tool.
type Call struct {
	ID, Tool  string
	Arguments json.RawMessage
	Done      bool // it was resolved; the rest says how
	Result    string
	Content   []events.Part
	IsError   bool
}

// Collect reads a stream to its end. The Outcome is there also with an error,
// as far as it came; a run that failed is no error (see Err).
func Collect(stream iter.Seq2[events.Event, error]) (*Outcome, error) {
	o := &Outcome{}
	for ev, err := range stream {
		if err != nil {
			return o, err
		}
		o.Add(ev)
	}
	return o, nil
}

// Add takes the next event.
func (o *Outcome) Add(ev events.Event) {
	switch d := ev.Data.(type) {
	case events.TaskID:
		o.TaskID, o.Backend = d.TaskID, d.Backend
	case events.MessageDelta:
		o.open.add(d.MessageID, d.Delta)
		o.shown.WriteString(d.Delta)
		o.Shown = o.shown.String()
	case events.Message:
		o.Messages, o.ids = append(o.Messages, d.Content), append(o.ids, d.MessageID)
		o.open.close()
	case events.ReasoningDelta:
		o.thought.add(d.ReasoningID, d.Delta)
	case events.Reasoning:
		o.Reasoning, o.blocks = append(o.Reasoning, d.Content), append(o.blocks, d.ReasoningID)
		o.thought.close()
	case events.Discarded:
		o.discard(d)
	case events.ToolRequest:
		o.Calls = append(o.Calls, Call{ID: d.ToolCallID, Tool: d.ToolName, Arguments: d.Arguments})
	case events.ToolResolved:
		o.resolved(d)
	case *Fallback:
		o.Fallback = d
	default:
		o.ending(ev)
	}
}

func (o *Outcome) ending(ev events.Event) {
	switch d := ev.Data.(type) {
	case events.Usage:
		o.Usage = &d
	case events.Error:
		o.Failure = &d
	case events.End:
		o.State, o.Reason, o.Output = d.State, d.Reason, d.Output
	}
}

func (o *Outcome) resolved(d events.ToolResolved) {
	for i := range o.Calls {
		if c := &o.Calls[i]; c.ID == d.ToolCallID {
			c.Done, c.Result, c.Content = true, d.Result, d.Content
			c.IsError = d.IsError || d.Outcome != events.OutcomeOK
		}
	}
}

// discard takes back a text, open or closed.
func (o *Outcome) discard(d events.Discarded) {
	if d.MessageID != "" {
		if o.open.id == d.MessageID {
			o.open.close()
		}
		o.Messages, o.ids = drop(o.Messages, o.ids, d.MessageID)
	}
	if d.ReasoningID != "" {
		if o.thought.id == d.ReasoningID {
			o.thought.close()
		}
		o.Reasoning, o.blocks = drop(o.Reasoning, o.blocks, d.ReasoningID)
	}
}

func drop(texts, ids []string, id string) (t, i []string) {
	if at := slices.Index(ids, id); at >= 0 {
		return slices.Delete(texts, at, at+1), slices.Delete(ids, at, at+1)
	}
	return texts, ids
}

// Text is all that was said: the whole messages, and one that was cut, with a
// blank line between them.
func (o *Outcome) Text() string {
	all := slices.Clone(o.Messages)
	if o.open.is && o.open.text.Len() > 0 {
		all = append(all, o.open.text.String())
	}
	return strings.Join(all, "\n\n")
}

// Final is the last whole message: the answer, where what came before it was
// said between tools.
func (o *Outcome) Final() string {
	if len(o.Messages) == 0 {
		return ""
	}
	return o.Messages[len(o.Messages)-1]
}

// Err is nil where the run completed, else says how it ended.
func (o *Outcome) Err() error {
	switch {
	case o.State == events.Completed:
		return nil
	case o.Failure != nil:
		return &Error{ErrorType: o.Failure.ErrorType, Detail: o.Failure.Message, RetryAfter: seconds(o.Failure.RetryAfterS)}
	case o.State == "":
		return &Error{ErrorType: TypeBroken, Detail: "the end of the run was not seen"}
	}
	return &Error{ErrorType: events.ErrInternal, Detail: fmt.Sprintf("the run ended as %s: %s", o.State, o.Reason)}
}

// History is what happened as messages, for whoever goes on with the
// conversation: what was said, and the calls with their results.
func (o *Outcome) History() []api.Message {
	var out []api.Message
	if text := o.Text(); text != "" {
		out = append(out, api.AssistantText(text))
	}
	for _, c := range o.Calls {
		if !c.Done {
			continue
		}
		out = append(out,
			api.Message{Role: api.RoleAssistant, ToolCalls: []api.ToolCall{{ID: c.ID, Name: c.Tool, Arguments: c.Arguments}}},
			api.Message{Role: api.RoleTool, ToolName: c.Tool, ToolCallID: c.ID, Content: c.text(), ToolError: c.IsError})
	}
	return out
}

func (c *Call) text() string {
	if len(c.Content) == 0 {
		return c.Result
	}
	var words []string
	for _, p := range c.Content {
		switch {
		case p.Text != "":
			words = append(words, p.Text)
		case len(p.JSON) > 0:
			words = append(words, string(p.JSON))
		default:
			words = append(words, "["+p.Type+" "+p.Name+"]")
		}
	}
	return strings.Join(words, "\n")
}
