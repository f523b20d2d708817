package backendtest

import (
	"context"
	"encoding/json"

	"innerd/backends"
	"innerd/events"
)

// AutoOptions are the options of runs whose permissions Governed answers.
var AutoOptions = json.RawMessage(`{"test":"auto"}`)

// Governed is a backend whose runs answer permissions by themselves where
// their options say so, as the real Host does in the mode auto: the suite's
// host only gives the answers of its cases.
type Governed struct{ backends.Backend }

// Open implements backends.Backend.
func (g Governed) Open(ctx context.Context, cfg backends.Config) (backends.Conversation, error) {
	c, err := g.Backend.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return governedConversation{c}, nil
}

type governedConversation struct{ backends.Conversation }

func (g governedConversation) Steer(ctx context.Context, parts []events.Part) error {
	return g.Conversation.(backends.Steerer).Steer(ctx, parts)
}

func (g governedConversation) Compact(ctx context.Context) error {
	return g.Conversation.(backends.Compacter).Compact(ctx)
}

func (g governedConversation) Run(ctx context.Context, in backends.Input, h backends.Host) (backends.Outcome, error) {
	if string(in.Set.Options) == string(AutoOptions) {
		h = AutoHost{h}
	}
	return g.Conversation.Run(ctx, in, h)
}

// AutoHost is a host that permits everything, and asks nobody.
type AutoHost struct{ backends.Host }

// Request implements backends.Host.
func (a AutoHost) Request(ctx context.Context, r events.Request) backends.Pending {
	if r.Kind == events.KindPermission {
		return permitted{}
	}
	return a.Host.Request(ctx, r)
}

type permitted struct{}

func (permitted) Wait() (events.Answer, error) {
	return events.Answer{Outcome: events.OutcomeAllowed, By: "policy"}, nil
}

// SlowHost is one whose log waits for its disk, from the first piece of a text on.
type SlowHost struct {
	backends.Host
	Waits   chan struct{} // closed when it does
	Release chan struct{} // closed by the test
}

// NewSlowHost makes one; a run's text must come in one piece.
func NewSlowHost(h backends.Host) SlowHost {
	return SlowHost{h, make(chan struct{}), make(chan struct{})}
}

// Emit implements backends.Host.
func (h SlowHost) Emit(e events.Event) {
	if e.Type() == events.TypeMessageDelta {
		close(h.Waits)
		<-h.Release
	}
	h.Host.Emit(e)
}
