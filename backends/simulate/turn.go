package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"innerd/backends"
	"innerd/events"
)

// turn is one run while it is played, by one goroutine.
type turn struct {
	ctx  context.Context
	c    *conversation
	in   backends.Input
	h    backends.Host
	last bool // nothing is said after the step that is being played

	ids     int // messages and blocks of reasoning so far
	calls   int // native call ids so far; they repeat in the next turn, as agents' do
	rounds  int // model turns so far
	reason  string
	output  string // the last text
	usage   counter
	crashed bool
	later   []running // work in the background
}

func newTurn(ctx context.Context, c *conversation, in backends.Input, h backends.Host) *turn {
	t := &turn{ctx: ctx, c: c, in: in, h: h, rounds: 1, reason: backends.ReasonEndTurn}
	t.usage = counter{start: time.Now(), model: DefaultModel, heard: weight(c.session.Told)}
	switch m := in.Set.Model; {
	case strings.HasPrefix(m, "simulate"):
		t.usage.model = m
	case m != "":
		t.emit(events.Status{State: events.StateNotice, Detail: fmt.Sprintf("simulate has no model %q; using %s", m, DefaultModel)})
	}
	return t
}

// play plays steps in order. more says that something may be said after them.
func (t *turn) play(steps []step, more bool) error {
	for i, s := range steps {
		if err := t.err(); err != nil {
			return err
		}
		if n := t.in.Set.MaxTurns; n > 0 && t.rounds > n {
			t.reason = backends.ReasonMaxTurns
			return errDone
		}
		t.steered()
		t.last = !more && !saysAny(steps[i+1:])
		if err := s.play(t); err != nil {
			return err
		}
	}
	return nil
}

func saysAny(steps []step) bool {
	for _, s := range steps {
		if s.says() {
			return true
		}
	}
	return false
}

// finish ends the turn: its usage, its session, its outcome.
func (t *turn) finish(err error) (backends.Outcome, error) {
	if t.crashed {
		return backends.Outcome{}, err
	}
	if errors.Is(err, errDone) {
		err = nil
	}
	if err == nil {
		err = t.settle()
	}
	if err == nil {
		err = t.answerSteers()
	}
	t.c.steering.end(true)
	t.emit(t.usage.total())
	if serr := t.c.b.store.save(t.c.session, true); serr != nil {
		return backends.Outcome{}, errors.Join(err, unwritten(serr))
	}
	if err != nil {
		return backends.Outcome{Stored: true}, err
	}
	out := backends.Outcome{Reason: t.reason, Stored: true}
	if !isNull(t.in.Set.Schema) && json.Valid([]byte(t.output)) {
		out.Output = json.RawMessage(t.output)
	}
	return out, nil
}

func (t *turn) emit(d events.Data) { t.h.Emit(events.Event{Data: d}) }

// err is how the turn ends when its context has ended.
func (t *turn) err() error {
	if t.ctx.Err() == nil {
		return nil
	}
	return failure(context.Cause(t.ctx))
}

// pause waits, or returns how the turn ends.
func (t *turn) pause(d time.Duration) error {
	if d <= 0 {
		return t.err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.ctx.Done():
		return t.err()
	}
}

// id makes a name that is unique in this turn.
func (t *turn) id(prefix string) string {
	t.ids++
	return prefix + strconv.Itoa(t.ids)
}

// callID makes an agent's own id of a call. It begins at call_0 in every turn
// of every conversation: whoever relies on more must notice.
func (t *turn) callID() string {
	t.calls++
	return "call_" + strconv.Itoa(t.calls-1)
}

// remember adds to what the session was told or has said.
func (t *turn) remember(kind, text string, parts ...events.Part) {
	if kind == KindSaid && len(text) > maxSaid {
		text = cut(text, maxSaid) + " (cut)"
	}
	t.c.session.add(Entry{Kind: kind, Text: text, Parts: parts})
}
