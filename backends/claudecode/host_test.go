package claudecode_test

import (
	"context"
	"encoding/json"

	"innerd/backends"
	"innerd/events"
)

// governed is a backend whose runs answer permissions by themselves where
// their options say so, as the real Host does in the mode auto: the suite's
// host only gives the answers of its cases.
type governed struct{ backends.Backend }

func (g governed) Open(ctx context.Context, cfg backends.Config) (backends.Conversation, error) {
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
	if string(in.Set.Options) == string(autoOptions) {
		h = autoHost{h}
	}
	return g.Conversation.Run(ctx, in, h)
}

var autoOptions = json.RawMessage(`{"test":"auto"}`)

type autoHost struct{ backends.Host }

func (a autoHost) Request(ctx context.Context, r events.Request) backends.Pending {
	if r.Kind == events.KindPermission {
		return answered{events.Answer{Outcome: events.OutcomeAllowed, By: "policy"}}
	}
	return a.Host.Request(ctx, r)
}

type answered struct{ a events.Answer }

func (a answered) Wait() (events.Answer, error) { return a.a, nil }
