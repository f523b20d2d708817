package host

import (
	"context"
	"iter"

	"innerd/events"
	"innerd/host/billing"
)

// Strategy is a way to answer a request: the events of one turn, to its
// session.end. An error, at most one and last, says that they are not whole.
// Respond may be called at the same time for several requests; what it started
// has ended when its loop has.
//
// There are two of them, a host's own loop (Native) and an agent on a server
// (Delegated), and InnerLoop, which is made of both.
type Strategy interface {
	Respond(ctx context.Context, req Request) iter.Seq2[events.Event, error]
}

// Native is the host's own loop as a Strategy. It speaks in the same events as
// an agent, as far as it has them; Say makes the least.
//
// As part of an InnerLoop it finds what a failed run did at the end of
// Messages, and in Fallback what the user has read of it. Its Tools are the
// request's: ToolDef.Call runs one.
type Native func(ctx context.Context, req Request) iter.Seq2[events.Event, error]

// Respond implements Strategy.
func (n Native) Respond(ctx context.Context, req Request) iter.Seq2[events.Event, error] {
	return n(ctx, req)
}

// Say makes the events of an answer that came as a whole, for native loops
// without a stream of their own: a message, its usage unless nil, the end.
func Say(text string, usage *events.Usage) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		all := []events.Data{
			events.MessageDelta{Delta: text, MessageID: "native"},
			events.Message{Content: text, MessageID: "native", FinishReason: "end_turn"},
		}
		if usage != nil {
			all = append(all, *usage)
		}
		for _, d := range append(all, events.End{State: events.Completed, Reason: "end_turn", Usage: usage}) {
			if !yield(events.Event{Data: d}, nil) {
				return
			}
		}
	}
}

// Delegated is an agent on a server as a Strategy: Client.Stream, with the
// usage kept back until the answer is complete and attributed to
// "a2a:<backend>", so that a host that bills every assistant.usage bills no
// answer that broke off, and none as its own.
func Delegated(c *Client, backend string) Strategy { return delegated{c, backend} }

type delegated struct {
	c       *Client
	backend string // where the request names none; "": the server's
}

func (d delegated) Respond(ctx context.Context, req Request) iter.Seq2[events.Event, error] {
	if req.Metadata.Backend == "" {
		req.Metadata.Backend = d.backend
	}
	return func(yield func(events.Event, error) bool) {
		backend := req.Metadata.Backend
		var usage *events.Event
		for ev, err := range d.c.Stream(ctx, req) {
			switch v := ev.Data.(type) {
			case events.TaskID:
				backend = v.Backend
			case events.Usage:
				v.Backend = attributed(v.Backend, backend)
				ev.Data, ev.Raw = v, nil
				usage = &ev
				continue
			case events.End:
				if usage != nil && v.State == events.Completed && !yield(*usage, nil) {
					return
				}
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// attributed is the name under which a run's usage is billed.
func attributed(own, backend string) string {
	if own == "" {
		own = backend
	}
	return billing.Attributed + own
}
