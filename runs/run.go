package runs

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/events/journal"
	"innerd/telemetry"
	"innerd/toolbridge"
)

// cancelWait bounds how long a cancel waits for its run.
const cancelWait = 8 * time.Second

// Run is one turn, live or ended. Its methods may be called at the same time.
type Run struct {
	log  *journal.Log
	live *live // nil for a run that had ended when it was looked up
}

// live is what a run has while it is not over.
type live struct {
	spec     Spec
	meta     journal.RunMeta
	accepted int64 // the order in which the server took its runs
	conv     *conversation
	rec      *recorder
	sess     *toolbridge.Session
	stats    *stats
	span     *telemetry.Span // nil: in no trace
	waits    waits
	tools    atomic.Int64 // open tool requests
	asks     atomic.Int64 // open permissions and questions

	starting atomic.Pointer[start] // the agent's, until its first sign of life

	ctx    context.Context
	cancel context.CancelCauseFunc
	turn   chan struct{} // closed when the conversation is this run's
	done   chan struct{} // closed when all of the run is over, its log and its turn

	steering chan struct{} // held by the one who gives the agent more input
	over     chan struct{} // closed when the agent takes no more; closed under mu

	mu        sync.Mutex // guards what follows
	started   bool
	working   *working      // the agent that has the turn, nil while there is none
	change    chan struct{} // closed when that changes
	canceling bool
	readers   int
	hangup    *time.Timer
}

// ID is the run's id, on this server and on the wire.
func (r *Run) ID() string { return r.log.ID() }

// Log is the run's event log.
func (r *Run) Log() *journal.Log { return r.log }

// Started is when the run was accepted.
func (r *Run) Started() time.Time { return r.log.Meta().Created }

// Done is closed when the run's log has its last event.
func (r *Run) Done() <-chan struct{} { return r.log.Done() }

// OpenToolRequests reports whether the host was asked for a tool's result and
// has not sent it yet: its reader may then not read for as long as it likes.
func (r *Run) OpenToolRequests() bool { return r.live != nil && r.live.tools.Load() > 0 }

// Attach says that somebody reads the run, until the function it returns is
// called. A run that belongs to its readers is canceled some time after the
// last one is gone.
func (r *Run) Attach() (detach func()) {
	l := r.live
	if l == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers++
	if l.hangup != nil {
		l.hangup.Stop()
	}
	return sync.OnceFunc(l.detach)
}

func (l *live) detach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers--
	l.armHangupLocked()
}

// armHangupLocked starts the time after which a run without readers ends.
func (l *live) armHangupLocked() {
	if l.readers > 0 || l.spec.Detach {
		return
	}
	if l.hangup != nil {
		l.hangup.Stop()
	}
	l.hangup = time.AfterFunc(l.spec.DetachGrace, func() {
		l.mu.Lock()
		alone := l.readers == 0
		l.mu.Unlock()
		if alone {
			l.cancel(backends.ErrDisconnected)
		}
	})
}

func (l *live) stopHangup() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spec.Detach = true
	if l.hangup != nil {
		l.hangup.Stop()
	}
}

// canceledError is a cancel with the words of who asked for it.
type canceledError struct{ reason string }

// Error is said behind "canceled: ".
func (e *canceledError) Error() string {
	if e.reason == "" {
		return "by the host"
	}
	return e.reason
}

func (e *canceledError) Is(target error) bool { return target == backends.ErrCanceled }

