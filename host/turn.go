package host

import (
	"context"
	"errors"
	"iter"

	"innerd/adapter/api"
	"innerd/events"
)

// Sources that a server notes for a run.
const (
	SourceChat      = "chat"
	SourceCouncil   = "council"
	SourceSynthesis = "council-synthesis"
)

// Turn answers one message of a chat by an agent that is shared and always
// there, rather than one in a sandbox of its own: no tools are lent, and the
// agent's own are denied. Leaving the loop, or the end of ctx, cancels it.
func Turn(ctx context.Context, s Strategy, req Request) iter.Seq2[events.Event, error] {
	if len(req.Tools) > 0 || len(req.Metadata.Tools) > 0 {
		return func(yield func(events.Event, error) bool) {
			yield(events.Event{}, errors.New("host: a chat turn has no tools; use Stream or an InnerLoop"))
		}
	}
	req.Metadata.PermissionMode, req.Metadata.Detach, req.Metadata.Interactive = api.PermissionDeny, false, false
	if req.Metadata.Source == "" {
		req.Metadata.Source = SourceChat
	}
	return s.Respond(ctx, req)
}
