package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"innerd/backends"
	"innerd/events"
)

// NoUser is what a question is answered with when no user is there.
const NoUser = "no user is present; decide yourself"

// errOver ends requests that are still open when the recorder is closed.
var errOver = errors.New("the run is over")

// Recorder is a Host that answers as a Host description says and keeps what
// it was told. Its methods may be called at the same time.
type Recorder struct {
	turn     Turn
	onCancel func() // called once, at the event the turn cancels at; may be nil
	onSteer  func() // called once, at the event the turn steers at; may be nil
	ctx      context.Context
	end      context.CancelCauseFunc
	answers  sync.WaitGroup // a goroutine for each open request; Close ends them

	mu       sync.Mutex
	first    func() // called before the first event is taken; may be nil
	events   []events.Event
	replies  []Reply
	open     int
	together int
	changed  chan struct{} // closed and replaced when together grows
	requests int
	alive    int // events without data
	canceled bool
	steering bool          // onSteer was called
	steered  chan struct{} // closed when the agent has taken it
	closed   bool
	faults   []string
}

// NewRecorder makes a Host for one turn. onCancel is called when the turn's
// Host says that it cancels; both functions may be nil.
func NewRecorder(turn Turn, first, onCancel func()) *Recorder {
	ctx, end := context.WithCancelCause(context.Background())
	return &Recorder{
		turn: turn, first: first, onCancel: onCancel, ctx: ctx, end: end,
		replies: slices.Clone(turn.Host.Replies), changed: make(chan struct{}), steered: make(chan struct{}),
	}
}

// OnSteer has f called once, when the turn's Host says that it steers. f must
// not block. Call it before the turn begins.
func (r *Recorder) OnSteer(f func()) { r.onSteer = f }

// Steered says that the agent has taken what it was steered with.
func (r *Recorder) Steered() { close(r.steered) }

// Steering reports whether the turn has come to where its Host steers.
func (r *Recorder) Steering() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steering
}

// Emit implements backends.Host.
func (r *Recorder) Emit(e events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch d := e.Data.(type) {
	case nil:
		r.alive++
		return
	case events.TaskID, events.Error, events.End, events.Heartbeat:
		r.faultLocked("emitted %s, which only a run may", d.EventType())
		return
	case events.ToolRequest, events.ToolResolved, events.PermissionRequest, events.PermissionResolved,
		events.InputRequired, events.InputResolved, events.Damaged:
		r.faultLocked("emitted %s, which belongs to requests", d.EventType())
		return
	case events.Steered:
		if !r.steering {
			r.faultLocked("emitted %s, though nobody had steered", d.EventType())
			return
		}
	}
	if _, err := events.AppendLine(nil, 0, 0, e.Data); err != nil {
		r.faultLocked("emitted what can't be encoded: %v", err)
		return
	}
	r.appendLocked(e.Data)
}

func (r *Recorder) faultLocked(format string, args ...any) {
	if len(r.faults) < 20 {
		r.faults = append(r.faults, fmt.Sprintf(format, args...))
	}
}

func (r *Recorder) appendLocked(d events.Data) {
	if r.closed {
		r.faultLocked("%s after Run had returned", d.EventType())
		return
	}
	if r.first != nil {
		r.first()
		r.first = nil
	}
	r.events = append(r.events, events.Event{ID: int64(len(r.events)) + 1, Data: d})
	if on := r.turn.Host.Cancel.On; on != "" && on == d.EventType() && !r.canceled {
		r.canceled = true
		if r.onCancel != nil {
			r.onCancel()
		}
	}
	if on := r.turn.Host.Steer.On; on != "" && on == d.EventType() && !r.steering {
		r.steering = true
		if r.onSteer != nil {
			r.onSteer()
		}
	}
}

// Request implements backends.Host.
func (r *Recorder) Request(ctx context.Context, req events.Request) backends.Pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	if req.Kind == events.KindQuestion && !r.turn.Interactive {
		return settled(events.Answer{Outcome: events.OutcomeAnswered, Value: []byte(`"` + NoUser + `"`)})
	}
	r.requests++
	p := &pending{
		req: req, id: fmt.Sprintf("rq_%d", r.requests), done: make(chan struct{}),
	}
	asked, err := p.asked()
	if err == nil {
		_, err = events.AppendLine(nil, 0, 0, asked)
	}
	if err != nil {
		r.faultLocked("made a request that can't be logged: %v", err)
		return settled(events.Answer{Outcome: events.OutcomeCanceled})
	}
	if r.closed {
		r.faultLocked("%s after Run had returned", asked.EventType())
		return settled(events.Answer{Outcome: events.OutcomeCanceled})
	}
	r.open++
	if r.open > r.together {
		r.together = r.open
		close(r.changed)
		r.changed = make(chan struct{})
	}
	r.appendLocked(asked)
	reply, ok := r.takeLocked(req)
	if p.panics = r.turn.Host.Panics; p.panics {
		reply, ok = Reply{Answer: events.Answer{Outcome: events.OutcomeCanceled, By: "policy"}}, true
	}
	r.answers.Go(func() { r.answer(ctx, p, reply, ok) })
	return p
}

