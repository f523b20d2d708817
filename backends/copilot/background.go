package copilot

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"innerd/events"
)

const (
	taskLimit   = 2 * time.Second        // for copilot to list or end what runs beside a turn
	taskPause   = 100 * time.Millisecond // between ending it and looking again
	taskPoll    = time.Second            // between looks at what is waited for
	maxUnlisted = 3                      // lists that fail
	maxRounds   = 20                     // looks at what does not end although it was told to
	maxWaits    = 600                    // looks at what is waited for: ten minutes
)

// Whether a task holds its session.
const (
	attachAttached = "attached"
	attachDetached = "detached"
)

// background looks at what still runs when the model has stopped: commands and
// sub-agents. They are ended, or waited for; then copilot asks its model once
// more by itself. It gives the time to look again, nil where the turn goes on
// or is over.
func (c *conversation) background(p *process, t *turn, wait bool, round int) <-chan time.Time {
	quiet := false
	t.locked(func() { quiet = t.quiet })
	if !quiet {
		return nil // it has begun anew, and will stop once more
	}
	round -= t.unlisted
	running, err := c.tasks(p, attachAttached)
	switch {
	case err != nil && p.peer.Err() == nil && t.unlisted < maxUnlisted:
		t.unlisted++
		return time.After(taskPause)
	case err != nil && p.peer.Err() == nil && t.unlisted == maxUnlisted:
		t.unlisted++ // what is left is ended by its mark, as after a cancel
		t.locked(func() {
			t.emit(status(events.StateNotice, "copilot does not say what still runs in the background; it is ended with the turn"))
		})
		fallthrough
	case len(running) == 0 || !wait && round > maxRounds || round > maxWaits+maxRounds:
		t.locked(func() {
			if t.halt.on() || t.quiet && t.in.close() {
				t.in.shut()
				t.finishLocked()
			}
		})
		return nil
	case wait && round <= maxWaits:
		if round == 1 {
			t.locked(func() { t.emit(status(events.StateWaiting, "for what runs in the background: "+running[0].what())) })
		}
		t.alive() // copilot has said so: a long command is no stall
		return time.After(taskPoll)
	}
	for _, x := range running {
		if round == 1 || round == maxWaits+1 { // before its end, which may be the turn's
			t.locked(func() { t.tellEnded(x) })
		}
		c.cancelTask(p, x)
	}
	return time.After(taskPause)
}

// tasks are those that run: attached ones hold the session, detached ones do not.
func (c *conversation) tasks(p *process, attachment string) ([]task, error) {
	var list taskList
	if err := p.call(context.Background(), taskLimit, "session.tasks.list", sessionOnly{c.session}, &list); err != nil {
		return nil, err
	}
	c.noteLogs(c.session, list.Tasks)
	var out []task
	for _, x := range list.Tasks {
		mode := orElse(x.Attachment, attachAttached)
		if (x.Status == "running" || x.Status == "idle" && x.Type == "agent") && mode == attachment {
			out = append(out, x)
		}
	}
	return out, nil
}

func (c *conversation) cancelTask(p *process, x task) {
	_ = p.call(context.Background(), taskLimit, "session.tasks.cancel", taskParams{c.session, x.ID}, nil)
	c.b.removeLog(x.LogPath)
}

// tellEnded tells that background work is ended with the turn.
func (t *turn) tellEnded(x task) {
	t.emit(status(events.StateNotice, "background work is ended with the turn: "+x.what()))
}

func (x *task) what() string { return orElse(x.Description, orElse(x.Command, x.ID)) }

// endDetached ends commands that were told to outlive the session; notice is
// called before each end.
func (c *conversation) endDetached(p *process, notice func(task)) {
	c.mu.Lock()
	any := c.detaches
	c.mu.Unlock()
	if !any || p.peer.Err() != nil {
		return
	}
	running, err := c.tasks(p, attachDetached)
	if err != nil { // it stays noted that there are some: the next turn's end tries again
		c.b.log.Warn("copilot does not say what it has detached", "conversation", c.cfg.ID, "err", err)
		return
	}
	for _, x := range running {
		notice(x)
		c.cancelTask(p, x)
	}
	c.mu.Lock()
	c.detaches = false
	c.mu.Unlock()
}

// detached reports whether a command was told to outlive its session.
func detached(args json.RawMessage) bool {
	return bytes.Contains(args, []byte(`"detach":true`)) || bytes.Contains(args, []byte(`"detach": true`))
}

// sweep ends what the session's commands have left: they bear its id.
// Copilot itself ends only what is still a child of its shell.
func (c *conversation) sweep(ctx context.Context, p *process) {
	c.mu.Lock()
	shells := c.shells
	c.shells = false
	c.mu.Unlock()
	if !shells {
		return
	}
	if err := p.child.SweepWith(ctx, "COPILOT_AGENT_SESSION_ID="+c.session); err != nil {
		c.b.log.Warn("commands of a conversation could not be ended", "conversation", c.cfg.ID, "err", err)
	}
}
