package copilot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"innerd/backends"
	"innerd/events"
)

const (
	defaultGrace = 3 * time.Second
	idleGrace    = 150 * time.Millisecond // between the model's stop and the session's quiet
	saveLimit    = 2 * time.Second        // for copilot to write a session
)

// Run implements backends.Conversation.
func (c *conversation) Run(ctx context.Context, in backends.Input, h backends.Host) (backends.Outcome, error) {
	if err := c.begin(); err != nil {
		return backends.Outcome{}, err
	}
	defer c.running.Done()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if ctx.Err() != nil {
		return backends.Outcome{}, canceledOr(ctx, nil)
	}
	prompt, err := c.prompt(in.History, in.Parts)
	if err != nil {
		return backends.Outcome{}, err
	}
	c.last = in.Set
	p, notices, err := c.ready(ctx, &in.Set)
	if err != nil {
		return backends.Outcome{}, canceledOr(ctx, err)
	}
	h.Emit(events.Event{}) // it lives: the start is over
	for _, n := range notices {
		h.Emit(events.Event{Data: n})
	}
	if ctx.Err() != nil {
		return backends.Outcome{}, canceledOr(ctx, nil)
	}
	t := newTurn(ctx, fail, c, p, h, &in.Set)
	c.attach(t)
	if err := t.send(prompt, in.Set.Schema); err != nil && p.peer.Err() == nil { // its end is seen below
		c.detachTurn()
		t.settle()
		return backends.Outcome{}, &backends.Error{Type: events.ErrInvalidRequest, Message: err.Error()}
	}
	c.await(ctx, p, t, in.Set.Background == backends.BackgroundWait)
	c.detachTurn()
	t.settle()
	return c.conclude(ctx, p, t, &in.Set)
}

// send begins the turn.
func (t *turn) send(in *prompt, schema json.RawMessage) error {
	params := sendParams{SessionID: t.c.session, Prompt: in.String(), Attachments: in.images}
	if len(schema) > 0 {
		params.ResponseFormat = &responseFormat{Type: "json_schema", JSONSchema: jsonSchema{Name: "answer", Schema: schema}}
	}
	_, err := t.in.add(t.first, func() error {
		answered := t.overdue("session.send", t.c.b.inputLimit)
		_, err := t.p.peer.Go("session.send", params, func(raw json.RawMessage, err error) {
			answered()
			t.sendAnswered(raw, err)
		})
		if err != nil {
			answered()
		}
		return err
	})
	return err
}

// await returns when the turn is over, or the process has ended, or the
// conversation was given up.
func (c *conversation) await(ctx context.Context, p *process, t *turn, wait bool) {
	stop, closing := ctx.Done(), c.closing
	var grace, rest <-chan time.Time
	rounds := 0
	for {
		select {
		case <-t.over:
			return
		case <-p.gone:
			return
		case <-t.idle:
			rest = time.After(idleGrace)
		case <-rest:
			rounds++
			rest = c.background(p, t, wait && stop != nil, rounds)
		case <-stop:
			stop, grace = nil, c.abort(t)
		case <-closing:
			closing, grace = nil, c.abort(t)
		case x := <-t.mute:
			t.deaf = c.unanswered(p, x)
			return
		case <-grace:
			c.unresponsive(p, t)
			return
		}
	}
}

// abort asks copilot to stop, and gives the end of its grace.
func (c *conversation) abort(t *turn) <-chan time.Time {
	t.abort()
	t.stop() // after the abort is queued: copilot hears that first
	grace := c.cfg.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	return time.After(grace)
}

// unresponsive: copilot did not stop when it was asked to. One that answers
// nothing is ended, with all that it has open; otherwise it is this session
// alone that is given up.
func (c *conversation) unresponsive(p *process, t *turn) {
	if !p.alive() {
		p.kill("copilot did not stop a turn when it was asked to")
		return
	}
	c.b.log.Warn("copilot did not stop a turn; giving the conversation up", "conversation", c.cfg.ID)
	p.remove(c.session) // what still comes is counted there
	c.giveUp()
}

// conclude is what the turn came to. Everything in it is ours now.
func (c *conversation) conclude(ctx context.Context, p *process, t *turn, set *backends.Settings) (backends.Outcome, error) {
	over := false
	select {
	case <-t.over: // also where the process has ended since
		over = true
	default:
	}
	out, err := c.verdict(ctx, p, t, over)
	cut := t.tr.cut()
	t.tr.end(err != nil)
	if leave := set.Background == backends.BackgroundWait && err == nil; !leave {
		c.endDetached(p, t.tellEnded)
	}
	if err == nil || t.tr.tally.any {
		t.emit(*t.tr.tally.usage(t.tr.model, time.Since(t.began), t.tr.first))
	}
	if ctx.Err() != nil || err != nil || t.halt.on() || t.unlisted > maxUnlisted {
		c.sweep(context.WithoutCancel(ctx), p)
	}
	if err != nil {
		return backends.Outcome{}, err
	}
	if len(set.Schema) > 0 && json.Valid([]byte(t.tr.last)) {
		out.Output = json.RawMessage(t.tr.last)
	}
	saved := p.call(context.WithoutCancel(ctx), saveLimit, "sessions.save", sessionOnly{c.session}, nil)
	if errors.Is(saved, errUnanswered) {
		p.deaf("sessions.save", saveLimit)
	}
	out.Stored = saved == nil && !cut // copilot remembers whole messages only
	return out, nil
}

func (c *conversation) verdict(ctx context.Context, p *process, t *turn, over bool) (backends.Outcome, error) {
	switch {
	case ctx.Err() != nil:
		return backends.Outcome{}, canceledOr(ctx, nil)
	case c.isClosed():
		return backends.Outcome{}, errClosed
	case t.deaf != nil:
		return backends.Outcome{}, t.deaf
	case !over:
		return backends.Outcome{}, processError(p)
	}
	return t.outcome()
}

// outcome is what a turn came to that copilot has ended.
func (t *turn) outcome() (backends.Outcome, error) {
	switch {
	case t.gaveUp != nil:
		return backends.Outcome{}, t.failed()
	case t.tr.err.empty() && t.tr.spoke(), t.tr.err == nil:
		return backends.Outcome{Reason: t.reason()}, nil
	}
	return backends.Outcome{}, t.failed()
}

// failed is the failure of the turn, with the time that a limit takes.
func (t *turn) failed() error {
	if t.gaveUp != nil && t.tr.failure == nil { // another request, a sub-agent's say, was answered since
		t.tr.failure = t.gaveUp
	}
	err := t.tr.error()
	if err.Type == events.ErrRateLimit || err.Type == events.ErrOverloaded {
		err.RetryAfter = t.p.retryAfter(t.tr.failedAt)
	}
	return err
}

// processError is how the process of a run ended.
func processError(p *process) error {
	var ended *backends.Error
	if errors.As(p.peer.Err(), &ended) {
		return ended
	}
	return &backends.Error{Type: events.ErrInternal, Message: "copilot did not stop its turn and was given up"}
}

// reason is why a turn ended that did not fail.
func (t *turn) reason() string {
	if t.limited && t.halt.on() {
		return backends.ReasonMaxTurns
	}
	return orElse(finishReason(t.tr.finish), backends.ReasonEndTurn)
}

// canceledOr prefers the cause of a cancel to what came of it.
func canceledOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("copilot was stopped: %w", context.Cause(ctx))
	}
	return err
}
