package claudecode

import (
	"context"
	"time"
)

const (
	stopLimit = 5 * time.Second  // for background work to end that was told to
	waitLimit = 10 * time.Minute // for background work that is waited for

	toolAgent    = "Agent" // starts a sub-agent; called Task in the list of tools
	toolShell    = "Bash"
	taskAgent    = "local_agent"
	inBackground = "run_in_background"
)

// task is background work, as claude lists it.
type task struct {
	ID string `json:"task_id"`
}

type stopTask struct {
	Subtype string `json:"subtype"`
	ID      string `json:"task_id"`
}

// background follows what runs on while the model goes on: claude tells all of
// it at each change.
func (t *turn) background(l *line) {
	if l.Type != lineSystem || l.Subtype != "background_tasks_changed" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	live := make(map[string]bool, len(l.Tasks))
	for _, x := range l.Tasks {
		live[x.ID] = t.live[x.ID]
		t.worked = true
	}
	t.live = live
}

// unstoppedLocked is the background work that shall end and was not told so.
func (t *turn) unstoppedLocked() (ids []string) {
	if t.waits && !t.stopping {
		return nil
	}
	for id, told := range t.live {
		if !told {
			t.live[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// working reports whether there is background work.
func (t *turn) working() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.live) > 0
}

// stopWaiting has all background work end, whatever the run's policy is.
func (t *turn) stopWaiting(p *process) {
	t.mu.Lock()
	t.stopping = true
	ids := t.unstoppedLocked()
	t.mu.Unlock()
	t.stop(p, ids)
}

// stop asks claude to end background work. Each is told as ended, or there is
// no such work any more.
func (t *turn) stop(p *process, ids []string) {
	for _, id := range ids {
		_, _ = p.ask(stopTask{"stop_task", id}, nil) // a process that has ended is seen by Run
	}
}

// awaitWork waits for the end of the turn, and for background work no longer
// than it may take. False: the run was canceled first.
func (c *conversation) awaitWork(ctx context.Context, p *process, t *turn) bool {
	var limit <-chan time.Time // nil, which waits forever, until only background work is left
	left := t.left
	given := 0
	mute := make(chan struct{})
	defer t.unheard(p, c.b.inputLimit, mute)()
	for {
		select {
		case <-t.over:
			return true
		case <-mute:
			t.deaf = c.unanswered(ctx, p, "its input", c.b.inputLimit)
			return true
		case <-p.child.Done():
			return true
		case <-ctx.Done():
			return false
		case <-left:
			left = nil
			limit = time.After(c.b.workLimit(t.waits))
		case <-limit:
			limit = time.After(c.b.stopLimit)
			if !t.working() { // it tells its model of what has ended; that has its own limits
				continue
			}
			if given++; given > 1 {
				c.b.log.Warn("claude's background work did not end; ending claude", "conversation", c.cfg.ID)
				c.endNow(ctx, p)
				t.gaveUp = true
				return true
			}
			t.stopWaiting(p)
		}
	}
}

// workLimit is how long background work may take after the last answer: where
// it is not waited for, how long claude may take to end it.
func (b *Backend) workLimit(wait bool) time.Duration {
	switch {
	case !wait:
		return b.stopLimit
	case b.o.BackgroundLimit > 0:
		return b.o.BackgroundLimit
	}
	return waitLimit
}
