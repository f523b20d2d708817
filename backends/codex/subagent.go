package codex

import (
	"innerd/events"
)

// subagent is another agent that codex has started, a thread of its own. What
// it says and does is told apart from what the main one does.
type subagent struct {
	thread string
	parent string // the call that started it
	name   string
	turn   string          // under way; "" when it rests
	turns  map[string]bool // all of them
	begun  bool            // its start was told
	over   bool            // its end was told
	last   string          // what it said last
	tr     *translator
}

func (a *subagent) busy() bool { return a.turn != "" || a.tr.running() > 0 }

// subagent handles what comes of a sub-agent's thread.
func (t *turn) subagent(thread, method string, n *notification) {
	a := t.agent(thread)
	a.turns[n.TurnID] = true
	switch method {
	case "turn/started":
		a.turn, a.over = n.TurnID, false
		t.startAgent(a)
	case "turn/completed":
		if a.turn == n.TurnID {
			a.turn = ""
		}
		t.endAgent(a)
	case methodUsage:
		t.tally.agent(thread, n.TokenUsage)
	case "item/completed":
		if n.Item.Type == itemMessage {
			a.last = n.Item.Text
		}
		a.tr.notification(method, n)
	case "error":
	default:
		a.tr.notification(method, n)
	}
}

func (t *turn) agent(thread string) *subagent {
	a := t.subs[thread]
	if a == nil {
		a = &subagent{thread: thread, turns: map[string]bool{}}
		a.tr = newTranslator(func(d events.Data) { t.emitBelow(a, d) })
		a.tr.now = t.tr.now
		t.subs[thread] = a
	}
	return a
}

// emitBelow tells an event of the main agent's as a sub-agent's.
func (t *turn) emitBelow(a *subagent, d events.Data) {
	switch d := d.(type) {
	case events.MessageDelta:
		t.startAgent(a)
		t.emit(events.SubagentDelta{ID: a.thread, ParentID: a.parent, Name: a.name, Text: d.Delta})
	case events.ToolCall:
		t.startAgent(a)
		t.emit(events.ToolUpdate{ID: d.ID, ParentID: a.call(), Name: d.Name, Input: d.Input})
	case events.ToolUpdate:
		d.ParentID = a.call()
		t.emit(d)
	case events.ToolComplete:
		d.ParentID = a.call()
		t.emit(d)
	case events.FileChange, events.Status:
		t.emit(d)
	}
}

// call is what its tools name as their parent.
func (a *subagent) call() string { return orElse(a.parent, a.thread) }

func (t *turn) startAgent(a *subagent) {
	if a.begun {
		return
	}
	a.begun = true
	for id, c := range t.spawns {
		if c == a.thread {
			a.parent = id
		}
	}
	t.emit(events.SubagentStart{ID: a.thread, ParentID: a.parent, Name: a.name, Text: t.prompts[a.thread]})
}

func (t *turn) endAgent(a *subagent) {
	if a.over || !a.begun {
		return
	}
	a.over = true
	t.emit(events.SubagentComplete{ID: a.thread, ParentID: a.parent, Name: a.name, Result: a.last})
}

// finish ends a sub-agent with its turn.
func (a *subagent) finish(t *turn) {
	a.tr.closeCalls()
	t.endAgent(a)
}

// spawned notes which call started which agents.
func (t *turn) spawned(it *item) {
	if it.Type == itemCollab && it.Tool == "spawnAgent" {
		for _, thread := range it.Receivers {
			t.spawns[it.ID], t.prompts[thread] = thread, it.Prompt
			t.s.attachAgent(thread, t.c)
			t.agent(thread)
		}
	}
	if it.Type == itemActivity && it.Kind == "started" && it.Agent != "" {
		t.spawns[it.ID] = it.Agent
		t.s.attachAgent(it.Agent, t.c)
		t.agent(it.Agent).name = it.AgentPath
	}
}

// agents are the sub-agents' turns that are under way.
func (t *turn) agents() (out []threadRef) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.subs {
		if a.turn != "" {
			out = append(out, threadRef{ThreadID: a.thread, TurnID: a.turn})
		}
	}
	return out
}

// attachAgent routes a sub-agent's thread.
func (s *server) attachAgent(thread string, c *conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.threads[thread] == nil {
		s.threads[thread] = &route{c: c, agent: thread}
	}
}

// agent takes a sub-agent's total. The first one in a run may hold what was
// before it.
func (t *tally) agent(thread string, u tokenUsage) {
	if t.agents == nil {
		t.agents = map[string]agentCounts{}
	}
	a, known := t.agents[thread]
	if !known {
		a.base = u.Total.minus(u.Last)
	}
	a.total = u.Total
	t.agents[thread] = a
}
