package copilot

import (
	"context"
	"errors"

	"innerd/backends"
	"innerd/events"
)

// Compact implements backends.Compacter. A conversation that was only opened
// is resumed for it; one without a session has nothing to shorten.
func (c *conversation) Compact(ctx context.Context) error {
	if err := c.begin(); err != nil {
		return err
	}
	defer c.running.Done()
	if !c.begun {
		return nil
	}
	p, _, err := c.ready(ctx, &c.last)
	if errors.Is(err, backends.ErrNewSession) {
		return &backends.Error{Type: events.ErrInternal, Message: "copilot has lost the session; the next run begins a new one"}
	}
	if err != nil {
		return canceledOr(ctx, err)
	}
	var done struct {
		Success bool `json:"success"`
	}
	busy := func() bool { return p.peer.Handling() || p.alive() } // its model may take its time
	err = c.calling(ctx, p, "session.history.compact", sessionOnly{c.session}, &done, nil, busy)
	switch {
	case ctx.Err() != nil:
		p.tell("session.history.abortManualCompaction", sessionOnly{c.session})
		return canceledOr(ctx, nil)
	case err != nil:
		return callError(ctx, err, events.ErrOverloaded)
	case !done.Success:
		return &backends.Error{Type: events.ErrOverloaded, Message: "copilot could not shorten its memory"}
	}
	return nil
}
