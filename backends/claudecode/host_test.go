package claudecode_test

import (
	"context"

	"innerd/backends"
	"innerd/events"
)

// governed is a backend whose runs answer permissions as their mode says, as
// the real Host does: the suite's host only gives the answers of its cases.
type governed struct{ backends.Backend }

func (g governed) Open(ctx context.Context, cfg backends.Config) (backends.Conversation, error) {
	c, err := g.Backend.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return governedConversation{c}, nil
}

type governedConversation struct{ backends.Conversation }

func (g governedConversation) Run(ctx context.Context, in backends.Input, h backends.Host) (backends.Outcome, error) {
	if in.Set.Permission != backends.PermissionAsk {
		h = autoHost{h}
	}
	return g.Conversation.Run(ctx, in, h)
}

type autoHost struct{ backends.Host }

func (a autoHost) Request(ctx context.Context, r events.Request) backends.Pending {
	if r.Kind == events.KindPermission {
		return answered{events.Answer{Outcome: events.OutcomeAllowed, By: "policy"}}
	}
	return a.Host.Request(ctx, r)
}

type answered struct{ a events.Answer }

func (a answered) Wait() (events.Answer, error) { return a.a, nil }
