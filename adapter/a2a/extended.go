package a2a

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"innerd/adapter/a2a/extension"
	"innerd/adapter/a2a/spec"
	"innerd/events"
)

// emit says an event of the extension, to clients that activated it.
func (t *translator) emit(e extension.Event) {
	if !t.ext {
		return
	}
	t.put(t.eventUpdate(e))
}

func (t *translator) eventUpdate(e extension.Event) update {
	m := t.agent(spec.Data(encode(e)))
	m.Extensions = []string{extension.URI}
	return update{
		status: &spec.TaskStatus{State: t.state, Message: m, Timestamp: stamp(t.now.TS)},
		meta:   ours(extension.UpdateInfo{Kind: e.Kind}), transient: true,
	}
}

// piece says text of the extension that may be joined.
func (t *translator) piece(key, text string, make func(text string) extension.Event) {
	if !t.ext || text == "" {
		return
	}
	t.put(update{piece: &piece{key: key, text: text, make: func(text string, _, _ bool) update { return t.eventUpdate(make(text)) }}})
}

// extended takes the events that only the extension tells of.
func (t *translator) extended(data events.Data) {
	switch d := data.(type) {
	case events.TaskID, events.Damaged:
		return
	case events.ReasoningDelta:
		t.work()
		t.piece("thought "+d.ReasoningID, d.Delta, func(text string) extension.Event {
			return extension.Event{Kind: extension.KindThought, Thought: &extension.Thought{ID: d.ReasoningID, Text: text}}
		})
		return
	}
	t.work()
	switch d := data.(type) {
	case events.Reasoning:
		t.emit(extension.Event{Kind: extension.KindThought, Thought: &extension.Thought{ID: d.ReasoningID, Text: d.Content, Done: true}})
	case events.ToolCall:
		t.tool(extension.ToolCall{ID: d.ID, Name: d.Name, Status: extension.ToolExecuting, Input: d.Input})
	case events.ToolUpdate:
		t.toolUpdate(d)
	case events.ToolComplete:
		t.toolComplete(d)
	case events.ToolRequest:
		h := extension.HostTool{ID: d.ToolCallID, Name: d.ToolName, Status: extension.HostToolRequested, Arguments: d.Arguments, DeadlineS: d.DeadlineS}
		t.hostTools = append(t.hostTools, h)
		t.emit(extension.Event{Kind: extension.KindHostTool, HostTool: &h})
	case events.ToolResolved:
		t.hostTools = slices.DeleteFunc(t.hostTools, func(h extension.HostTool) bool { return h.ID == d.ToolCallID })
		t.emit(extension.Event{Kind: extension.KindHostTool, HostTool: &extension.HostTool{ID: d.ToolCallID, Status: extension.HostToolResolved, Outcome: d.Outcome}})
	case events.Plan:
		p := extension.Plan{Entries: []extension.PlanEntry{}} // a list, also an empty one
		for _, e := range d.Entries {
			p.Entries = append(p.Entries, extension.PlanEntry(e))
		}
		t.emit(extension.Event{Kind: extension.KindPlan, Plan: &p})
	case events.TurnUsage:
		t.emit(extension.Event{Kind: extension.KindUsage, Usage: usageOf(d.Usage, true)})
	case events.Steered:
		t.emit(extension.Event{Kind: extension.KindSteered, Steered: &extension.Steered{Text: d.Text}})
	case events.SubagentStart:
		t.subagent(extension.Subagent{ID: d.ID, ParentID: d.ParentID, Name: d.Name, Phase: "started", Text: d.Text})
	case events.SubagentDelta:
		t.piece("subagent "+d.ID, d.Text, func(text string) extension.Event {
			return extension.Event{Kind: extension.KindSubagent, Subagent: &extension.Subagent{ID: d.ID, ParentID: d.ParentID, Name: d.Name, Phase: "text", Text: text}}
		})
	case events.SubagentComplete:
		t.subagent(extension.Subagent{ID: d.ID, ParentID: d.ParentID, Name: d.Name, Phase: "completed", Text: d.Result})
	}
}

