package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/telemetry"
)

// opening is what an agent is opened with beside its conversation.
type opening struct {
	dir        string
	addDirs    []string
	env        map[string]string
	credential *backends.Credential
}

func (s *Spec) opening() opening { return opening{s.Dir, s.AddDirs, s.Env, s.Credential} }

// key names what an agent's process depends on and can't change later.
func (o opening) key() string {
	cred := ""
	if o.credential != nil {
		cred = o.credential.Key + "\x00" + o.credential.BaseURL + "\x00" + o.credential.Provider
	}
	env, _ := json.Marshal(o.env) // a map of strings; sorted by key
	return hash(fmt.Sprintf("%q %q %s %q", o.dir, o.addDirs, env, cred))
}

// open starts an agent in its turn among the starts. The start that it returns
// goes on until the agent has shown a sign of life; the caller ends it.
//
// The wait for a turn has no limit of its own: every start gives its place up
// within the limit for starts, and a run has its limit and can be canceled.
func (m *Manager) open(ctx context.Context, c *conversation, o opening, session backends.Session, run *telemetry.Span) (conv backends.Conversation, s *start, err error) {
	if err := m.spawns.Acquire(ctx, 1); err != nil {
		return nil, nil, context.Cause(ctx)
	}
	limited, cancel := context.WithTimeoutCause(ctx, m.lim.Open, &backends.Error{
		Type: events.ErrBackendUnavailable, Message: fmt.Sprintf("it did not start within %s", m.lim.Open),
	})
	defer cancel()
	if s, err = m.breakers[c.backend.Name()].begin(len(o.env) > 0, m.place()); err != nil {
		return nil, nil, err
	}
	m.makeRoom()
	m.measured(s, c, run, !session.Zero())
	defer func() {
		if err != nil {
			s.over(err, true)
		}
	}()
	defer recovered(m.log.With(c.logAttr()), "open", &err)
	conv, err = c.backend.Open(limited, inTrace(m.config(c, o, session), c, s))
	if err != nil && ctx.Err() == nil && limited.Err() != nil && !isBackendError(err) {
		err = context.Cause(limited) // it says only that its time was over
	}
	return conv, s, err
}

func isBackendError(err error) bool {
	var be *backends.Error
	return errors.As(err, &be) || errors.Is(err, backends.ErrNoSession)
}

// place gives the function that gives up a place among the starts. An agent
// that is up and says nothing does not keep it for ever.
func (m *Manager) place() func() {
	free := sync.OnceFunc(func() { m.spawns.Release(1) })
	late := time.AfterFunc(m.lim.Open, free)
	return func() { late.Stop(); free() }
}

func (m *Manager) config(c *conversation, o opening, session backends.Session) backends.Config {
	return backends.Config{
		ID: c.id, Dir: o.dir, AddDirs: o.addDirs, Env: o.env, Credential: o.credential,
		Grace: m.lim.Grace, Session: session, MCP: m.secondRoad(c),
		Save: func(s backends.Session) error {
			return c.update(m.store, func(st *storedConversation) { st.Session, st.Dir = s, o.dir })
		},
		Stray: func(e events.Event) {
			m.log.Info("the agent spoke outside a run", c.logAttr(), "type", e.Type())
		},
	}
}

// settle ends the start that the run's turn was, if it was one. A warm agent
// that could not come up again counts too.
func (m *Manager) settle(l *live, err error) {
	if s := l.starting.Swap(nil); s != nil {
		s.over(err, false)
		return
	}
	if startOf(err, false) == nil || len(l.spec.Env) > 0 {
		return
	}
	var be *backends.Error
	if !errors.As(err, &be) || be.Type != events.ErrBackendUnavailable || be.RetryAfter > 0 {
		return
	}
	if s, refused := m.breakers[l.conv.backend.Name()].begin(false, func() {}); refused == nil {
		s.over(err, false)
	}
}
