package copilot

import (
	"context"
	"encoding/json"
	"strings"

	"innerd/backends"
	"innerd/events"
)

// Steer implements backends.Steerer. Copilot takes what comes when the model
// request under way is answered.
func (c *conversation) Steer(ctx context.Context, parts []events.Part) error {
	t := c.current()
	if t == nil {
		return backends.ErrTooLate
	}
	in, err := c.prompt("", parts)
	if err != nil {
		return err
	}
	if err := t.until(ctx, t.first); err != nil {
		return err
	}
	x := newInput(plain(parts), true)
	params := sendParams{SessionID: c.session, Prompt: in.String(), Attachments: in.images, Mode: modeImmediate}
	ok, err := t.in.add(x, func() error {
		answered := t.steerOverdue(x)
		_, err := t.p.peer.Go("session.send", params, func(raw json.RawMessage, err error) {
			answered()
			t.steerAnswered(x, raw, err)
		})
		if err != nil {
			answered()
		}
		return err
	})
	switch {
	case err != nil:
		return callError(ctx, err, events.ErrInvalidRequest)
	case !ok:
		return backends.ErrTooLate
	}
	return t.until(ctx, x)
}

// until waits until copilot has begun with an input.
func (t *turn) until(ctx context.Context, x *input) error {
	select {
	case <-x.taken:
		return nil
	case err := <-x.refused:
		return callError(ctx, err, events.ErrInvalidRequest)
	case <-t.over:
	case <-t.p.gone:
	case <-t.c.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-x.taken: // in the same moment
		return nil
	default:
		return backends.ErrTooLate
	}
}

// steerOverdue fails a steer that is not answered in time. The turn goes on, if
// anything does.
func (t *turn) steerOverdue(x *input) (answered func()) {
	call := unheard{"session.send", t.c.b.inputLimit, t.p.heardBeside(t.c)}
	return backends.Overdue(call.limit, t.p.peer.Handling, func() {
		t.steerAnswered(x, nil, &backends.Error{Type: events.ErrTimeout, Message: unansweredWords(call.method, call.limit)})
		if !t.p.alive() {
			t.tellMute(call)
		}
	})
}

// steerAnswered takes the answer to the send of a steer, or that there is none.
func (t *turn) steerAnswered(x *input, raw json.RawMessage, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.in.drop(x, err)
		if (t.quiet || t.putOff) && !t.ended && t.in.settled() { // its end was put off for this
			t.quiet = true
			select {
			case t.idle <- struct{}{}:
			default:
			}
		}
		return
	}
	if t.in.named(x, messageID(raw)) {
		t.steered(x)
	}
}

func plain(parts []events.Part) string {
	var text []string
	for _, p := range parts {
		if p.Type == events.PartText {
			text = append(text, p.Text)
		}
	}
	return strings.Join(text, "\n")
}
