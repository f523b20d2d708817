package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"innerd/backends"
	"innerd/backends/internal/rpc"
	"innerd/backends/internal/told"
	"innerd/events"
)

const (
	defaultGrace = 3 * time.Second
	// calmLimit is how long what was ended with its turn may take to say so.
	calmLimit = 700 * time.Millisecond
	// waitLimit is how long work in the background is waited for.
	waitLimit = 10 * time.Minute
)

// Run implements backends.Conversation.
func (c *conversation) Run(ctx context.Context, in backends.Input, h backends.Host) (backends.Outcome, error) {
	if err := c.begin(); err != nil {
		return backends.Outcome{}, err
	}
	defer c.running.Done()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	o, err := parseOptions(in.Set.Options)
	if err != nil {
		return backends.Outcome{}, &backends.Error{Type: events.ErrInvalidRequest, Message: err.Error()}
	}
	content, err := c.content(&in)
	if err != nil {
		return backends.Outcome{}, err
	}
	model, foreign := c.login.chooseModel(in.Set.Model)
	pick, known := told.ChoiceOf(in.Set.ToolChoice)
	ts := newToolset(pick.Offered(in.Set.Tools))
	if words := pick.Words(ts.listed); words != "" {
		content = append(content, textInput(words))
	}
	want := c.setupOf(&in.Set, ts, o)
	effort := effortOf(&in.Set)
	if effort == "" && c.effort != "" {
		c.set = setup{} // what was set stays set, until the thread is loaded anew
	}
	s, err := c.server(ctx)
	if err == nil {
		defer s.known()
		err = c.ready(ctx, s, want, model)
	}
	if err != nil {
		return backends.Outcome{}, canceledOr(ctx, err)
	}
	if ctx.Err() != nil {
		return backends.Outcome{}, canceledOr(ctx, nil)
	}
	if foreign != "" {
		h.Emit(status(events.StateNotice, "the model "+foreign+" is not one of Codex's; using "+orElse(model, "its default")))
	}
	if !known {
		h.Emit(status(events.StateNotice, "this tool_choice is not known, and is ignored: "+excerpt(string(in.Set.ToolChoice))))
	}
	c.effort = effort
	p := turnParams{
		ThreadID: c.thread, Input: content, Model: orElse(model, c.model), Effort: effort,
		Summary: orElse(o.ReasoningSummary, "auto"), Schema: in.Set.Schema,
	}
	t := newTurn(ctx, fail, c, s, h, ts, &in.Set)
	t.tr.model, t.noTools = p.Model, pick.Mode == told.None
	for n := 1; ; n++ {
		more := c.round(ctx, s, t, p, n == maxRounds)
		if len(more) == 0 {
			return c.conclude(ctx, s, t)
		}
		p.Input = more
		t = t.after(newTurn(ctx, fail, c, s, h, ts, &in.Set))
	}
}

// maxRounds is how often a run goes on because something in the background
// has ended.
const maxRounds = 20

// round is one turn of codex's, and what is left of it. It returns what the
// model is to be told then: how the work ended that the run has waited for.
func (c *conversation) round(ctx context.Context, s *server, t *turn, p turnParams, last bool) []userInput {
	c.attach(t)
	t.send(p)
	c.await(ctx, s, t)
	more := c.wait(ctx, s, t)
	t.settle()
	c.rest(ctx, s, t)
	if last || ctx.Err() != nil {
		more = nil
	}
	c.ended.Add(t.ids()...)
	c.attach(nil)
	t.finish(len(more) == 0)
	return more
}

func (c *conversation) attach(t *turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn = t
}

// await returns when the turn is over, or can't be waited for any more.
func (c *conversation) await(ctx context.Context, s *server, t *turn) {
	select {
	case <-t.over:
		return
	case <-s.gone():
		return
	case x := <-t.mute:
		t.end()
		t.deaf = c.unanswered(s, x, t.heard)
		return
	case <-ctx.Done():
	case <-c.done: // closed beside the run
	}
	heard := s.heardBeside(c)
	grace := c.cfg.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	limit := time.NewTimer(grace)
	defer limit.Stop()
	select { // before it has begun, codex refuses to stop it and goes on
	case <-t.started:
		t.interrupt()
	case <-t.over:
	case <-s.gone():
	case <-limit.C:
		limit.Reset(0) // it is over below too
	}
	t.end() // after the interrupt is queued: codex hears that first
	select {
	case <-t.over:
	case <-s.gone():
	case <-limit.C:
		c.abandon(s, "codex did not stop a turn when it was asked to", heard)
	}
}

