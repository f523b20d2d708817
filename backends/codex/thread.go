package codex

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"innerd/backends"
	"innerd/backends/internal/rpc"
)

// writerLimit is how long a thread's file may still be held by a process that
// has just ended.
const writerLimit = 5 * time.Second

// writerWords are codex's of a thread that another process has open.
const writerWords = "active writer"

// ready has the thread loaded as a turn of these settings wants it.
func (c *conversation) ready(ctx context.Context, s *server, want setup, model string) error {
	if c.loaded && c.set == want {
		return nil
	}
	if c.loaded && !c.told {
		if err := c.drop(ctx, s); err != nil { // a thread without a turn has no file, and nothing in it
			return err
		}
	}
	if c.loaded {
		if err := c.call(ctx, s, "thread/unsubscribe", threadRef{ThreadID: c.thread}, nil); err != nil {
			return c.refused(err)
		}
		c.loaded = false
	}
	if c.thread == "" {
		return c.start(ctx, s, want, model)
	}
	return c.resume(ctx, s, want, model)
}

// drop forgets the thread. That codex does not want to is no reason to fail.
func (c *conversation) drop(ctx context.Context, s *server) error {
	s.detach(c)
	err := c.call(ctx, s, "thread/unsubscribe", threadRef{ThreadID: c.thread}, nil)
	c.thread, c.loaded = "", false
	var own *backends.Error
	if errors.As(err, &own) {
		return own
	}
	return nil
}

type threadResult struct {
	Thread threadInfo `json:"thread"`
	Model  string     `json:"model"`
}

func (c *conversation) start(ctx context.Context, s *server, want setup, model string) error {
	p := c.params(s, want, model)
	p.DynamicTools = want.dynamicTools()
	var r threadResult
	err := c.callLate(ctx, s, "thread/start", p, &r, func(raw json.RawMessage) {
		if json.Unmarshal(raw, &r) == nil { // nobody wants it any more
			_, _ = s.peer.Go("thread/unsubscribe", threadRef{ThreadID: r.Thread.ID}, func(json.RawMessage, error) {})
		}
	})
	if err != nil {
		return c.refused(err)
	}
	c.mu.Lock()
	c.total = counts{}
	c.mu.Unlock()
	c.thread, c.told = r.Thread.ID, false
	if err := c.save(); err != nil {
		_ = c.call(ctx, s, "thread/unsubscribe", threadRef{ThreadID: c.thread}, nil)
		c.thread = ""
		return err
	}
	c.has(s, want, r)
	return nil
}

// has notes that the thread is loaded.
func (c *conversation) has(s *server, want setup, r threadResult) {
	s.attach(c.thread, &route{c: c})
	c.loaded, c.set, c.model = true, want, r.Model
}

func (c *conversation) resume(ctx context.Context, s *server, want setup, model string) error {
	path := c.rollout(c.thread)
	if path == "" {
		return c.lost(ctx, s, want, model)
	}
	if err := c.amend(ctx, s, path, want.tools, want.system); err != nil {
		if own := new(backends.Error); ctx.Err() != nil || s.peer.Err() != nil || errors.As(err, &own) {
			return c.refused(err)
		}
		c.b.log.Warn("a thread can't be given other tools or instructions; a new one is begun", "conversation", c.cfg.ID, "thread", c.thread, "err", err)
		return backends.ErrNewSession
	}
	p := c.params(s, want, model)
	p.ThreadID, p.ExcludeTurns = c.thread, true
	s.attach(c.thread, &route{c: c}) // its totals are told right after
	var r threadResult
	err := c.whenFree(ctx, func() error { return c.call(ctx, s, "thread/resume", p, &r) })
	if err != nil {
		s.detach(c)
		// It may yet be loaded, with what it is not to have next time.
		_, _ = s.peer.Go("thread/unsubscribe", threadRef{ThreadID: c.thread}, func(json.RawMessage, error) {})
		var no *rpc.Error
		switch {
		case !errors.As(err, &no):
		case strings.Contains(no.Message, "no rollout"):
			return c.lost(ctx, s, want, model)
		case strings.Contains(no.Message, writerWords): // it may have it for as long as it lives: a process that was left, somebody's own codex
			c.b.log.Warn("another process has a thread open; a new one is begun", "conversation", c.cfg.ID, "thread", c.thread)
			return c.lost(ctx, s, want, model)
		}
		return c.refused(err)
	}
	c.has(s, want, r)
	return nil
}

// lost begins anew where nothing is lost, and says so where something is.
func (c *conversation) lost(ctx context.Context, s *server, want setup, model string) error {
	if c.told {
		return backends.ErrNewSession
	}
	return c.start(ctx, s, want, model)
}

// whenFree tries again while the thread is held by a process that is ending.
func (c *conversation) whenFree(ctx context.Context, resume func() error) error {
	for began := time.Now(); ; {
		err := resume()
		if err == nil || !strings.Contains(err.Error(), writerWords) || time.Since(began) > writerLimit {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refused makes the failure of a call into an error.
func (c *conversation) refused(err error) error {
	var own *backends.Error
	var no *rpc.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &no):
		return refusal(no)
	}
	return err
}
