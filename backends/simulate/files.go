package simulate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"innerd/events"
)

// change is a change of a file by the agent's own tool. It never leaves the
// conversation's directory, or one of those added to it, whatever links stand there.
type change struct {
	kind, path, to string
	text, old, new string
}

func makeChange(o *object) step {
	in := o.inner("change", "kind", "path", "to", "text", "old", "new")
	in.need("kind")
	in.need("path")
	return change{
		kind: in.oneOf("kind", "create", "edit", "delete", "move"), path: in.str("path"), to: in.str("to"),
		text: in.str("text"), old: in.str("old"), new: in.str("new"),
	}
}

func (change) says() bool { return false }

func (s change) play(t *turn) error {
	id := t.callID()
	input := jsonOf(map[string]string{"kind": s.kind, "path": s.path})
	t.emit(events.ToolCall{ID: id, Name: "file", Input: input})
	done := events.ToolComplete{ID: id, Name: "file", Success: true, Result: s.kind + " " + s.path}
	told, err := s.do(t.c.cfg.Dir, t.c.cfg.AddDirs...)
	if err != nil {
		done.Success, done.Result = false, err.Error()
	} else {
		t.emit(told)
	}
	t.emit(done)
	t.rounds++
	return nil
}

// do changes the file, in the directory or in one that was added to it, and
// tells what was changed.
func (s change) do(dir string, added ...string) (told events.FileChange, err error) {
	for _, d := range added {
		if _, err := inside(d, s.path); err == nil && filepath.IsAbs(s.path) {
			dir = d
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return told, err
	}
	defer root.Close()
	path, err := inside(dir, s.path)
	if err != nil {
		return told, err
	}
	told = events.FileChange{Path: s.path, Kind: s.kind}
	switch s.kind {
	case "create":
		told.Diff = diff("/dev/null", path, 0, "", s.text)
		return told, root.WriteFile(path, []byte(s.text), 0o644)
	case "edit":
		raw, err := root.ReadFile(path)
		if err != nil {
			return told, err
		}
		before, after, ok := strings.Cut(string(raw), s.old)
		if !ok || s.old == "" {
			return told, fmt.Errorf("%s does not hold %q", s.path, s.old)
		}
		told.Diff = diff(path, path, strings.Count(before, "\n")+1, s.old, s.new)
		return told, root.WriteFile(path, []byte(before+s.new+after), 0o644)
	case "delete":
		return told, root.Remove(path)
	}
	to, err := inside(dir, s.to)
	if err != nil {
		return told, err
	}
	told.Path = s.to
	return told, root.Rename(path, to)
}

// inside is a path as seen from the directory.
func inside(dir, path string) (string, error) {
	if !filepath.IsAbs(path) {
		return path, nil
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s is outside of %s", path, dir)
	}
	return rel, nil
}

// diff is a unified diff in which old, from a line on, becomes new.
func diff(from, to string, line int, old, text string) string {
	minus, plus := lines("-", old), lines("+", text)
	at := max(line, 1)
	return fmt.Sprintf("--- %s\n+++ %s\n@@ -%d,%d +%d,%d @@\n%s%s",
		from, to, line, strings.Count(minus, "\n"), at, strings.Count(plus, "\n"), minus, plus)
}

func lines(sign, text string) string {
	if text == "" {
		return ""
	}
	return sign + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+sign) + "\n"
}

// helper is another agent that this one starts and waits for.
type helper struct{ task, command, output, text string }

func makeSubagent(o *object) step {
	in := o.inner("subagent", "task", "command", "output", "text")
	in.need("text")
	return helper{in.str("task"), in.str("command"), in.str("output"), in.str("text")}
}

func (helper) says() bool { return false }

func (s helper) play(t *turn) error {
	call, id := t.callID(), t.id("s")
	t.emit(events.ToolCall{ID: call, Name: "agent", Input: jsonOf(map[string]string{"task": s.task})})
	t.emit(events.SubagentStart{ID: id, ParentID: call, Name: "helper", Text: s.task})
	if s.command != "" {
		inner, input := t.callID(), jsonOf(map[string]string{"command": s.command})
		t.emit(events.ToolUpdate{ID: inner, ParentID: call, Name: "shell", Input: input, Output: s.output})
		t.emit(events.ToolComplete{ID: inner, ParentID: call, Name: "shell", Input: input, Success: true, Result: s.output})
	}
	t.emit(events.SubagentDelta{ID: id, ParentID: call, Name: "helper", Text: s.text})
	t.emit(events.SubagentComplete{ID: id, ParentID: call, Name: "helper", Result: s.text})
	t.emit(events.ToolComplete{ID: call, Name: "agent", Success: true, Result: s.text})
	t.remember(KindResult, s.text)
	t.rounds++
	return t.err()
}

// makeNative reads a tool of the agent's own that asks first and does nothing.
func makeNative(o *object) step {
	in := o.inner("native", "tool", "input")
	in.need("tool")
	return permission{native{name: in.str("tool"), input: in.raw("input", "{}")}}
}
