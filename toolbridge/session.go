package toolbridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"innerd/events"
)

// errClosed is the cause where Close was given none.
var errClosed = errors.New("the run is over")

// Session is the bridge's side of one run.
type Session struct {
	b     *Bridge
	c     SessionConfig
	tools map[string]*tool

	// logMu orders what the session logs, and is held while it does. Neither
	// Wait nor an answer's lookup needs it. It is taken before b.mu.
	logMu sync.Mutex

	// Guarded by b.mu.
	all    []*Pending // not over yet, oldest first
	closed bool
	cause  error
}

// Request announces r in the log, in the order of calls, and returns; the
// answer comes by Wait. A request that the host never has to see is resolved
// at once: because the run may not make it, by policy, because nobody is there, because its arguments do not
// fit the tool's schema (a session.status notice says so), or because ctx or
// the session has ended.
func (s *Session) Request(ctx context.Context, r events.Request) *Pending {
	p := newPending(s, r)
	if why := s.admit(r.Kind); why != "" {
		s.b.resolve(p, resolution{answer: refusedAnswer(r.Kind, why)})
		return p
	}
	refusal := s.check(p)
	s.logMu.Lock()
	defer s.logMu.Unlock()
	if refusal != "" {
		s.log(events.Status{State: events.StateNotice, Detail: refusal})
		s.b.resolve(p, resolution{answer: errorAnswer(refusal)})
		return p
	}
	if err := context.Cause(ctx); err != nil {
		s.b.resolve(p, canceled(err))
		return p
	}
	p.ctx = ctx
	s.beginLogLocked(p)
	p.watch()
	return p
}

func (s *Session) admit(kind events.RequestKind) string {
	if s.c.Admit == nil {
		return ""
	}
	return s.c.Admit(kind)
}

func refusedAnswer(kind events.RequestKind, why string) events.Answer {
	if kind == events.KindPermission {
		return events.Answer{Outcome: events.OutcomeDenied, By: byPolicy, Message: why}
	}
	return events.Answer{Outcome: events.OutcomeCanceled, IsError: true, Result: why}
}

// beginLogLocked registers p and announces it, if it can be announced now.
func (s *Session) beginLogLocked(p *Pending) {
	if p.r.Kind == events.KindPermission {
		if a, ok := s.policy(p); ok {
			s.decideLogLocked(p, a)
			return
		}
	}
	if p.r.Kind == events.KindQuestion && !s.c.Interactive {
		s.b.resolve(p, resolution{answer: nobodyPresent()})
		return
	}
	s.b.mu.Lock()
	if s.closed {
		cause := s.cause
		s.b.mu.Unlock()
		s.b.resolve(p, canceled(cause))
		return
	}
	s.all = append(s.all, p)
	if p.tool != nil && p.tool.serial {
		if p.tool.busy {
			p.tool.queue = append(p.tool.queue, p)
			s.b.mu.Unlock()
			return
		}
		p.tool.busy = true
	}
	s.openLocked(p)
	s.b.mu.Unlock()
	s.announceLogLocked(p)
}

// openLocked makes p answerable and starts its clock. Its resolution cannot
// be logged before its announcement, since the caller holds logMu.
func (s *Session) openLocked(p *Pending) {
	p.state = stateOpen
	p.since = s.b.opt.Now()
	s.b.open[p.id] = p
	if d := s.limitLocked(p); d > 0 {
		p.limit = d
		p.deadline = p.since.Add(d)
		p.timer = time.AfterFunc(d, func() { s.b.expire(p) })
	}
}

// limitLocked is how long p may stay open from now; 0 without a limit. Tool
// calls that are open together count one after another, since hosts may run
// them so: p's own time begins when the last of them must be over. Behind one
// without a limit there is none either.
func (s *Session) limitLocked(p *Pending) time.Duration {
	switch p.r.Kind {
	case events.KindPermission:
		return cmp.Or(p.r.Timeout, s.b.opt.Permission)
	case events.KindQuestion:
		return cmp.Or(p.r.Timeout, s.c.InputTimeout, s.b.opt.Question)
	}
	own := cmp.Or(p.r.Timeout, s.c.ToolTimeout)
	if own <= 0 {
		return 0
	}
	begin := p.since
	for _, q := range s.all {
		if q == p || q.state != stateOpen || q.r.Kind != events.KindTool {
			continue
		}
		if q.deadline.IsZero() {
			return 0
		}
		if q.deadline.After(begin) {
			begin = q.deadline
		}
	}
	return begin.Sub(p.since) + own
}

func (s *Session) announceLogLocked(p *Pending) {
	s.log(p.announcement())
	s.notify(s.c.OnOpen, p.r.Kind)
}

// Pending lists the requests that wait for the host, oldest first.
func (s *Session) Pending() []PendingInfo {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	var out []PendingInfo
	for _, p := range s.all {
		if p.state == stateOpen {
			out = append(out, p.info())
		}
	}
	return out
}

// Close resolves what is open as canceled, in the log too, with cause as the
// error of Wait, and returns when nothing of the session will be logged any
// more. Later requests are resolved at once. A second Close joins the first.
func (s *Session) Close(cause error) {
	if cause == nil {
		cause = errClosed
	}
	s.b.mu.Lock()
	if !s.closed {
		s.closed, s.cause = true, cause
	}
	if s.b.sessions[s.c.RunID] == s {
		delete(s.b.sessions, s.c.RunID)
	}
	all := slices.Clone(s.all)
	s.b.mu.Unlock()
	for _, p := range all {
		s.b.resolve(p, canceled(cause))
	}
	for _, p := range all {
		<-p.done
	}
	// A Request that was already past the check of closed has logged by now;
	// it resolved itself, or stands in all.
	s.logMu.Lock()
	defer s.logMu.Unlock()
}

// log appends to the run's log. A panic in there is contained: the request
// goes on, and the run hears of it by its own log.
func (s *Session) log(d events.Data) {
	defer s.contain("Log")
	if s.c.Log != nil {
		s.c.Log(d)
	}
}

func (s *Session) notify(f func(events.RequestKind, int), kind events.RequestKind) {
	if f == nil {
		return
	}
	defer s.contain("callback")
	s.b.mu.Lock()
	n := 0
	for _, p := range s.all {
		if p.state == stateOpen {
			n++
		}
	}
	s.b.mu.Unlock()
	f(kind, n)
}

func (s *Session) contain(what string) {
	if v := recover(); v != nil {
		s.b.opt.Logger.Error("panic in a callback of the tool bridge", s.logAttr(), "callback", what, "panic", fmt.Sprint(v))
	}
}