func (t *translator) subagent(s extension.Subagent) {
	t.emit(extension.Event{Kind: extension.KindSubagent, Subagent: &s})
}

// tool says a call whole, and remembers it for the updates that follow.
func (t *translator) tool(c extension.ToolCall) {
	if !t.ext {
		return
	}
	if t.tools == nil {
		t.tools = map[string]extension.ToolCall{}
	}
	t.tools[c.ID] = c
	t.emit(extension.Event{Kind: extension.KindToolCall, ToolCall: &c})
}

func (t *translator) toolUpdate(d events.ToolUpdate) {
	if !t.ext {
		return
	}
	c, known := t.tools[d.ID]
	if !known { // of a sub-agent, whose calls are not announced
		c = extension.ToolCall{ID: d.ID, ParentID: d.ParentID, Name: d.Name, Status: extension.ToolExecuting, Input: d.Input}
		t.tool(c)
	}
	t.piece("tool "+d.ID, d.Output, func(text string) extension.Event {
		c := c
		c.Output = text
		return extension.Event{Kind: extension.KindToolCall, ToolCall: &c}
	})
}

func (t *translator) toolComplete(d events.ToolComplete) {
	c, known := t.tools[d.ID]
	if !known {
		c = extension.ToolCall{ID: d.ID, ParentID: d.ParentID, Name: d.Name, Input: d.Input}
	}
	delete(t.tools, d.ID)
	c.Status = extension.ToolFailed
	if d.Success {
		c.Status = extension.ToolSucceeded
	}
	c.Output, c.ExitCode, c.DurationMS = d.Result, d.ExitCode, d.DurationMS
	t.emit(extension.Event{Kind: extension.KindToolCall, ToolCall: &c})
}

// permission is what a client is asked: in words that every client can show
// and answer, and as data for those that know the extension.
func (t *translator) permission(d events.PermissionRequest) *spec.Message {
	var text strings.Builder
	fmt.Fprintf(&text, "May the agent run %s?\n%s\nAnswer with one of:", d.Tool, clip(string(d.Input), 4000))
	e := extension.Permission{RequestID: d.RequestID, Tool: d.Tool, Input: d.Input, Options: []extension.Option{}}
	for _, o := range d.Options {
		fmt.Fprintf(&text, " %s (%s)", o.ID, o.Label)
		e.Options = append(e.Options, extension.Option(o))
	}
	return t.asking(text.String(), extension.Event{Kind: extension.KindPermission, Permission: &e})
}

func (t *translator) question(d events.InputRequired) *spec.Message {
	e := extension.Question{RequestID: d.RequestID, Message: d.Message, Schema: d.Schema}
	return t.asking(d.Message, extension.Event{Kind: extension.KindQuestion, Question: &e})
}

func (t *translator) asking(text string, e extension.Event) *spec.Message {
	m := t.agent(spec.Text(text))
	if t.ext {
		m.Parts, m.Extensions = append(m.Parts, spec.Data(encode(e))), []string{extension.URI}
	}
	return m
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + " …"
}

func usageOf(u events.Usage, turn bool) *extension.Usage {
	return &extension.Usage{
		Turn: turn, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CacheReadTokens: u.CacheReadTokens,
		CacheWriteTokens: u.CacheWriteTokens, ReasoningTokens: u.ReasoningTokens, TotalTokens: u.TotalTokens,
		Cost: u.Cost, PremiumRequests: u.PremiumRequests, DurationS: u.Duration, TTFTMS: u.TTFTMS, Model: u.Model, Backend: u.Backend,
	}
}

// oursIn finds what belongs to the extension in metadata, nil if nothing does.
func oursIn(metadata spec.Object) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(metadata, &m) != nil {
		return nil
	}
	return m[extension.URI]
}
