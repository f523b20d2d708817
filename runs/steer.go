package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/runs/history"
)

// Steer gives a running turn more input and returns when its agent has it.
// Where the turn's agent is still starting it waits.
//
// Errors: ErrNotFound, ErrUnsupported, ErrEnded, ErrWaiting, a
// *backends.FieldError, and a *backends.Error of the agent. When ctx ends the
// input may still reach the agent, and is in the log then.
func (m *Manager) Steer(ctx context.Context, owner, taskID string, msgs []history.Message) (*Run, error) {
	run, err := m.Get(owner, taskID)
	if err != nil {
		return nil, err
	}
	b := m.backends[run.log.Meta().Backend]
	if b == nil || !m.can(ctx, b).Steer {
		return nil, fmt.Errorf("%w: this agent takes no input while it works", ErrUnsupported)
	}
	l := run.live
	if _, ended := run.log.Ended(); ended || l == nil {
		return nil, ErrEnded
	}
	done := make(chan error, 1)
	if !m.background(func(context.Context) { done <- m.steer(ctx, l, msgs) }) { // ends with the agent's answer, or with the run
		return nil, ErrDraining
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return run, nil
}

// steer is one input to the turn, after those before it.
func (m *Manager) steer(ctx context.Context, l *live, msgs []history.Message) error {
	select {
	case l.steering <- struct{}{}:
		defer func() { <-l.steering }()
	case <-l.over:
		return l.gone()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var parts []events.Part
	for _, msg := range msgs {
		more, err := m.promptParts(l, msg)
		if context.Cause(l.ctx) != nil {
			return l.gone() // its cause is for who ended it, whose words it may have
		}
		if err != nil {
			return err
		}
		parts = append(parts, more...)
	}
	for {
		agent, change, err := l.steerable()
		if err != nil {
			return err
		}
		if agent != nil {
			err := m.steerAgent(l, *agent, parts)
			if err == nil {
				m.steered(l, msgs)
			}
			if !errors.Is(err, backends.ErrTooLate) {
				return err
			}
			// Over, moved into a new session before anything was sent, or not
			// yet begun: of that nothing tells.
		}
		if err := changed(ctx, change, agent != nil); err != nil {
			return err
		}
	}
}

// steerAgain is after how long an agent that had no turn to steer is asked again.
const steerAgain = 20 * time.Millisecond

// changed waits for a change, or, where again, for the time to ask again.
func changed(ctx context.Context, change <-chan struct{}, again bool) error {
	var due <-chan time.Time
	if again {
		timer := time.NewTimer(steerAgain)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-change:
	case <-due:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// working is an agent that has a run's turn.
type working struct {
	agent backends.Conversation
	ctx   context.Context // of the turn
}

// steerable gives the agent that has the turn, nil while there is none, and
// what is closed when that changes.
func (l *live) steerable() (*working, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case closed(l.over), l.canceling || context.Cause(l.ctx) != nil:
		return nil, nil, l.goneLocked()
	case !closed(l.turn):
		return nil, nil, fmt.Errorf("%w: it is queued behind another run of its conversation", ErrWaiting)
	case l.waiting():
		return nil, nil, fmt.Errorf("%w: answer what it has asked its host first", ErrWaiting)
	}
	return l.working, l.change, nil
}

// gone says to others than who ended it why a run takes nothing more: ErrEnded.
func (l *live) gone() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.goneLocked()
}

func (l *live) goneLocked() error {
	switch {
	case closed(l.done):
		return ErrEnded
	case l.canceling, errors.Is(context.Cause(l.ctx), backends.ErrCanceled):
		return errCanceling
	}
	return errEnding
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// work notes which agent has the turn; nil: none any more.
func (l *live) work(w *working) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.working = w
	close(l.change)
	l.change = make(chan struct{})
}

// endSteering lets no further input in, and waits a moment for one that the
// agent was about to take: what it was told is written down with its turn.
func (l *live) endSteering() {
	l.mu.Lock()
	close(l.over)
	close(l.change)
	l.change = make(chan struct{})
	l.mu.Unlock()
	late := time.NewTimer(time.Second)
	defer late.Stop()
	select {
	case l.steering <- struct{}{}: // for good
	case <-late.C:
	}
}

func (m *Manager) steerAgent(l *live, w working, parts []events.Part) (err error) {
	s, ok := w.agent.(backends.Steerer)
	if !ok {
		return fmt.Errorf("%w: this agent takes no input while it works", ErrUnsupported)
	}
	defer recovered(m.log.With(l.meta.LogAttr()), "steer", &err)
	l.rec.beginSteer()
	err = s.Steer(w.ctx, parts)
	if err != nil && context.Cause(w.ctx) != nil {
		return backends.ErrTooLate
	}
	return err
}

// steered notes what the agent was told. One that knew the place in its own
// output has put it into the log itself.
func (m *Manager) steered(l *live, msgs []history.Message) {
	var texts []string
	for _, msg := range msgs {
		if msg.Text != "" {
			texts = append(texts, msg.Text)
		}
	}
	l.rec.steered(strings.Join(texts, "\n"))
	err := l.conv.update(m.store, func(st *storedConversation) {
		for _, t := range texts {
			st.Record.Steered(l.meta.ID, t)
		}
	})
	if err != nil {
		m.log.Error("a conversation's record was not written", l.meta.LogAttr(), "error", err)
	}
}
