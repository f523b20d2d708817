package copilot

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"innerd/events"
)

// tool is an event of a call. The host's tools have requests of their own; a
// sub-agent's calls are told when they end, but for a first sign.
func (t *translator) tool(e *event) {
	d := &e.Data
	switch e.Type {
	case evToolStart:
		t.toolStart(e)
	case evToolPartial:
		c := t.calls[d.ToolCallID]
		if c == nil || c.pieces || len(d.PartialOutput) <= c.output {
			return // it is cumulative, and its last piece comes twice
		}
		piece := d.PartialOutput[c.output:]
		c.output = len(d.PartialOutput)
		t.output(d.ToolCallID, c, piece)
	case evShellOutput: // the other way to tell a command's output ends after 10,000 characters
		if c := t.calls[d.ToolCallID]; c != nil && d.Text != "" {
			c.pieces = true
			t.output(d.ToolCallID, c, d.Text)
		}
	case evToolComplete:
		t.toolComplete(d)
	}
}

func (t *translator) output(id string, c *call, piece string) {
	t.emit(events.ToolUpdate{ID: id, ParentID: c.parent, Name: c.name, Output: strings.ToValidUTF8(piece, "\uFFFD")})
}

func (t *translator) toolStart(e *event) {
	d := &e.Data
	if e.AgentID == "" {
		t.interrupt()
	}
	if t.silent(d.ToolName) {
		return
	}
	if t.calls[d.ToolCallID] != nil {
		return
	}
	c := &call{name: d.ToolName, start: t.now()}
	if e.AgentID != "" {
		c.parent = orElse(d.ParentToolCallID, t.agentOf(e.AgentID).call)
		if c.parent == "" {
			c.parent = e.AgentID
		}
	}
	t.calls[d.ToolCallID] = c
	if c.parent != "" {
		t.emit(events.ToolUpdate{ID: d.ToolCallID, ParentID: c.parent, Name: c.name, Input: object(d.Arguments)})
		return
	}
	t.emit(events.ToolCall{ID: d.ToolCallID, Name: c.name, Input: object(d.Arguments)})
}

func (t *translator) toolComplete(d *data) {
	c := t.calls[d.ToolCallID]
	if c == nil {
		return
	}
	delete(t.calls, d.ToolCallID)
	var r toolResult
	if lenient(json.Unmarshal(orNull(d.Result), &r)) != nil { // it may be the text itself; else it has none
		_ = json.Unmarshal(d.Result, &r.Content)
	}
	done := events.ToolComplete{
		ID: d.ToolCallID, ParentID: c.parent, Name: c.name, Success: d.Success, Result: r.Content,
		DurationMS: t.now().Sub(c.start).Milliseconds(),
	}
	if !d.Success {
		done.Result = orElse(errorText(d.Error), r.Content)
	}
	if d.Shell != nil && d.Shell.ExitCode != nil {
		code := int(*d.Shell.ExitCode)
		done.ExitCode = &code
		done.Success = done.Success && code == 0 // copilot calls a command that failed a success
	}
	t.emit(done)
	if d.Success {
		t.fileChanges(d.FileEdits, r.Detailed)
	}
}

// closeCalls ends the calls that copilot has said no more of.
func (t *translator) closeCalls() {
	ids := slices.SortedFunc(maps.Keys(t.calls), func(a, b string) int { return t.calls[a].start.Compare(t.calls[b].start) })
	for _, id := range ids {
		c := t.calls[id]
		delete(t.calls, id)
		t.emit(events.ToolComplete{
			ID: id, ParentID: c.parent, Name: c.name, Result: "copilot did not say how this call ended",
			DurationMS: t.now().Sub(c.start).Milliseconds(),
		})
	}
}

// fileChanges tells of the files that a tool has changed, each with its part
// of the diff. A move is told as a new file and one that is gone, whose diffs
// name both.
func (t *translator) fileChanges(edits []fileEdit, diff string) {
	parts := splitDiff(diff)
	gone := map[string]bool{}
	for _, p := range parts {
		if from, to := p.names(); from != to && from != noFile && to != noFile {
			gone[from] = true
		}
	}
	for _, f := range edits {
		change := events.FileChange{Path: f.Path, Kind: changeKind(f.Kind)}
		path := strings.TrimPrefix(f.Path, "/")
		if f.Path == "" || change.Kind == "delete" && gone[path] {
			continue
		}
		for _, p := range parts {
			from, to := p.names()
			if len(parts) == 1 || to == path || from == path {
				change.Diff = string(p)
				if from != to && from != noFile && to == path {
					change.Kind = "move"
				}
				break
			}
		}
		t.emit(change)
	}
}

