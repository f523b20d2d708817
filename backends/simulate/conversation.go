package simulate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"innerd/backends"
	"innerd/events"
)

// conversation is one session that is open. It has no process: done stands for
// its death.
type conversation struct {
	b       *Backend
	cfg     backends.Config
	session *session // owned by whoever holds running

	steering steering

	running chan struct{} // holds a value while a run is on: a lock that can be waited for with a context
	closing chan struct{}
	closed  sync.Once
	done    chan struct{}
	dead    sync.Once
}

var (
	errClosed = errors.New("the conversation was closed")
	// errDone ends a turn early and well.
	errDone = errors.New("the turn is done")
)

func wrap(cause error) error { return fmt.Errorf("simulate: %w", cause) }

// Done implements backends.Conversation.
func (c *conversation) Done() <-chan struct{} { return c.done }

// Close implements backends.Conversation: it ends a run, waits for it, and
// leaves the session where it is kept.
func (c *conversation) Close(ctx context.Context) error {
	c.closed.Do(func() { close(c.closing) })
	select {
	case c.running <- struct{}{}:
	case <-ctx.Done():
		return wrap(context.Cause(ctx))
	}
	defer func() { <-c.running }()
	c.die()
	return nil
}

// die says that there will be no further run.
func (c *conversation) die() { c.dead.Do(func() { close(c.done) }) }

// Run implements backends.Conversation. Its outcome says Stored beside an
// error too: a turn that was canceled is in the session all the same.
func (c *conversation) Run(ctx context.Context, in backends.Input, h backends.Host) (backends.Outcome, error) {
	select {
	case c.running <- struct{}{}:
	case <-ctx.Done():
		return backends.Outcome{}, wrap(context.Cause(ctx))
	}
	defer func() { <-c.running }()
	if c.over() {
		return backends.Outcome{}, failure(errClosed)
	}
	ctx, stop := c.untilClosed(ctx)
	defer stop()
	steps, err := c.b.stepsOf(in.Set)
	if err != nil {
		return backends.Outcome{}, &backends.Error{Type: events.ErrInvalidRequest, Message: err.Error()}
	}
	if steps == nil {
		steps = []step{echo{}}
	}
	c.session.hear(in)
	// Unsynced: it outlives this process, and the turn is not delayed.
	if err := c.b.store.save(c.session, false); err != nil {
		return backends.Outcome{}, unwritten(err)
	}
	c.steering.begin()
	defer c.steering.end(true)
	t := newTurn(ctx, c, in, h)
	return t.finish(t.play(steps, false))
}

func unwritten(err error) error {
	return &backends.Error{Type: events.ErrInternal, Message: "the session cannot be written: " + err.Error()}
}

// over reports whether the conversation takes no further run.
func (c *conversation) over() bool {
	select {
	case <-c.done:
		return true
	case <-c.closing:
		return true
	default:
		return false
	}
}

// untilClosed makes a context that also ends when the conversation is closed.
// stop ends the goroutine behind it and waits for it.
func (c *conversation) untilClosed(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	var wg sync.WaitGroup
	wg.Go(func() { // ended by stop at the latest
		select {
		case <-c.closing:
			cancel(errClosed)
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(nil); wg.Wait() }
}

// failure is how a run ends whose context ended with cause.
func failure(cause error) error {
	if errors.Is(cause, errClosed) {
		return &backends.Error{Type: events.ErrBackendCrashed, Message: errClosed.Error()}
	}
	return wrap(cause)
}