// Cancel ends the run and waits until it has ended, 8 s at most; false: it was
// still ending then. A second cancel joins the first. ErrEnded when it was
// over before.
func (r *Run) Cancel(ctx context.Context, reason string) (bool, error) {
	if _, ended := r.log.Ended(); ended || r.live == nil {
		return true, ErrEnded
	}
	r.live.mu.Lock()
	r.live.canceling = true
	r.live.mu.Unlock()
	r.live.cancel(&canceledError{reason})
	timer := time.NewTimer(cancelWait)
	defer timer.Stop()
	select {
	case <-r.Done():
		return true, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// waiting reports whether the run waits for the host.
func (l *live) waiting() bool { return l.tools.Load()+l.asks.Load() > 0 }

// logRequest logs what the bridge says of a request. It is counted before it
// can be seen: a host that sees a call may start a run on the same context at
// once, which must find this one waiting.
func (l *live) logRequest(d events.Data) {
	switch v := d.(type) {
	case events.ToolRequest:
		l.tools.Add(1)
		at := l.waits.begin(v.ToolCallID, v.ToolName, toolSpan(l.span, telemetry.Asking, v.ToolName, v.ToolCallID)).Link()
		v.Traceparent, v.Tracestate = at.Parent, at.State
		d = v
	case events.ToolResolved:
		l.tools.Add(-1)
		l.resolved(events.KindTool, v.ToolCallID, v.Outcome, "")
	case events.PermissionRequest:
		l.asks.Add(1)
		l.waits.begin(v.RequestID, v.Tool, nil)
	case events.InputRequired:
		l.asks.Add(1)
		l.waits.begin(v.RequestID, "", nil)
	case events.PermissionResolved:
		l.asks.Add(-1)
		l.resolved(events.KindPermission, v.RequestID, v.Outcome, v.By)
	case events.InputResolved:
		l.asks.Add(-1)
		l.resolved(events.KindQuestion, v.RequestID, v.Outcome, "")
	}
	l.rec.record(d)
}

// runHost is the run as its backend sees it.
type runHost struct{ l *live }

var _ backends.Host = runHost{}

// Emit implements backends.Host.
func (h runHost) Emit(e events.Event) {
	h.up()
	if e.Data == nil {
		h.l.rec.pulse.Add(1)
		return
	}
	h.l.rec.record(e.Data)
}

// Request implements backends.Host.
func (h runHost) Request(ctx context.Context, q events.Request) backends.Pending {
	h.up()
	return h.l.sess.Request(ctx, q)
}

const overLimit = "the turn's limit of tool calls is reached"

// admit is asked before any request of the agent's, on whichever road: a call
// above the run's limit is not made.
func (l *live) admit(kind events.RequestKind) string {
	switch kind {
	case events.KindTool:
		if !l.rec.admit() {
			return overLimit
		}
	case events.KindPermission:
		if l.rec.over() {
			return overLimit
		}
	}
	return ""
}

// up notes the agent's first sign of life.
func (h runHost) up() {
	if h.l.starting.Load() == nil {
		return
	}
	if s := h.l.starting.Swap(nil); s != nil {
		s.up()
	}
}

// watch ends the turn when its time is over, or when the agent shows no sign
// of life while nothing is open. It returns with ctx, which the turn's owner
// ends and waits for.
func (l *live) watch(ctx context.Context, turn, stall time.Duration) {
	deadline := time.NewTimer(turn)
	defer deadline.Stop()
	step := max(stall/8, time.Millisecond)
	tick := time.NewTicker(step)
	defer tick.Stop()
	pulse, since := l.rec.pulse.Load(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-deadline.C:
			l.cancel(backends.ErrDeadline)
			return
		case now := <-tick.C:
			p := l.rec.pulse.Load()
			if p != pulse || l.waiting() || l.rec.busy.Load() > 0 {
				pulse, since = p, now
				continue
			}
			if now.Sub(since) >= stall {
				l.cancel(backends.ErrStalled)
				return
			}
		}
	}
}

// cause is why the run's context ended, or err when it did not.
func (l *live) cause(err error) error {
	if err == nil {
		return nil
	}
	if c := context.Cause(l.ctx); c != nil && !errors.Is(err, c) {
		var be *backends.Error
		if errors.As(err, &be) {
			return err // it failed by itself, before it could be stopped
		}
		return c
	}
	return err
}
