package host

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"innerd/events"
)

// LoopOptions are what an InnerLoop can be told. The zero value of each is its
// default.
type LoopOptions struct {
	Backend string // the agent, where a request names none; "": the server's
	Breaker BreakerOptions

	// AllowMissing lets the loop start without a server, and go native. By
	// default that is an error: a host that goes native unnoticed pays for
	// every token itself.
	AllowMissing bool
	// StartTimeout is how long NewInnerLoop waits for a server that is not up
	// yet. 0: not at all, one look. The time that the address of a lazy client
	// takes is bounded by ctx alone.
	StartTimeout time.Duration

	Logger *slog.Logger // fallbacks, and what a start without a server found; nil: none
}

// InnerLoop answers with the agent on a server while that works, and with the
// host's own loop when it does not. It is a Strategy; its methods may be called
// at the same time.
//
// The agent is asked unless the breaker is open: after 5 failures in a row it
// opens for 60 s, after a rate limit, an exhausted quota or HTTP 429 and 503 at
// once, for as long as they say or 300 s. Bad requests and cancels never count.
// Then one answer is let through as a probe. While it is open, and after any
// failure, the native loop answers, and a *Fallback in the stream says so.
type InnerLoop struct {
	client    *Client
	delegated Strategy
	native    Strategy
	opt       LoopOptions
	breaker   *breaker
	locks     locks
	log       *slog.Logger
}

// NewInnerLoop makes a loop and looks whether its server is there, alive, takes
// the key, and has the agent: if not, that is an error, unless AllowMissing.
//
// native may be nil: a failure then stays one. c may be nil with AllowMissing.
func NewInnerLoop(ctx context.Context, c *Client, native Strategy, o *LoopOptions) (*InnerLoop, error) {
	l := &InnerLoop{client: c, native: native}
	if o != nil {
		l.opt = *o
	}
	if l.log = l.opt.Logger; l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.breaker = newBreaker(l.opt.Breaker)
	if c != nil {
		l.delegated = Delegated(c, l.opt.Backend)
	}
	if c == nil && native == nil {
		return nil, errors.New("host: an inner loop needs a client, or a native loop and AllowMissing")
	}
	if err := l.Check(ctx); err != nil {
		if !l.opt.AllowMissing || ctx.Err() != nil {
			return nil, err
		}
		l.log.Warn("no agent: the native loop will answer", "err", err)
	}
	return l, nil
}

// Check looks whether answers can be delegated: the server lives, takes the
// key, and the agent is usable. The error says what to do.
func (l *InnerLoop) Check(ctx context.Context) error {
	if l.client == nil {
		return errors.New("host: there is no client: give the inner loop the URL of a server, or set AllowMissing")
	}
	if _, err := l.client.addr.get(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, max(l.opt.StartTimeout, probeTimeout))
	defer stop()
	if l.opt.StartTimeout > 0 {
		if _, err := l.client.WaitHealthy(ctx); err != nil {
			return err
		}
	}
	all, err := l.client.Backends(ctx) // which needs the key, as runs do
	if err != nil {
		return fmt.Errorf("host: no answer can be delegated: %w", err)
	}
	usable := false
	for _, b := range all {
		switch {
		case b.Name == l.opt.Backend && !b.Usable:
			return fmt.Errorf("host: the agent %s is not usable: %s. %s", b.Name, b.Why, b.Hint)
		case b.Name == l.opt.Backend, l.opt.Backend == "" && b.Usable:
			usable = true
		}
	}
	if !usable {
		return fmt.Errorf("host: the server has no usable agent %s; innerd doctor says why", l.opt.Backend)
	}
	return nil
}

// Breaker is the breaker as it stands, with its counters and the time left.
func (l *InnerLoop) Breaker() BreakerState { return l.breaker.now() }

// Lock takes a conversation's lock, which a delegated answer holds from its
// start to its end: the host takes it to compact or change the history, so that
// neither runs into the other. release may be called more than once. The native
// loop does not hold it, and may take it.
func (l *InnerLoop) Lock(ctx context.Context, contextID string) (release func(), err error) {
	_, release, err = l.locks.hold(ctx, contextID)
	return release, err
}

