package claudecode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"innerd/backends"
	"innerd/backends/internal/told"
	"innerd/events"
)

const defaultGrace = 3 * time.Second

// Run implements backends.Conversation.
func (c *conversation) Run(ctx context.Context, in backends.Input, h backends.Host) (backends.Outcome, error) {
	if err := c.begin(); err != nil {
		return backends.Outcome{}, err
	}
	defer c.running.Done()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	run := c.enter()
	defer c.leave(run)
	content, err := c.content(&in)
	if err != nil {
		return backends.Outcome{}, err
	}
	pick, known := told.ChoiceOf(in.Set.ToolChoice)
	in.Set.Tools = pick.Offered(in.Set.Tools)
	if words := pick.Words(newToolset(in.Set.Tools).listed); words != "" && pick.Mode != told.None { // then it has none
		content = append(content, textBlock(words))
	}
	t := c.newTurn(ctx, fail, h, newUUID(), &in.Set)
	defer t.settle()
	if !known {
		t.notices = append(t.notices, "this tool_choice is not known, and is ignored: "+excerpt(in.Set.ToolChoice))
	}
	p, err := c.begun(ctx, &in, &opening{t, content})
	if err != nil {
		return backends.Outcome{}, canceledOr(ctx, err)
	}
	run.begin(p, t)
	c.await(ctx, p, t)
	t.settle()
	return c.conclude(ctx, p, t)
}

// begun gives the process that has the turn's input.
func (c *conversation) begun(ctx context.Context, in *backends.Input, first *opening) (*process, error) {
	p, sent, err := c.ready(ctx, in, first)
	if err != nil {
		return nil, err
	}
	if sent {
		c.told = true
		return p, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p.attach(first.t)
	c.told = true
	c.sent(first.t.uuid)
	if err := p.say(first.t.uuid, first.content); err != nil && !errors.Is(err, errEnded) { // its end is seen below
		p.detach()
		return nil, &backends.Error{Type: events.ErrInvalidRequest, Message: err.Error()}
	}
	return p, nil
}

// await returns when the turn is over, or the process has ended.
func (c *conversation) await(ctx context.Context, p *process, t *turn) {
	if c.awaitWork(ctx, p, t) {
		return
	}
	t.shut() // what is put in behind the interrupt would be a turn of nobody's
	_, _ = p.ask(interruptRequest{Subtype: "interrupt", CancelQueued: true}, nil)
	t.stopWaiting(p)
	t.end() // after the interrupt is queued: claude hears that first
	grace := c.cfg.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	limit := time.NewTimer(grace)
	defer limit.Stop()
	select {
	case <-t.over:
	case <-p.child.Done():
	case <-limit.C:
		c.b.log.Warn("claude did not stop when it was asked to; ending it", "conversation", c.cfg.ID)
		now, cancel := context.WithCancel(context.Background())
		cancel() // it has had its grace
		_ = p.child.Stop(now)
		<-p.child.Done()
	}
}

// conclude is what the turn came to. Everything in it is ours now.
func (c *conversation) conclude(ctx context.Context, p *process, t *turn) (backends.Outcome, error) {
	select {
	case <-t.over:
	default: // the process has ended
		p.detach()
		t.tr.lost()
	}
	defer c.seal()
	id := p.session()
	if made := c.forkOf != "" && c.resumes(); made || id != "" && id != c.session {
		if made { // from here on a copy that is gone is not made again: its source knows nothing of this turn
			c.forkOf, c.saved = "", ""
		}
		c.session = orElse(id, c.session)
		if err := c.save(); err != nil {
			return backends.Outcome{}, err
		}
	}
	if u := t.tally.usage(t.tr.model, time.Since(t.began)); u != nil {
		t.emit(*u)
	}
	if ctx.Err() != nil {
		return backends.Outcome{}, canceledOr(ctx, nil)
	}
	switch {
	case t.withdrawn && t.result == nil:
		return backends.Outcome{}, &backends.Error{Type: events.ErrInternal, Message: "claude dropped the input"}
	case t.deaf != nil:
		return backends.Outcome{}, t.deaf
	case t.cut() && c.isClosed():
		return backends.Outcome{}, errClosed
	case t.cut():
		return backends.Outcome{}, crashed(backends.Exit(p.child.Exit()), true)
	case t.err != nil:
		return backends.Outcome{}, t.err
	}
	return backends.Outcome{Reason: t.reason, Stored: true, Output: t.result.output()}, nil
}

// cut reports whether claude ended before the turn did.
func (t *turn) cut() bool {
	select {
	case <-t.over:
		return false
	default:
		return !t.gaveUp
	}
}

func (c *conversation) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// canceledOr prefers the cause of a cancel to what came of it.
func canceledOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("claude was stopped: %w", context.Cause(ctx))
	}
	return err
}

// reason is why a turn ended that did not fail.
func (t *translator) reason(r *result) string {
	switch r.Terminal {
	case "max_turns":
		return backends.ReasonMaxTurns
	case "budget_exhausted":
		return backends.ReasonMaxCost
	}
	if f := finishReason(t.stopReason(r)); f != "" {
		return f
	}
	return backends.ReasonEndTurn
}

func (r *result) output() []byte {
	if string(r.Structured) == "null" {
		return nil
	}
	return r.Structured
}
