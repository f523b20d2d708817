package claudecode

import (
	"encoding/json"
	"regexp"
	"strconv"

	"innerd/backends/claudecode/internal/changes"
	"innerd/events"
)

const toolStructured = "StructuredOutput" // the tool by which claude gives an answer of a schema

// toolUse tells of a call of claude's own tool. Calls of the host's tools come
// over the control channel; a sub-agent's are told when they end, but for a
// first sign.
func (t *translator) toolUse(l *line, b block) {
	if l.Parent == "" {
		t.interrupt()
	}
	t.started[b.ID] = true
	if t.silent(b.Name) || b.Name == toolStructured && t.schema {
		return
	}
	if _, again := t.calls[b.ID]; again {
		return
	}
	t.calls[b.ID] = call{name: b.Name, parent: l.Parent, start: t.now()}
	if l.Parent != "" {
		t.emit(events.ToolUpdate{ID: b.ID, ParentID: l.Parent, Name: b.Name, Input: b.Input})
		return
	}
	t.emit(events.ToolCall{ID: b.ID, Name: b.Name, Input: b.Input})
}

func (t *translator) user(l *line) {
	for _, b := range l.Message.Content {
		if b.Type != blockResult {
			continue
		}
		c, ok := t.calls[b.ToolUseID]
		if !ok {
			continue
		}
		delete(t.calls, b.ToolUseID)
		text := textOf(b.Content)
		t.emit(events.ToolComplete{
			ID: b.ToolUseID, ParentID: c.parent, Name: c.name,
			Success: !b.IsError, Result: text, ExitCode: exitCode(c.name, b.IsError, text, l.ToolUseResult),
			DurationMS: t.now().Sub(c.start).Milliseconds(),
		})
		if !b.IsError {
			if change, ok := changes.Of(c.name, l.ToolUseResult); ok {
				t.emit(change)
			}
		}
		for _, f := range t.takeLeaving(b.ToolUseID) {
			if change, ok := f.Left(); ok {
				t.emit(change)
			}
		}
	}
}

var exitLine = regexp.MustCompile(`^Exit code (\d+)`)

// exitCode is a shell command's, where claude says it: failures begin with it,
// a success without an interpretation is 0.
func exitCode(tool string, failed bool, text string, structured json.RawMessage) *int {
	if tool != "Bash" {
		return nil
	}
	code := 0
	if failed {
		m := exitLine.FindStringSubmatch(text)
		if m == nil {
			return nil
		}
		code, _ = strconv.Atoi(m[1])
		return &code
	}
	var r struct {
		Interrupted    bool   `json:"interrupted"`
		Interpretation string `json:"returnCodeInterpretation"`
	}
	if json.Unmarshal(structured, &r) != nil || r.Interrupted || r.Interpretation != "" {
		return nil
	}
	return &code
}
