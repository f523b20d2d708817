package runs

import (
	"context"
	"errors"
	"net/url"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/runs/history"
)

// giveUpAfter is how long past its grace an agent may take to stop. With the
// grace it stays below what a cancel waits.
const giveUpAfter = 4 * time.Second

// converse runs the turn in the conversation's agent, opening it where it is
// cold, and again in a new session where the settings need one.
func (m *Manager) converse(l *live) (backends.Outcome, error) {
	hist, prompt, err := promptOf(l.spec)
	if err != nil {
		return backends.Outcome{}, err
	}
	parts, err := m.promptParts(l, prompt)
	if err != nil {
		return backends.Outcome{}, err
	}
	fresh := l.spec.FreshSession
	for attempt := 0; ; attempt++ {
		out, err := m.attempt(l, hist, prompt, parts, fresh)
		if attempt > 0 || !(errors.Is(err, backends.ErrNewSession) || errors.Is(err, backends.ErrNoSession)) {
			return out, err
		}
		fresh = true
	}
}

// attempt is one try: decide what to tell, have an agent, run.
func (m *Manager) attempt(l *live, hist []history.Message, prompt history.Message, parts []events.Part, fresh bool) (out backends.Outcome, err error) {
	plan := m.plan(l, hist, fresh)
	agent, err := m.agent(l, plan.session)
	if err != nil {
		return backends.Outcome{}, err
	}
	defer func() { m.settle(l, err) }()
	l.rec.record(events.Status{State: events.StateHistory, Mode: string(plan.Mode), Reason: plan.Reason})
	if err := m.tell(l, plan, prompt); err != nil {
		return backends.Outcome{}, err
	}
	in := backends.Input{Parts: append(parts[:len(parts):len(parts)], plan.attachments...), History: plan.block, Set: m.settings(l)}
	l.rec.record(events.Status{State: events.StateWorking})
	return m.runAgent(l, agent, in)
}

// runAgent runs the turn and gives an agent up that does not return when it
// is told to stop: its late events are dropped by the sealed recorder.
func (m *Manager) runAgent(l *live, agent backends.Conversation, in backends.Input) (backends.Outcome, error) {
	ctx, cancel := context.WithCancelCause(l.ctx)
	defer cancel(backends.ErrTooLate) // for input that comes too late
	l.work(&working{agent, ctx})
	defer l.work(nil)
	out := make(chan backends.Outcome, 1)
	err := m.bounded(l.ctx, l.conv, func() error {
		o, err := agent.Run(l.ctx, in, runHost{l})
		out <- o
		return err
	})
	select {
	case o := <-out:
		m.sweep(l, agent, err)
		return o, err
	default: // given up, or it panicked
		return backends.Outcome{}, err
	}
}

// sweepWait bounds how long a run's end waits for what its commands left: a
// little longer than a sweep takes that finds what it can't end.
const sweepWait = 6 * time.Second

// sweep ends what the turn's commands have left running, before the run's end
// is seen. It has a limit of its own: an agent that took its whole grace did
// stop, and is not given up for what its commands take.
func (m *Manager) sweep(l *live, agent backends.Conversation, err error) {
	// What was to be waited for may go on where its agent does not know of it.
	leave := err == nil && l.spec.Settings.Background == backends.BackgroundWait
	s, ok := agent.(backends.Sweeper)
	if !ok || leave || !l.rec.worked() {
		return
	}
	swept := make(chan struct{})
	m.wg.Add(1)
	go func() { // ends with the sweep; Shutdown waits for it
		defer m.wg.Done()
		defer close(swept)
		var err error
		defer recovered(m.log.With(l.conv.logAttr()), "sweep", &err)
		s.Sweep(l.ctx)
	}()
	late := time.NewTimer(sweepWait)
	defer late.Stop()
	select {
	case <-swept:
	case <-late.C:
		// It would take the next turn's commands for this one's.
		m.log.Error("what a run's commands left could not be ended in time; its agent is given up", l.meta.LogAttr())
		m.dropAgent(l.conv)
	}
}

// promptParts is the prompt with its attachments loaded. One that can't be
// loaded is a note to the agent and to the host.
func (m *Manager) promptParts(l *live, prompt history.Message) ([]events.Part, error) {
	parts := make([]events.Part, 0, 1+len(prompt.Attachments))
	if prompt.Text != "" {
		parts = append(parts, events.Text(prompt.Text))
	}
	for _, a := range prompt.Attachments {
		parts = append(parts, m.load(l, a))
	}
	if len(parts) == 0 {
		return nil, errNoPrompt
	}
	return parts, context.Cause(l.ctx)
}

// bareURL is a URL without what of it may be a key.
func bareURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(a URL that cannot be read)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

func (m *Manager) load(l *live, a events.Part) events.Part {
	if a.URL == "" || a.Data != "" {
		return a
	}
	var err error
	if m.opt.Fetch == nil {
		err = errors.New("this server loads no URLs")
	} else {
		var got events.Part
		if got, err = m.opt.Fetch(l.ctx, a); err == nil {
			return got
		}
	}
	note := "attachment " + bareURL(a.URL) + " could not be loaded: " + err.Error()
	l.rec.record(events.Status{State: events.StateNotice, Detail: note})
	return events.Text("[" + note + "]")
}
