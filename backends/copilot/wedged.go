package copilot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"innerd/backends"
	"innerd/events"
)

// A copilot that leaves a call unanswered which asks no model is stuck, and gets
// no new conversations. What has its process for itself ends it. In one that
// others share it may be that call alone which hangs, while their turns go on: as
// long as it answers a ping, or something has come for another conversation
// since the call, only the conversation is given up. One that is dead to
// everybody is ended, and with it every run in it: they would never end.

// errUnanswered is the cause of a call's end whose time has passed.
var errUnanswered = errors.New("no answer in time")

// call is one that asks no model. late undoes what comes when nobody waits for
// it; it may be nil. Where no answer comes the conversation is out of the
// process, and the error is an *backends.Error.
func (c *conversation) call(ctx context.Context, p *process, method string, params any, late func(json.RawMessage)) error {
	return c.calling(ctx, p, method, params, nil, late, p.peer.Handling)
}

// calling is call; the time begins anew where busy reports at its end that the
// answer may yet come.
func (c *conversation) calling(ctx context.Context, p *process, method string, params, result any, late func(json.RawMessage), busy func() bool) error {
	heard := p.heardBeside(c)
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := backends.Overdue(c.b.callLimit, busy, func() { cancel(errUnanswered) })
	defer stop()
	err := p.peer.CallLate(limited, method, params, result, late)
	if errors.Is(err, errUnanswered) {
		return c.unanswered(p, unheard{method, c.b.callLimit, heard})
	}
	return err
}

// unanswered takes the conversation out of a process that did not answer it.
func (c *conversation) unanswered(p *process, x unheard) *backends.Error {
	c.b.shun(p.slot)
	why := unansweredWords(x.method, x.limit)
	if c.b.alone(p.slot) || !p.alive() && p.heardBeside(c) == x.heard {
		p.kill(why)
		var ended *backends.Error
		if errors.As(p.peer.Err(), &ended) {
			return ended
		}
	}
	c.b.log.Error(why+"; its conversation is given up", "conversation", c.cfg.ID)
	p.remove(c.session) // what still comes is counted there
	c.giveUp()
	return &backends.Error{Type: events.ErrBackendCrashed, Message: why + "; its process lives on for others"}
}

func unansweredWords(method string, limit time.Duration) string {
	return fmt.Sprintf("copilot did not answer %s in %v", method, limit)
}

// deaf is for a call without an answer that nobody waits for, or that had little
// time. A process that is dead is ended by whoever has it alone, and else gets
// no new conversations; what is in it sees for itself.
func (p *process) deaf(method string, limit time.Duration) {
	if p.peer.Err() != nil || p.alive() {
		return
	}
	p.b.shun(p.slot)
	if p.b.alone(p.slot) {
		p.kill(unansweredWords(method, limit))
	}
}

// unheard is a call that was not answered in time.
type unheard struct {
	method string
	limit  time.Duration
	heard  int64 // what had come for other conversations when it was made
}

// overdue tells the run of a call of its turn's that is not answered in time.
func (t *turn) overdue(method string, limit time.Duration) (answered func()) {
	x := unheard{method, limit, t.p.heardBeside(t.c)}
	return backends.Overdue(limit, t.p.peer.Handling, func() { t.tellMute(x) })
}

func (t *turn) tellMute(x unheard) {
	select {
	case t.mute <- x:
	default: // another one is told of
	}
}

// hears is conversation for what has just come.
func (p *process) hears(session string) *conversation {
	c := p.conversation(session)
	if c != nil {
		p.heard.Add(1)
		c.heard.Add(1)
	}
	return c
}

// heardBeside counts what came for other conversations than c.
func (p *process) heardBeside(c *conversation) int64 { return p.heard.Load() - c.heard.Load() }

// shun keeps new conversations out of a process. It ends with the last of those
// that are in it.
func (b *Backend) shun(s *slot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pool[s.key] == s {
		delete(b.pool, s.key)
		b.shunned[s] = true
	}
}

// alone reports whether a process has one conversation only.
func (b *Backend) alone(s *slot) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return s.refs <= 1
}
