package codex

import (
	"encoding/json"
	"fmt"
	"strings"

	"innerd/events"
)

func object(key string, value any) json.RawMessage { return fields(map[string]any{key: value}) }

func fields(m map[string]any) json.RawMessage {
	raw, err := plainJSON(m)
	if err != nil {
		return json.RawMessage("{}")
	}
	return raw
}

func orObject(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

// commandInput is a command as the model wrote it: codex tells it behind the
// shell that runs it.
func commandInput(command, cwd string) json.RawMessage {
	return fields(map[string]any{"command": unwrapped(command), "cwd": cwd})
}

// unwrapped is the word after "/bin/bash -lc ", or the command as it is.
func unwrapped(command string) string {
	for _, shell := range []string{"bash", "zsh", "sh"} {
		for _, flag := range []string{" -lc ", " -c "} {
			before, word, ok := strings.Cut(command, flag)
			if ok && !strings.ContainsAny(before, " '\"") && strings.HasSuffix(before, shell) {
				if plain, ok := unquoted(word); ok {
					return plain
				}
			}
		}
	}
	return command
}

// unquoted is one word of a shell's without its quotes; false: it is more than
// one, or is not quoted as expected.
func unquoted(word string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(word); i++ {
		switch c := word[i]; c {
		case '\'':
			end := strings.IndexByte(word[i+1:], '\'')
			if end < 0 {
				return "", false
			}
			b.WriteString(word[i+1 : i+1+end])
			i += end + 1
		case '"':
			for i++; i < len(word) && word[i] != '"'; i++ {
				if word[i] == '\\' && i+1 < len(word) && strings.IndexByte("\"\\$`", word[i+1]) >= 0 {
					i++
				}
				b.WriteByte(word[i])
			}
			if i >= len(word) {
				return "", false
			}
		case '\\':
			if i++; i >= len(word) {
				return "", false
			}
			b.WriteByte(word[i])
		case ' ', '\t', '\n':
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

func patchInput(changes []fileChange) json.RawMessage {
	list := make([]map[string]any, 0, len(changes))
	for _, c := range changes {
		e := c.event()
		list = append(list, map[string]any{"path": e.Path, "kind": e.Kind, "diff": e.Diff})
	}
	return object("changes", list)
}

func searchInput(it *item) json.RawMessage {
	m := map[string]any{"query": it.Query}
	if len(it.Action) > 0 && string(it.Action) != "null" {
		m["action"] = it.Action
	}
	return fields(m)
}

// collabName is a tool for sub-agents as the model knows it.
func collabName(tool string) string {
	if tool == "wait" {
		return "wait_agent"
	}
	return snake(tool)
}

func collabInput(it *item) json.RawMessage {
	m := map[string]any{}
	if it.Prompt != "" {
		m["message"] = it.Prompt
	}
	if len(it.Receivers) > 0 {
		m["agents"] = it.Receivers
	}
	return fields(m)
}

// completion is how a call ended.
func completion(it *item) events.ToolComplete {
	e := events.ToolComplete{Success: it.Status == "completed" || it.Type == itemImageView, DurationMS: it.DurationMS}
	switch it.Type {
	case itemCommand:
		if it.Output != nil {
			e.Result = *it.Output
		}
		// -1 is codex's word for one that it has ended itself.
		if it.ExitCode != nil && *it.ExitCode >= 0 {
			e.ExitCode = it.ExitCode
			e.Success = e.Success && *it.ExitCode == 0
		}
	case itemFileChange:
		e.Result = changed(it.Changes)
	case itemMCP:
		e.Result = mcpText(it)
		e.Success = e.Success && it.ToolError == nil
	case itemCollab:
		e.Result = collabText(it)
	}
	if it.Status == "declined" {
		e.Result = "it was not permitted"
	}
	return e
}

func changed(changes []fileChange) string {
	var lines []string
	for _, c := range changes {
		e := c.event()
		lines = append(lines, e.Kind+" "+e.Path)
	}
	return strings.Join(lines, "\n")
}

func mcpText(it *item) string {
	if it.ToolError != nil {
		return it.ToolError.Message
	}
	var r struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	}
	_ = json.Unmarshal(it.Result, &r)
	var lines []string
	for _, c := range r.Content {
		lines = append(lines, orElse(c.Text, "["+c.Type+"]"))
	}
	return strings.Join(lines, "\n")
}

func collabText(it *item) string {
	var lines []string
	for _, id := range it.Receivers {
		a := it.Agents[id]
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s: %s %s", id, a.Status, a.Message)))
	}
	return strings.Join(lines, "\n")
}

// event is a change with a unified diff: codex gives the hunks of an edit, and
// the whole text of a file that is new or gone.
func (c fileChange) event() events.FileChange {
	name := strings.TrimPrefix(c.Path, "/")
	e := events.FileChange{Path: c.Path, Kind: "edit"}
	switch {
	case c.Kind.Type == "add":
		e.Kind, e.Diff = "create", wholeDiff("/dev/null", "b/"+name, '+', c.Diff)
	case c.Kind.Type == "delete":
		e.Kind, e.Diff = "delete", wholeDiff("a/"+name, "/dev/null", '-', c.Diff)
	case c.Kind.Move != "":
		e.Kind, e.Path = "move", c.Kind.Move
		e.Diff = hunks("a/"+name, "b/"+strings.TrimPrefix(c.Kind.Move, "/"), c.Diff)
	default:
		e.Diff = hunks("a/"+name, "b/"+name, c.Diff)
	}
	return e
}

func hunks(from, to, diff string) string {
	if at := strings.Index(diff, "@@"); at >= 0 {
		// Codex notes a move below the hunks.
		diff, _, _ = strings.Cut(diff[at:], "\n\nMoved to: ")
		return "--- " + from + "\n+++ " + to + "\n" + strings.TrimSuffix(diff, "\n") + "\n"
	}
	return "--- " + from + "\n+++ " + to + "\n"
}

func wholeDiff(from, to string, sign byte, content string) string {
	if content == "" {
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	var b strings.Builder
	span := fmt.Sprintf("-0,0 +1,%d", len(lines))
	if sign == '-' {
		span = fmt.Sprintf("-1,%d +0,0", len(lines))
	}
	fmt.Fprintf(&b, "--- %s\n+++ %s\n@@ %s @@\n", from, to, span)
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
