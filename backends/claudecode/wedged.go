package claudecode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"innerd/backends"
	"innerd/events"
)

// A claude that leaves unanswered what takes no model is stuck, and is nobody
// else's: it is ended at once, and the next run resumes the session in another.

// errUnanswered is the cause of a call's end whose time has passed.
var errUnanswered = errors.New("no answer in time")

// unanswered ends a claude that did not answer something in time.
func (c *conversation) unanswered(ctx context.Context, p *process, what string, limit time.Duration) *backends.Error {
	why := fmt.Sprintf("claude did not answer %s in %v; it was ended", what, limit)
	c.b.log.Error(why, "conversation", c.cfg.ID)
	c.endNow(ctx, p)
	exit := backends.Exit(p.child.Exit())
	e := &backends.Error{Type: events.ErrBackendCrashed, Message: why, Exit: &exit}
	if words := backends.LastWords(exit.StderrTail); words != "" {
		e.Message += ": " + words
	}
	return e
}

// endNow ends a claude at once, and not the conversation with it: the next run
// gets another process.
func (c *conversation) endNow(ctx context.Context, p *process) {
	c.mu.Lock()
	if c.p == p {
		c.p = nil // so that its end is not the conversation's
	}
	c.mu.Unlock()
	now, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel() // it has had its time
	_ = p.child.Stop(now)
	<-p.child.Done()
}

// unheard closes mute when claude has said nothing since the turn's input was
// sent, unless stop is called before: one that lives says at once that it has it.
func (t *turn) unheard(p *process, limit time.Duration, mute chan<- struct{}) (stop func()) {
	return backends.Overdue(limit, p.busy, func() {
		if !t.heard.Load() {
			close(mute)
		}
	})
}