// takeLocked finds the reply to a request.
func (r *Recorder) takeLocked(req events.Request) (Reply, bool) {
	for i, reply := range r.replies {
		if reply.Kind == req.Kind && (reply.Tool == "" || reply.Tool == req.Tool) {
			if !reply.Many {
				r.replies = slices.Delete(r.replies, i, i+1)
			}
			return reply, true
		}
	}
	return Reply{}, false
}

// answer resolves a request when its reply is due, or when it is canceled.
func (r *Recorder) answer(ctx context.Context, p *pending, reply Reply, ok bool) {
	a := events.Answer{Outcome: events.OutcomeCanceled, By: "policy"}
	err := r.due(ctx, reply, ok)
	if err == nil {
		a = reply.Answer
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	if !r.closed {
		r.appendLocked(p.resolved(a))
	}
	p.answer, p.err = a, err
	close(p.done)
}

// due waits until a reply may be given. The error is why it never may.
func (r *Recorder) due(ctx context.Context, reply Reply, ok bool) error {
	for ok {
		r.mu.Lock()
		enough, changed := r.together >= reply.Together, r.changed
		r.mu.Unlock()
		if enough {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.ctx.Done():
			return errOver
		}
	}
	if ok && reply.Steered {
		select {
		case <-r.steered:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.ctx.Done():
			return errOver
		}
	}
	var timer <-chan time.Time // nil, which waits forever, where there is no reply
	if ok {
		timer = time.After(reply.After)
	}
	select {
	case <-timer:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.ctx.Done():
		return errOver
	}
}

// Close ends the turn: requests that are still open are canceled, and whatever
// comes from now on is a fault.
func (r *Recorder) Close() {
	r.mu.Lock()
	if r.open > 0 {
		r.faultLocked("%d requests were still open when Run returned", r.open)
	}
	r.closed = true
	r.mu.Unlock()
	r.end(errOver)
	r.answers.Wait()
}

// Events are what the log of the run would hold so far: what was emitted,
// and the requests with how they were resolved.
func (r *Recorder) Events() []events.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Faults are what no backend may do to a Host, also after Close.
func (r *Recorder) Faults() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.faults)
}

// pending is one request.
type pending struct {
	req    events.Request
	id     string
	done   chan struct{}
	answer events.Answer
	err    error
	panics bool
}

func settled(a events.Answer) *pending {
	p := &pending{answer: a, done: make(chan struct{})}
	close(p.done)
	return p
}

// Wait implements backends.Pending.
func (p *pending) Wait() (events.Answer, error) {
	<-p.done
	if p.panics {
		panic("the host of this case")
	}
	return p.answer, p.err
}

func (p *pending) asked() (events.Data, error) {
	switch p.req.Kind {
	case events.KindTool:
		return events.ToolRequest{ToolCallID: p.id, NativeID: p.req.NativeID, ToolName: p.req.Tool, Arguments: p.req.Input}, nil
	case events.KindPermission:
		return events.PermissionRequest{RequestID: p.id, Tool: p.req.Tool, Input: p.req.Input}, nil
	case events.KindQuestion:
		return events.InputRequired{RequestID: p.id, Message: p.req.Message, Schema: p.req.Schema}, nil
	}
	return nil, fmt.Errorf("no such kind: %q", p.req.Kind)
}

func (p *pending) resolved(a events.Answer) events.Data {
	switch p.req.Kind {
	case events.KindTool:
		return events.ToolResolved{ToolCallID: p.id, Outcome: a.Outcome, Result: a.Result, Content: a.Content, IsError: a.IsError}
	case events.KindPermission:
		return events.PermissionResolved{RequestID: p.id, Outcome: a.Outcome, By: a.By, Message: a.Message}
	}
	return events.InputResolved{RequestID: p.id, Outcome: a.Outcome, Value: a.Value}
}
