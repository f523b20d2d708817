package codex

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"innerd/backends"
)

// checkLimit stops the turn when its last model turn wants to go on. Codex
// itself has no such limit.
func (t *turn) checkLimit() {
	if t.maxTurns > 0 && t.turns >= t.maxTurns && t.calls > 0 && t.limit == "" && !t.ended {
		t.limit = backends.ReasonMaxTurns
		t.interrupt()
	}
}

// failing takes an error that codex tries to get over, or that ends the turn:
// then turn/completed says it again.
func (t *turn) failing(n *notification) {
	if !n.WillRetry {
		return
	}
	e := n.Error.classed()
	t.tr.retry(e, n.Error)
	switch _, httpStatus := n.Error.kind(); {
	case n.Error.reason() != "" && t.limit == "": // it would only be refused again
		t.limit = n.Error.reason()
		t.interrupt()
	case hopeless(httpStatus), e.RetryAfter > patience:
		t.doomLocked(e) // it would be asked for again and again, or after too long
	case httpStatus == http.StatusTooManyRequests && !t.settled:
		t.answers.Go(func() { t.untilWhen(e) }) // ends after logLimit, or with the turn
	}
}

func (t *turn) doomLocked(e *backends.Error) {
	if t.doom == nil && !t.ended {
		t.doom = e
		t.interrupt()
	}
}

const (
	// patience is how long codex may wait before it asks a model again: a host
	// that knows the time can do something else meanwhile.
	patience = 15 * time.Second
	// logLimit is how long the log may take that tells the time.
	logLimit = 500 * time.Millisecond
)

// untilWhen looks for the time that codex is going to wait: it takes it from
// the provider's header, and tells it in its log alone.
func (t *turn) untilWhen(e *backends.Error) {
	look := time.NewTicker(logLimit / 10)
	defer look.Stop()
	for range 10 {
		select {
		case <-look.C:
		case <-t.over:
			return
		case <-t.ctx.Done():
			return
		}
		if wait := loggedDelay(t.s.stderr(), t.turnID()); wait > 0 {
			t.mu.Lock()
			defer t.mu.Unlock()
			if e.RetryAfter = wait; wait > patience {
				t.doomLocked(e)
			}
			return
		}
	}
}

// interrupt waits for nothing: a log that waits for its disk holds mu.
func (t *turn) interrupt() {
	answered := t.overdue("turn/interrupt", t.c.b.callLimit, t.over)
	_, err := t.s.peer.Go("turn/interrupt", threadRef{ThreadID: t.c.thread, TurnID: t.turnID()}, func(_ json.RawMessage, err error) {
		answered()
		if err != nil {
			t.c.b.log.Info("codex did not interrupt a turn", "conversation", t.c.cfg.ID, "err", err)
		}
	})
	if err != nil { // it has ended
		answered()
	}
}

// attempt is the first number of "Reconnecting... 1/2".
func attempt(message string) int {
	n := 0
	if _, rest, ok := strings.Cut(message, "... "); ok {
		for _, c := range rest {
			if c < '0' || c > '9' {
				break
			}
			n = n*10 + int(c-'0')
		}
	}
	return n
}
