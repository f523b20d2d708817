package toolbridge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"innerd/events"
)

// state of a pending request. It only grows.
type state int

const (
	stateNew  state = iota // not announced: just made, or held back behind another call of its tool
	stateOpen              // announced, answerable
	stateOver              // somebody has resolved it, or is about to log that
)

// Pending is a request that was made.
type Pending struct {
	s    *Session
	r    events.Request
	id   string
	tool *tool // nil: not a tool of the session

	ctx  context.Context
	done chan struct{}

	// Guarded by the bridge's mu.
	state    state
	stop     func() bool // ends the watch of ctx; nil before it began
	since    time.Time
	limit    time.Duration
	deadline time.Time // zero: none
	timer    *time.Timer

	// Written before done is closed, read after.
	answer events.Answer
	err    error
}

func newPending(s *Session, r events.Request) *Pending {
	p := &Pending{s: s, r: r, done: make(chan struct{})}
	if r.Kind == events.KindTool {
		p.id = newCallID()
		p.tool = s.tools[r.Tool]
	} else {
		p.id = newRequestID()
	}
	return p
}

// ID is the request's tool_call_id or request_id.
func (p *Pending) ID() string { return p.id }

// Wait blocks until the request is resolved, which its context, its limit or
// the session's end guarantee. The error is the cause of a cancel; the answer
// is whole all the same.
func (p *Pending) Wait() (events.Answer, error) {
	<-p.done
	return p.answer, p.err
}

// watch resolves p when its context ends.
func (p *Pending) watch() {
	b := p.s.b
	stop := context.AfterFunc(p.ctx, func() { b.resolve(p, canceled(context.Cause(p.ctx))) })
	b.mu.Lock()
	defer b.mu.Unlock()
	p.stop = stop
	if p.state == stateOver {
		stop()
	}
}

func (p *Pending) info() PendingInfo {
	return PendingInfo{
		Kind: p.r.Kind, ID: p.id, Tool: p.r.Tool, Input: p.r.Input,
		Message: p.r.Message, Schema: p.r.Schema, Since: p.since,
	}
}

// over is what is remembered of p.
func (p *Pending) over(body [32]byte) resolved {
	return resolved{id: p.id, owner: p.s.c.Owner, runID: p.s.c.RunID, kind: p.r.Kind, body: body}
}

// announcement is the event that shows p to the host.
func (p *Pending) announcement() events.Data {
	switch p.r.Kind {
	case events.KindPermission:
		return events.PermissionRequest{RequestID: p.id, Tool: p.r.Tool, Input: p.r.Input, Options: permissionOptions()}
	case events.KindQuestion:
		return events.InputRequired{RequestID: p.id, Message: p.r.Message, Schema: p.r.Schema}
	}
	return events.ToolRequest{
		ToolCallID: p.id, NativeID: p.r.NativeID, ToolName: p.r.Tool,
		Arguments: p.r.Input, DeadlineS: p.announced().Seconds(),
	}
}

// announced is the time that a tool call has, as the host is told: its own
// limit or what its context leaves, whichever is less. 0: none.
func (p *Pending) announced() time.Duration {
	end, ok := p.ctx.Deadline()
	if !ok {
		return p.limit
	}
	left := max(time.Until(end), time.Millisecond) // 0 would mean none
	if p.limit > 0 {
		return min(p.limit, left)
	}
	return left
}

// resolution is how a request ends: what the log says and what Wait returns.
type resolution struct {
	answer events.Answer
	err    error
	body   [32]byte // of the host's answer, for duplicates
	// logged is what the log gets instead of answer's own result: what the
	// host sent, word by word. Nil: answer.
	logged *events.Answer
	after  func() // between the log and the delivery
}

// event is the log's end of p.
func (p *Pending) event(r resolution) events.Data {
	a := r.answer
	if r.logged != nil {
		a = *r.logged
	}
	switch p.r.Kind {
	case events.KindPermission:
		return events.PermissionResolved{RequestID: p.id, Outcome: a.Outcome, By: a.By, Message: a.Message}
	case events.KindQuestion:
		return events.InputResolved{RequestID: p.id, Outcome: a.Outcome, Value: a.Value}
	}
	return events.ToolResolved{ToolCallID: p.id, Outcome: a.Outcome, Result: a.Result, Content: a.Content, IsError: a.IsError}
}

