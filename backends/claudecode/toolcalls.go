package claudecode

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

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
			t.fileChange(c.name, l.ToolUseResult)
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

// fileResult is what the editing tools say of a change.
type fileResult struct {
	Type         string `json:"type"`
	FilePath     string `json:"filePath"`
	NotebookPath string `json:"notebook_path"`
	Content      string `json:"content"`
	Patch        []hunk `json:"structuredPatch"`
}

type hunk struct {
	OldStart int      `json:"oldStart"`
	OldLines int      `json:"oldLines"`
	NewStart int      `json:"newStart"`
	NewLines int      `json:"newLines"`
	Lines    []string `json:"lines"`
}

func (t *translator) fileChange(tool string, structured json.RawMessage) {
	switch tool {
	case "Write", "Edit", "NotebookEdit":
	default:
		return
	}
	var r fileResult
	if lenient(json.Unmarshal(structured, &r)) != nil {
		return
	}
	path := r.FilePath
	if path == "" {
		path = r.NotebookPath
	}
	if path == "" {
		return
	}
	change := events.FileChange{Path: path, Kind: "edit"}
	if r.Type == "create" {
		change.Kind = "create"
		change.Diff = diffOfNew(path, r.Content)
	} else {
		change.Diff = unified(path, r.Patch)
	}
	t.emit(change)
}

func unified(path string, hunks []hunk) string {
	if len(hunks) == 0 {
		return ""
	}
	var b strings.Builder
	name := strings.TrimPrefix(path, "/")
	fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n", name, name)
	for _, h := range hunks {
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", h.OldStart, h.OldLines, h.NewStart, h.NewLines)
		for _, l := range h.Lines {
			b.WriteString(l)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func diffOfNew(path, content string) string {
	if content == "" {
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	var b strings.Builder
	fmt.Fprintf(&b, "--- /dev/null\n+++ b/%s\n@@ -0,0 +1,%d @@\n", strings.TrimPrefix(path, "/"), len(lines))
	for _, l := range lines {
		b.WriteByte('+')
		b.WriteString(l)
		b.WriteByte('\n')
	}
	if !strings.HasSuffix(content, "\n") {
		b.WriteString("\\ No newline at end of file\n")
	}
	return b.String()
}
