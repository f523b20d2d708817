package changes

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"innerd/events"
)

// fileResult is what the editing tools say of a change.
type fileResult struct {
	Type         string `json:"type"`
	FilePath     string `json:"filePath"`
	NotebookPath string `json:"notebook_path"`
	Content      string `json:"content"`
	Patch        []hunk `json:"structuredPatch"`
	Original     string `json:"original_file"` // a notebook's, whole, with the next
	Updated      string `json:"updated_file"`
}

type hunk struct {
	OldStart int      `json:"oldStart"`
	OldLines int      `json:"oldLines"`
	NewStart int      `json:"newStart"`
	NewLines int      `json:"newLines"`
	Lines    []string `json:"lines"`
}

// Of is the change that a tool of claude's made, as its structured result
// tells it; false for tools that change no files.
func Of(tool string, structured json.RawMessage) (events.FileChange, bool) {
	var r fileResult
	switch tool {
	case "Write", "Edit", "NotebookEdit":
	default:
		return events.FileChange{}, false
	}
	var te *json.UnmarshalTypeError
	if err := json.Unmarshal(structured, &r); err != nil && !errors.As(err, &te) {
		return events.FileChange{}, false
	}
	path := r.FilePath
	if path == "" {
		path = r.NotebookPath
	}
	if path == "" {
		return events.FileChange{}, false
	}
	change := events.FileChange{Path: path, Kind: "edit"}
	switch {
	case r.Type == "create":
		change.Kind = "create"
		change.Diff = diffOfNew(path, r.Content)
	case r.Updated != "":
		change.Diff = unified(path, hunksOf(r.Original, r.Updated))
	default:
		change.Diff = unified(path, r.Patch)
	}
	return change, true
}

// diffOfGone is the diff of a file that is not there any more.
func diffOfGone(path, content string) string {
	return sides(path, content, '-')
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

// hunksOf is what changed between two texts as one hunk: from the first line
// that differs to the last, with three lines around.
func hunksOf(before, after string) []hunk {
	const around = 3
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	if head == len(a) && head == len(b) {
		return nil
	}
	from := max(head-around, 0)
	endA, endB := len(a)-tail, len(b)-tail
	more := min(around, tail)
	h := hunk{OldStart: from + 1, NewStart: from + 1, OldLines: endA + more - from, NewLines: endB + more - from}
	add := func(sign string, lines []string) {
		for _, l := range lines {
			h.Lines = append(h.Lines, sign+l)
		}
	}
	add(" ", a[from:head])
	add("-", a[head:endA])
	add("+", b[head:endB])
	add(" ", a[endA:endA+more])
	return []hunk{h}
}

func diffOfNew(path, content string) string { return sides(path, content, '+') }

// sides is the diff between a file and nothing.
func sides(path, content string, sign byte) string {
	if content == "" {
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	name := strings.TrimPrefix(path, "/")
	var b strings.Builder
	if sign == '+' {
		fmt.Fprintf(&b, "--- /dev/null\n+++ b/%s\n@@ -0,0 +1,%d @@\n", name, len(lines))
	} else {
		fmt.Fprintf(&b, "--- a/%s\n+++ /dev/null\n@@ -1,%d +0,0 @@\n", name, len(lines))
	}
	for _, l := range lines {
		b.WriteByte(sign)
		b.WriteString(l)
		b.WriteByte('\n')
	}
	if !strings.HasSuffix(content, "\n") {
		b.WriteString("\\ No newline at end of file\n")
	}
	return b.String()
}
