package claudecode

import (
	"context"
	"fmt"

	"innerd/backends"
	"innerd/events"
)

// compactCommand is claude's own, which it takes as a message of the user.
const compactCommand = "/compact"

// compaction is how far a compaction came.
type compaction struct {
	failed string // claude's own words
	done   bool   // claude's memory is shorter
}

// line takes what claude says of the compaction: nothing of its inside is
// anybody's answer.
func (x *compaction) line(t *turn, l *line) {
	switch {
	case l.Type == lineSystem:
		t.tr.system(l)
		x.done = x.done || l.CompactResult == "success"
		if l.CompactError != "" {
			x.failed = l.CompactError
		}
	case l.Type == lineAssistant && l.CommandOutcome.Kind == "failed":
		if x.failed == "" {
			x.failed = textOf(l.Message.Content)
		}
	case l.Type == lineLifecycle:
		t.lifecycle(l)
	case l.Type == lineResult:
		t.result = &l.result
		t.answered(&l.result)
	}
}

// Compact implements backends.Compacter.
func (c *conversation) Compact(ctx context.Context) error {
	if err := c.begin(); err != nil {
		return err
	}
	defer c.running.Done()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if ctx.Err() != nil {
		return canceledOr(ctx, nil)
	}
	if !c.told {
		return &backends.Error{Type: events.ErrInvalidRequest, Message: "the conversation has not begun: there is nothing to compact"}
	}
	p := c.current()
	if p == nil { // resumed, and not asked anything yet
		var err error
		if p, _, err = c.launched(ctx, launchOf(&backends.Settings{}, c.login.Model), nil, nil); err != nil {
			return canceledOr(ctx, err)
		}
	}
	t := c.newTurn(ctx, fail, strayHost{c.cfg.Stray}, newUUID(), &backends.Settings{})
	t.compact = &compaction{}
	p.attach(t)
	if err := p.command(t.uuid, compactCommand); err != nil {
		p.detach()
		t.settle()
		return canceledOr(ctx, c.ended(p, err))
	}
	c.await(ctx, p, t)
	t.settle()
	c.seal()
	return c.compacted(ctx, p, t)
}

func (c *conversation) compacted(ctx context.Context, p *process, t *turn) error {
	select {
	case <-t.over:
	default:
		p.detach()
	}
	x := t.compact
	switch {
	case x.done:
		return nil
	case ctx.Err() != nil:
		return canceledOr(ctx, nil)
	case t.deaf != nil:
		return t.deaf
	case t.result == nil && !t.withdrawn:
		return crashed(backends.Exit(p.child.Exit()), true)
	case x.failed == "":
		x.failed = "claude did not compact the conversation"
	}
	f := failure{text: x.failed}
	e := &backends.Error{Type: f.class(), Message: x.failed}
	if classOfText(x.failed) == "" && t.tr.failure == nil {
		e.Type = events.ErrInvalidRequest
	}
	return e
}

// strayHost is for what claude says outside of a run.
type strayHost struct{ stray func(events.Event) }

func (h strayHost) Emit(e events.Event) {
	if h.stray != nil && e.Data != nil {
		h.stray(e)
	}
}

// Request implements backends.Host: nobody is there to answer.
func (h strayHost) Request(context.Context, events.Request) backends.Pending { return nobody{} }

type nobody struct{}

func (nobody) Wait() (events.Answer, error) {
	return events.Answer{Outcome: events.OutcomeCanceled}, nil
}

// compactStatus shows a compaction that claude does, by itself or on request.
func (t *translator) compactStatus(l *line) {
	switch {
	case l.Status == "compacting":
		t.emit(events.Status{State: events.StateCompacting})
	case l.CompactResult == "failed":
		t.emit(events.Status{State: events.StateNotice, Detail: "claude could not shorten its memory: " + l.CompactError})
	case l.Subtype == "compact_boundary":
		t.emit(events.Status{State: events.StateWorking, Detail: fmt.Sprintf(
			"claude has shortened its memory from %d to %d tokens", int64(l.Compacted.Before), int64(l.Compacted.After))})
	}
}