// Respond implements Strategy. The stream of an answer that was delegated and
// failed does not show its session.error and session.end, but a *Fallback, and
// then the native loop's events. When ctx ends, or the loop over the stream is
// left, the run is canceled, and its end awaited, before Respond returns.
func (l *InnerLoop) Respond(ctx context.Context, req Request) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		if l.delegated == nil {
			l.goNative(ctx, req, &Fallback{Reason: FallbackMissing, Message: "there is no server"}, yield)
			return
		}
		held, release, err := l.locks.hold(ctx, req.ContextID)
		if err != nil {
			yield(events.Event{}, err)
			return
		}
		defer release()
		g, ok := l.breaker.allow()
		if !ok {
			release()
			s := l.breaker.now()
			l.goNative(ctx, req, &Fallback{Reason: FallbackOpen, ErrorType: s.ErrorType, Message: "the breaker is " + s.String(), Breaker: s}, yield)
			return
		}
		t := turn{loop: l, ctx: ctx, grant: g, yield: yield}
		v := t.run(held, req)
		release() // the native loop may compact
		if fb := t.fallback(v); fb != nil {
			l.goNative(ctx, req, fb, yield)
		}
	}
}

// goNative tells the host, and has its own loop answer.
func (l *InnerLoop) goNative(ctx context.Context, req Request, fb *Fallback, yield func(events.Event, error) bool) {
	l.log.Warn("the native loop answers", "reason", fb.Reason, "error_type", fb.ErrorType, "err", fb.Message, "task", fb.TaskID, "breaker", fb.Breaker.State)
	if l.native == nil {
		yield(events.Event{}, &Error{ErrorType: fb.ErrorType, Detail: fb.Message, RetryAfter: fb.Breaker.Left})
		return
	}
	if !yield(events.Event{Data: fb}, nil) {
		return
	}
	req.Fallback = fb
	req.Messages = append(req.Messages[:len(req.Messages):len(req.Messages)], fb.History...)
	for ev, err := range l.native.Respond(ctx, req) {
		if !yield(ev, err) {
			return
		}
	}
}

// turn is one delegated answer.
type turn struct {
	loop  *InnerLoop
	ctx   context.Context
	grant *grant
	yield func(events.Event, error) bool

	out  Outcome
	kept []events.Event // session.error, which is not shown if the native loop answers
	left bool           // the caller left the loop
}

// run passes the events on, but for the end of a failure.
func (t *turn) run(ctx context.Context, req Request) (v verdict) {
	v = verdict{kind: unfinished}
	defer func() { t.grant.over(v) }() // also when the caller's loop panics
	for ev, err := range t.loop.delegated.Respond(ctx, req) {
		if err != nil {
			v = verdictOf(t.ctx, err, nil)
			if !t.native(v) {
				t.left = true
				t.yield(events.Event{}, err)
			}
			return v
		}
		t.out.Add(ev)
		switch d := ev.Data.(type) {
		case events.Error:
			t.kept = append(t.kept, ev)
			continue
		case events.End:
			v = t.end(ev, d) // only the end of the body follows
			continue
		case events.MessageDelta, events.ReasoningDelta, events.Message, events.ToolCall, events.ToolRequest:
			t.grant.alive()
		}
		if !t.yield(ev, nil) {
			t.left = true
			return v
		}
	}
	return v
}

// end takes the run's session.end.
func (t *turn) end(ev events.Event, end events.End) verdict {
	v := verdict{kind: succeeded}
	if end.State != events.Completed {
		v = verdictOf(t.ctx, nil, t.out.Failure)
		if t.out.Failure == nil {
			v = verdict{kind: broke, errorType: events.ErrInternal, message: "the run ended as " + end.State}
		}
	}
	if t.native(v) {
		return v
	}
	for _, e := range append(t.kept, ev) {
		if !t.yield(e, nil) {
			break
		}
	}
	t.left = true // nothing follows
	return v
}

// native reports whether the native loop is to answer after a verdict.
func (t *turn) native(v verdict) bool {
	return t.loop.native != nil && (v.kind == bad || v.kind == broke || v.kind == limited)
}

// fallback closes what the run left open, and says how the native loop goes
// on; nil: it does not.
func (t *turn) fallback(v verdict) *Fallback {
	if t.left || !t.native(v) || t.ctx.Err() != nil {
		return nil
	}
	for _, d := range t.out.unclosed() {
		t.out.Add(events.Event{Data: d})
		if !t.yield(events.Event{Data: d}, nil) {
			return nil
		}
	}
	said := t.out.Text()
	return &Fallback{
		Reason: v.reason(), ErrorType: v.errorType, Message: v.message, Breaker: t.loop.breaker.now(),
		TaskID: t.out.TaskID, Said: said, From: len(said), History: t.out.History(),
	}
}

// unclosed is what closes the texts that a cut stream left open.
func (o *Outcome) unclosed() (out []events.Data) {
	if o.thought.is && o.thought.text.Len() > 0 {
		out = append(out, events.Reasoning{Content: o.thought.text.String(), ReasoningID: o.thought.id})
	}
	if o.open.is && o.open.text.Len() > 0 {
		out = append(out, events.Message{Content: o.open.text.String(), MessageID: o.open.id, Partial: true})
	}
	return out
}