// resolve is the one door through which a request ends. The first caller
// wins and gets true when the log has the resolution and Wait has returned;
// to all others it is over. A request that was never announced is resolved
// without a word in the log.
func (b *Bridge) resolve(p *Pending, r resolution) bool {
	won, announced := b.claim(p, r.body)
	if !won {
		return false
	}
	if !announced {
		b.deliver(p, r)
		return true
	}
	s := p.s
	s.logMu.Lock()
	defer s.logMu.Unlock()
	s.log(p.event(r))
	s.notify(s.c.OnClose, p.r.Kind)
	if r.after != nil {
		func() {
			defer s.contain("OnExpired")
			r.after()
		}()
	}
	b.deliver(p, r)
	if next := b.nextOf(p.tool); next != nil {
		s.announceLogLocked(next)
	}
	return true
}

// claim makes the caller the one who resolves p.
func (b *Bridge) claim(p *Pending, body [32]byte) (won, announced bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.state == stateOver {
		return false, false
	}
	announced = p.state == stateOpen
	p.state = stateOver
	if p.timer != nil {
		p.timer.Stop()
	}
	if announced {
		delete(b.open, p.id)
		b.past.add(p.over(body))
	}
	return true, announced
}

func (b *Bridge) deliver(p *Pending, r resolution) {
	p.answer, p.err = r.answer, r.err
	b.mu.Lock()
	if p.stop != nil {
		p.stop()
	}
	p.s.all = slices.DeleteFunc(p.s.all, func(q *Pending) bool { return q == p })
	b.mu.Unlock()
	close(p.done)
}

// nextOf opens the next call of a serialised tool whose call is over.
func (b *Bridge) nextOf(t *tool) *Pending {
	if t == nil || !t.serial {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(t.queue) > 0 {
		p := t.queue[0]
		t.queue = t.queue[1:]
		if p.state == stateNew && !p.s.closed && p.ctx.Err() == nil {
			p.s.openLocked(p)
			return p
		}
	}
	t.busy = false
	return nil
}

// expire resolves a request whose time is over.
func (b *Bridge) expire(p *Pending) {
	limit := p.limit.Round(time.Millisecond)
	switch p.r.Kind {
	case events.KindPermission:
		b.resolve(p, resolution{answer: events.Answer{
			Outcome: events.OutcomeExpired, By: byTimeout,
			Message: fmt.Sprintf("denied: nobody answered within %s", limit),
		}})
	case events.KindQuestion:
		b.resolve(p, resolution{answer: events.Answer{
			Outcome: events.OutcomeExpired, By: byTimeout, IsError: true, Result: fmt.Sprintf("the user did not answer within %s", limit),
		}, after: p.s.c.OnExpired})
	default:
		b.resolve(p, resolution{
			answer: events.Answer{Outcome: events.OutcomeTimeout, IsError: true, Result: fmt.Sprintf("the tool %s gave no result within %s", p.r.Tool, limit)},
			logged: &events.Answer{Outcome: events.OutcomeTimeout},
		})
	}
}

func canceled(cause error) resolution {
	return resolution{
		answer: events.Answer{Outcome: events.OutcomeCanceled, IsError: true, Result: "canceled"},
		logged: &events.Answer{Outcome: events.OutcomeCanceled},
		err:    cause,
	}
}

func errorAnswer(text string) events.Answer {
	return events.Answer{Outcome: events.OutcomeError, IsError: true, Result: text}
}

func nobodyPresent() events.Answer {
	return answered(mustJSON("no user is present; decide yourself"), byPolicy)
}

// answered is a question's answer. Result is for agents that asked by a tool.
func answered(value json.RawMessage, by string) events.Answer {
	return events.Answer{Outcome: events.OutcomeAnswered, By: by, Value: value, Result: words(value)}
}

func mustJSON(s string) json.RawMessage {
	out, _ := json.Marshal(s) // a string always encodes
	return out
}
