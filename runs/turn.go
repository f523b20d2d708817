package runs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/events/journal"
)

// drive is a run's life: its turn to come, its turn, its end.
func (m *Manager) drive(run *Run) {
	defer m.wg.Done()
	out, err := m.turn(run)
	m.finish(run, out, err)
}

// turn waits for the run's place and runs it. A panic ends this run alone.
func (m *Manager) turn(run *Run) (out backends.Outcome, err error) {
	l := run.live
	defer func() {
		if p := recover(); p != nil {
			m.log.Error("panic in a run", l.meta.LogAttr(), "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("innerd failed: %v", p)
		}
	}()
	select {
	case <-l.turn:
	default:
		l.rec.record(events.Status{State: events.StateQueued, Detail: m.queuedBehind(l)})
		select {
		case <-l.turn:
		case <-l.ctx.Done():
			return out, context.Cause(l.ctx)
		}
	}
	l.mu.Lock()
	l.started = true
	l.mu.Unlock()
	if err := context.Cause(l.ctx); err != nil {
		return out, err
	}
	ctx, stopWatch := context.WithCancel(l.ctx)
	var watch sync.WaitGroup
	watch.Go(func() { l.watch(ctx, l.spec.Timeout, of(m.lim.Stall, l.meta.Backend)) })
	defer watch.Wait()
	defer stopWatch()
	out, err = m.converse(l)
	return out, l.cause(err)
}

func (m *Manager) queuedBehind(l *live) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.conv.compacting != nil {
		return "waits until the agent has shortened its memory"
	}
	return "waits for the run before it in its conversation"
}

// finish ends the run's log, writes down what its conversation now knows, and
// gives the conversation to the next run.
func (m *Manager) finish(run *Run, out backends.Outcome, err error) {
	l := run.live
	v := judge(err)
	var storage *journal.StorageError
	if errors.As(err, &storage) {
		v = storageVerdict(storage)
	}
	if err == nil && out.Reason != "" {
		v.reason = out.Reason
	}
	if cause := context.Cause(l.ctx); err == nil && limitReached(cause) {
		v = judge(cause) // the agent ended its turn before it heard of that
	}
	l.endSteering()
	l.sess.Close(sessionCause(err))
	closing, v := l.rec.seal(v, l.meta.Backend, out.Output)
	if v.err != nil {
		m.noteLimit(l, *v.err)
	}
	end := journal.RunEnd{State: v.state, Reason: v.reason, Ended: time.Now()}
	if v.err != nil {
		end.ErrorType = v.err.ErrorType
	}
	m.remember(run, out, err == nil)
	m.release(l) // before the end is seen: who saw it may close the conversation, or go on in it
	if err := run.log.End(closing, end); err != nil {
		m.log.Error("end of a run not written", l.meta.LogAttr(), "error", err)
	}
	l.stopHangup()
	if e, ok := run.log.Ended(); ok {
		end = e // of a full disk it may say something else
	}
	m.conclude(l, end, closing)
	if n := l.rec.dropped.Load(); n > 0 {
		m.log.Warn("events after the end of a run, or not a backend's to send, were dropped", l.meta.LogAttr(), "count", n)
		m.stats.late.Add(n)
	}
	m.mu.Lock()
	delete(m.runs, run.ID())
	m.rests = time.Now()
	m.mu.Unlock()
	l.cancel(nil)
	close(l.done)
}

func sessionCause(err error) error {
	if err == nil {
		return backends.ErrCanceled
	}
	return err
}

// release takes the run out of its conversation and lets the next one in.
func (m *Manager) release(l *live) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := l.conv
	for i, q := range c.queue {
		if q != l {
			continue
		}
		c.queue = slices.Concat(c.queue[:i], c.queue[i+1:]) // not in place: what is behind its end would hold a run in memory
		if i == 0 && len(c.queue) > 0 && c.compacting == nil {
			close(c.queue[0].turn)
		}
		break
	}
	c.lastUsed = time.Now()
	if !c.busyLocked() {
		m.restLocked(c)
	}
}

// noteLimit remembers until when a provider refuses work.
func (m *Manager) noteLimit(l *live, e events.Error) {
	if e.RetryAfterS <= 0 || (e.ErrorType != events.ErrRateLimit && e.ErrorType != events.ErrQuota) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(m.limited, func(_ string, until time.Time) bool { return until.Before(now) })
	m.limited[limitKey(l.meta.Backend, l.spec.Credential)] = now.Add(time.Duration(e.RetryAfterS * float64(time.Second)))
}

func (m *Manager) checkLimit(backend string, c *backends.Credential) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := limitKey(backend, c)
	left := time.Until(m.limited[key])
	if left <= 0 {
		delete(m.limited, key)
		return nil
	}
	return &LimitedError{Backend: backend, RetryAfter: left}
}

func limitKey(backend string, c *backends.Credential) string {
	if c == nil {
		return backend
	}
	return backend + "\x00" + hash(c.Key) + "\x00" + c.BaseURL
}
