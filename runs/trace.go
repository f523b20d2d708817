package runs

import (
	"log/slog"
	"sync"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/events/journal"
	"innerd/telemetry"
)

// What a run's spans say of it: ids, names and counts, never a text.
const (
	attrRun          = "innerd.run.id"
	attrConversation = "gen_ai.conversation.id"
	attrBackend      = "gen_ai.agent.name"
	attrOperation    = "gen_ai.operation.name"
	attrTool         = "gen_ai.tool.name"
	attrCall         = "gen_ai.tool.call.id"
	attrState        = "innerd.run.state"
	attrReason       = "innerd.run.reason"
	attrOutcome      = "innerd.outcome"
)

func (m *Manager) span(meta journal.RunMeta, at telemetry.Link) *telemetry.Span {
	return m.opt.Tracer.Start(at, telemetry.Asked, "invoke_agent "+meta.Backend,
		telemetry.String(attrOperation, "invoke_agent"), telemetry.String(attrBackend, meta.Backend),
		telemetry.String(attrRun, meta.ID), telemetry.String(attrConversation, meta.ConversationID))
}

// toolSpan is a call's, of whichever road.
func toolSpan(run *telemetry.Span, kind telemetry.Kind, name, call string) *telemetry.Span {
	return run.Child(kind, "execute_tool "+name,
		telemetry.String(attrOperation, "execute_tool"), telemetry.String(attrTool, name), telemetry.String(attrCall, call))
}

// conclude ends the run's span, counts the run and says so in the log.
func (m *Manager) conclude(l *live, end journal.RunEnd, closing []events.Data) {
	took := end.Ended.Sub(l.meta.Created)
	m.stats.end(l.meta.Backend, Ending{end.State, end.ErrorType}, took)
	for _, d := range closing {
		if e, ok := d.(events.End); ok && e.Usage != nil {
			d = *e.Usage
		}
		if u, ok := d.(events.Usage); ok {
			setUsage(l.span, u)
		}
	}
	l.span.Set(telemetry.String(attrState, end.State), telemetry.String(attrReason, end.Reason))
	l.span.End(end.ErrorType)
	m.log.Info("run ended", l.meta.LogAttr(), l.span.LogAttr(), "state", end.State, "reason", end.Reason, "error_type", end.ErrorType, "seconds", took.Seconds())
}

func setUsage(s *telemetry.Span, u events.Usage) {
	for key, n := range map[string]*int64{"gen_ai.usage.input_tokens": u.InputTokens, "gen_ai.usage.output_tokens": u.OutputTokens} {
		if n != nil {
			s.Set(telemetry.Int(key, *n))
		}
	}
	if u.Model != "" {
		s.Set(telemetry.String("gen_ai.response.model", u.Model))
	}
}

// waits are the requests that a run's host has not answered yet.
type waits struct {
	mu   sync.Mutex
	open map[string]wait
}

type wait struct {
	since time.Time
	tool  string
	span  *telemetry.Span // of a tool; of others it is made when they are over
}

func (w *waits) begin(id, tool string, s *telemetry.Span) *telemetry.Span {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[string]wait{}
	}
	w.open[id] = wait{time.Now(), tool, s}
	return s
}

// resolved ends the wait for an answer. What policy decides, nobody was asked.
func (l *live) resolved(kind events.RequestKind, id, outcome, by string) {
	l.waits.mu.Lock()
	w, ok := l.waits.open[id]
	delete(l.waits.open, id)
	l.waits.mu.Unlock()
	if !ok || by == "policy" && outcome != events.OutcomeCanceled {
		return
	}
	fault := ""
	if kind == events.KindTool && outcome != events.OutcomeOK || outcome == events.OutcomeExpired {
		fault = outcome
	}
	if kind == events.KindTool {
		w.span.Set(telemetry.String(attrOutcome, outcome))
		w.span.End(fault)
	} else {
		l.span.Was(w.since, telemetry.Asking, "ask "+string(kind), fault, telemetry.String(attrTool, w.tool), telemetry.String(attrOutcome, outcome))
	}
	if l.stats != nil {
		l.stats.resolve(Resolution{kind, outcome}, time.Since(w.since))
	}
}

// measured makes s tell what it came to.
func (m *Manager) measured(s *start, c *conversation, run *telemetry.Span, resumed bool) {
	began := time.Now()
	s.span = run.Child(telemetry.Internal, "start_agent "+c.backend.Name(),
		telemetry.String(attrBackend, c.backend.Name()), telemetry.Bool("innerd.session.resumed", resumed))
	m.stats.starting.Add(1)
	s.told = func(verdict error) {
		m.stats.starting.Add(-1)
		m.stats.started(c.backend.Name(), verdict, time.Since(began))
		fault := ""
		if verdict != nil {
			fault = events.ErrBackendUnavailable
		}
		s.span.End(fault)
	}
}

// inTrace gives an agent that lives for this run alone its place in the run's
// trace. Any other would take it for that of every later run.
func inTrace(cfg backends.Config, c *conversation, s *start) backends.Config {
	if c.contextID == "" {
		at := s.span.Link()
		cfg.Traceparent, cfg.Tracestate = at.Parent, at.State
	}
	return cfg
}

// logAttr names a conversation in a line of a log that is about no run.
func (c *conversation) logAttr() slog.Attr {
	return slog.Group("", "conversation", c.id, "backend", c.backend.Name())
}
