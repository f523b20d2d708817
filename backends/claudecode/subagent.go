package claudecode

import (
	"innerd/events"
)

// agent is a sub-agent that runs.
type agent struct {
	parent string // the call that started it
	name   string
	said   string // its last text
}

// agentStarted tells of a sub-agent; other work that claude tells of in the
// same way is a command, whose call says it all.
func (t *translator) agentStarted(l *line) {
	if l.TaskType != taskAgent || l.TaskID == "" || t.agents[l.TaskID] != nil {
		return
	}
	t.agents[l.TaskID] = &agent{parent: l.ToolUseID, name: l.SubagentType}
	t.emit(events.SubagentStart{ID: l.TaskID, ParentID: l.ToolUseID, Name: l.SubagentType, Text: l.Prompt})
}

// below takes what a sub-agent says: it never speaks as the main one. Its
// reasoning is its own.
func (t *translator) below(l *line) {
	if l.Type != lineAssistant {
		return
	}
	for _, b := range l.Message.Content {
		switch {
		case b.Type == blockToolUse:
			t.toolUse(l, b)
		case b.Type == blockText && !l.APIError:
			t.agentSaid(l, b.Text)
		}
	}
}

func (t *translator) agentSaid(l *line, text string) {
	if a := t.agents[l.AgentID]; a != nil && text != "" {
		a.said = text
		t.emit(events.SubagentDelta{ID: l.AgentID, ParentID: a.parent, Name: a.name, Text: text})
	}
}

// taskEnded tells the end of a sub-agent, or of a command in the background.
// Its result is the last that it said, which claude may have shortened.
func (t *translator) taskEnded(l *line) {
	a := t.agents[l.TaskID]
	if a == nil {
		if t.shells[l.TaskID] {
			delete(t.shells, l.TaskID)
			t.emit(events.Status{State: events.StateNotice, Detail: "background work " + l.Status + ": " + l.Summary})
		}
		return
	}
	delete(t.agents, l.TaskID)
	result := l.Summary
	if l.Status == "completed" && a.said != "" {
		result = a.said
	}
	t.emit(events.SubagentComplete{ID: l.TaskID, ParentID: a.parent, Name: a.name, Result: result})
}

// endAgents ends those that nothing more comes from.
func (t *translator) endAgents() {
	for id, a := range t.agents {
		t.emit(events.SubagentComplete{ID: id, ParentID: a.parent, Name: a.name, Result: a.said})
	}
	clear(t.agents)
}
