package codex

import (
	"context"
	"encoding/json"
	"time"

	"innerd/backends"
)

// Compact implements backends.Compacter.
func (c *conversation) Compact(ctx context.Context) error {
	if err := c.begin(); err != nil {
		return err
	}
	defer c.running.Done()
	s, err := c.server(ctx)
	if err != nil {
		return canceledOr(ctx, err)
	}
	defer s.known()
	if !c.told {
		return nil // there is nothing to shorten
	}
	if !c.loaded {
		w := c.set
		if w == (setup{}) {
			w = c.setupOf(&backends.Settings{}, newToolset(nil), options{})
		}
		if err := c.ready(ctx, s, w, c.login.Model); err != nil {
			return canceledOr(ctx, err)
		}
	}
	over, overdue := make(chan struct{}), make(chan struct{})
	heard := s.heardBeside(c)
	answer := c.askCompaction(s, over)
	stop := backends.Overdue(c.b.callLimit, s.peer.Handling, func() { close(overdue) })
	defer stop()
	for {
		select {
		case err := <-answer:
			if err != nil {
				return canceledOr(ctx, c.refused(err))
			}
			stop()
			answer = nil
			continue
		case <-overdue:
			c.noCompaction(over)
			return c.unanswered(s, silence{"thread/compact/start", c.b.callLimit}, heard)
		case <-over:
		case <-s.gone():
			return c.refused(s.peer.Err())
		case <-c.done:
			c.stopCompaction(s, over)
			return errClosed
		case <-ctx.Done():
			c.stopCompaction(s, over)
			return canceledOr(ctx, nil)
		}
		return c.compacted(answer)
	}
}

// askCompaction asks codex for one, and gives its answer; over is closed at the
// compaction's end. What was refused never begins: it is over too, also where
// nobody waits for the answer any more, or a later turn would be taken for it.
func (c *conversation) askCompaction(s *server, over chan struct{}) <-chan error {
	c.mu.Lock()
	c.compact, c.failed, c.own = over, nil, ""
	c.mu.Unlock()
	answer := make(chan error, 1)
	answered := func(_ json.RawMessage, err error) {
		answer <- err
		if err != nil {
			c.noCompaction(over)
		}
	}
	if _, err := s.peer.Go("thread/compact/start", threadRef{ThreadID: c.thread}, answered); err != nil {
		select { // why it ended is told a moment after its pipe is closed
		case <-s.gone():
			err = s.peer.Err()
		case <-time.After(pingLimit):
		}
		answered(nil, err)
	}
	return answer
}

// noCompaction ends one that will not begin.
func (c *conversation) noCompaction(over chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.compact == over {
		close(over)
		c.compact = nil
	}
}

// compacted is how a compaction that is over ended. answer may not have been
// read yet.
func (c *conversation) compacted(answer <-chan error) error {
	select {
	case err := <-answer:
		if err != nil {
			return c.refused(err)
		}
	default: // read, or not needed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return c.failed.classed()
	}
	return nil
}

// stopCompaction returns when the compaction is over, which codex stops only
// after its beginning: the run that comes next must not begin in it.
func (c *conversation) stopCompaction(s *server, over <-chan struct{}) {
	limit := time.NewTimer(calmLimit)
	defer limit.Stop()
	for told := ""; ; {
		c.mu.Lock()
		own := c.own
		c.mu.Unlock()
		if own != told {
			told = own
			_, _ = s.peer.Go("turn/interrupt", threadRef{ThreadID: c.thread, TurnID: own}, func(json.RawMessage, error) {})
		}
		select {
		case <-over:
			return
		case <-s.gone():
			return
		case <-limit.C:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