// abandon is for a process that does not do what it was asked to: one of the
// conversation's own is ended; one that others share only if it is dead to them
// too, and else it is the conversation alone that is given up. heard is what
// had come for others when it was asked.
func (c *conversation) abandon(s *server, why string, heard int64) (killed bool) {
	if !s.alone() && s.alive(func() bool { return s.heardBeside(c) != heard }) {
		c.b.log.Error(why+"; its conversation is given up", "conversation", c.cfg.ID)
		for _, id := range s.detach(c) { // Close knows them no more
			_, _ = s.peer.Go("thread/backgroundTerminals/clean", threadRef{ThreadID: id}, func(json.RawMessage, error) {})
			_, _ = s.peer.Go("thread/unsubscribe", threadRef{ThreadID: id}, func(json.RawMessage, error) {})
		}
		c.giveUp()
		c.sweep(s)
		return false
	}
	c.b.log.Warn(why+"; ending it", "conversation", c.cfg.ID)
	s.kill(why + "; it was ended")
	<-s.gone()
	return true
}

// wait waits for what still runs when the turn is over, if the host wants
// that, and returns what the model is to be told of it. What runs may ask the
// host as before.
func (c *conversation) wait(ctx context.Context, s *server, t *turn) []userInput {
	if t.background != backends.BackgroundWait || !t.completed() || ctx.Err() != nil {
		return nil
	}
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	select {
	case <-t.calm:
		return t.late()
	case <-s.gone():
	case <-limit.C:
	case <-ctx.Done():
	case <-c.done:
	}
	return nil
}

// rest ends what still runs when the turn is over.
func (c *conversation) rest(ctx context.Context, s *server, t *turn) {
	select {
	case <-t.over:
	default:
		return // there is no process, or none that listens
	}
	cut := !t.completed() || ctx.Err() != nil
	below := len(t.agents()) > 0
	if cut || !t.isCalm() {
		c.endBackground(s, t)
	}
	if cut || below {
		c.sweep(s)
	}
}

// endBackground ends shells and sub-agents, and hears of their end.
func (c *conversation) endBackground(s *server, t *turn) {
	for _, a := range t.agents() {
		_, _ = s.peer.Go("turn/interrupt", a, func(json.RawMessage, error) {})
		_, _ = s.peer.Go("thread/backgroundTerminals/clean", threadRef{ThreadID: a.ThreadID}, func(json.RawMessage, error) {})
	}
	_, _ = s.peer.Go("thread/backgroundTerminals/clean", threadRef{ThreadID: c.thread}, func(json.RawMessage, error) {})
	limit := time.NewTimer(calmLimit)
	defer limit.Stop()
	select {
	case <-t.calm:
	case <-s.gone():
	case <-limit.C:
	}
}

// conclude is what the turn came to.
func (c *conversation) conclude(ctx context.Context, s *server, t *turn) (backends.Outcome, error) {
	switch {
	case ctx.Err() != nil:
		return backends.Outcome{}, canceledOr(ctx, nil)
	case t.deaf != nil:
		return backends.Outcome{}, t.deaf
	case t.doom != nil:
		return backends.Outcome{}, t.doom
	case t.refused != nil:
		return backends.Outcome{}, c.refused(t.refused)
	case c.isClosed() && (t.result == nil || t.result.Status == "interrupted"):
		return backends.Outcome{}, errClosed
	case t.result == nil:
		return backends.Outcome{}, c.refused(s.peer.Err())
	}
	c.told = true
	reason, err := t.reason()
	if err != nil {
		return backends.Outcome{}, err
	}
	out := backends.Outcome{Reason: reason, Stored: true}
	if t.schema && json.Valid([]byte(t.tr.last)) {
		out.Output = json.RawMessage(t.tr.last)
	}
	return out, nil
}

// canceledOr prefers the cause of a cancel to what came of it.
func canceledOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("codex was stopped: %w", context.Cause(ctx))
	}
	return err
}

// Steer implements backends.Steerer.
func (c *conversation) Steer(ctx context.Context, parts []events.Part) error {
	c.mu.Lock()
	t := c.turn
	c.mu.Unlock()
	if t == nil {
		return backends.ErrTooLate
	}
	content, err := c.content(&backends.Input{Parts: parts})
	if err != nil {
		return err
	}
	select {
	case <-t.started:
	case <-t.over:
		return backends.ErrTooLate
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	heard := t.s.heard.Load()
	err = t.s.call(ctx, "turn/steer", steerParams{ThreadID: c.thread, Expected: t.turnID(), Input: content}, nil, nil)
	if errors.Is(err, errUnanswered) {
		return t.s.unsteered(heard)
	}
	var no *rpc.Error
	if errors.As(err, &no) {
		if strings.Contains(no.Message, "no active turn") || strings.Contains(no.Message, "expected active turn") {
			return backends.ErrTooLate
		}
		return refusal(no)
	}
	return err
}