func changeKind(kind string) string {
	switch kind {
	case "create", "delete", "move":
		return kind
	case "rename":
		return "move"
	}
	return "edit"
}

const (
	diffBegin = "diff --git "
	noFile    = "dev/null"
)

// fileDiff is one file's part of a diff.
type fileDiff string

// names are the file's names before and after, without the slash at their
// beginning.
func (d fileDiff) names() (from, to string) {
	line := strings.TrimPrefix(firstLine(string(d)), diffBegin+"a/")
	from, to, _ = strings.Cut(line, " b/")
	return from, to
}

// splitDiff gives each file's part, with the names that other programs expect
// where there is no file, and without git's line of hashes, which are not.
func splitDiff(diff string) []fileDiff {
	var out []fileDiff
	for _, p := range strings.Split("\n"+diff, "\n"+diffBegin)[1:] {
		p = strings.Replace(p, "\n--- a/dev/null\n", "\n--- /dev/null\n", 1)
		p = strings.Replace(p, "\n+++ b/dev/null\n", "\n+++ /dev/null\n", 1)
		p = strings.Replace(p, "\nindex 0000000..0000000 100644\n", "\n", 1)
		p = strings.Replace(p, "\nindex 0000000..0000000\n", "\n", 1)
		out = append(out, fileDiff(diffBegin+strings.TrimRight(p, "\n")+"\n"))
	}
	return out
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// subagent tells of the beginning and the end of a sub-agent.
func (t *translator) subagent(e *event) {
	d := &e.Data
	a := t.agentOf(e.AgentID)
	switch e.Type {
	case evSubStart:
		a.call, a.name, a.open = d.ToolCallID, orElse(d.DisplayName, d.AgentName), true
		t.emit(events.SubagentStart{ID: e.AgentID, ParentID: a.call, Name: a.name, Text: d.Description})
	default:
		if !a.open {
			return
		}
		a.open = false
		result := a.text
		if e.Type == evSubFailed {
			result = "failed: " + errorText(d.Error)
		}
		t.emit(events.SubagentComplete{ID: e.AgentID, ParentID: a.call, Name: a.name, Result: result})
	}
}

// agentOf is a sub-agent, also one whose start was not told.
func (t *translator) agentOf(id string) *agent {
	a := t.agents[id]
	if a == nil {
		a = new(agent)
		t.agents[id] = a
	}
	return a
}

// ofAgent is what a sub-agent says: never a part of the main answer.
func (t *translator) ofAgent(e *event) {
	d := &e.Data
	known := t.agents[e.AgentID] != nil
	a := t.agentOf(e.AgentID)
	switch e.Type {
	case evUser:
		if !known { // it was started in a turn before
			a.open = true
			t.emit(events.SubagentStart{ID: e.AgentID})
		}
	case evMessagePart:
		t.said[d.MessageID] = true
		t.emit(events.SubagentDelta{ID: e.AgentID, ParentID: a.call, Name: a.name, Text: d.DeltaContent})
	case evMessage:
		if d.Content == "" {
			return
		}
		a.text = d.Content
		if !t.said[d.MessageID] {
			t.emit(events.SubagentDelta{ID: e.AgentID, ParentID: a.call, Name: a.name, Text: d.Content})
		}
	}
}

// errorText is the message of an error, which is an object or a text.
func errorText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(orNull(raw), &s) == nil {
		return s
	}
	var o struct {
		Message string `json:"message"`
	}
	_ = lenient(json.Unmarshal(raw, &o)) // what is neither has no words
	return o.Message
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// plainNotice is a notification without the tags around it.
func plainNotice(s string) string {
	s = strings.ReplaceAll(s, "<system_notification>", "")
	return strings.TrimSpace(strings.ReplaceAll(s, "</system_notification>", ""))
}
