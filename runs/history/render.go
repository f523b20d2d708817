package history

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"innerd/events"
)

// RenderOptions bounds a block, in characters. Zero values are the defaults.
type RenderOptions struct {
	Total     int // 200,000
	Arguments int // 2,000, of a tool call
	Result    int // 3,000, of a tool's result or error
}

func (o RenderOptions) withDefaults() RenderOptions {
	for _, p := range []struct {
		v *int
		d int
	}{{&o.Total, 200_000}, {&o.Arguments, 2_000}, {&o.Result, 3_000}} {
		if *p.v <= 0 {
			*p.v = p.d
		}
	}
	return o
}

const (
	blockBegin = "<conversation_history>\nWhat was said before in this conversation. It is context: do not answer it again.\n"
	blockEnd   = "</conversation_history>"
)

// Render writes messages as a block that is told before a prompt, "" where
// they say nothing, and gives the images of its user messages, once per id.
// maybe, which may be nil, names those that the agent may know already.
//
// A block that is too long loses the tools' results first, the oldest first,
// then whole messages, the oldest first but summaries last; what was cut is
// noted in its place.
func Render(msgs []Message, maybe func(i int) bool, opt RenderOptions) (block string, attachments []events.Part) {
	opt = opt.withDefaults()
	entries := make([]entry, 0, len(msgs))
	for i, m := range msgs {
		e := entry{m: m, maybe: maybe != nil && maybe(i), opt: opt}
		e.render()
		if e.text != "" {
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 {
		return "", nil
	}
	entries, note := bound(entries, opt.Total-chars(blockBegin)-chars(blockEnd))
	var b strings.Builder
	b.WriteString(blockBegin)
	b.WriteString(note)
	for _, e := range entries {
		b.WriteString(e.text)
	}
	b.WriteString(blockEnd)
	return b.String(), images(entries)
}

// entry is one message as text.
type entry struct {
	m     Message
	maybe bool
	opt   RenderOptions
	text  string
	size  int // characters of text
}

func (e *entry) render() {
	var b strings.Builder
	e.section(&b, "thinking", "", e.m.Reasoning)
	switch {
	case e.m.Summary:
		e.section(&b, "summary", "", e.m.Text)
	case e.m.Role == roleTool:
		e.result(&b)
	case e.m.Role == roleUser, e.m.Role == roleAssistant:
		e.section(&b, e.m.Role, "", e.m.Text)
	default:
		e.section(&b, "message", attribute("role", e.m.Role), e.m.Text)
	}
	for _, a := range e.m.Attachments {
		e.section(&b, "attachment", "", describe(a))
	}
	for _, c := range e.m.ToolCalls {
		args := strings.TrimSpace(string(c.Arguments))
		if args == "" {
			args = "{}"
		}
		e.section(&b, "tool_call", attribute("name", c.Name), cut(args, e.opt.Arguments))
	}
	e.text = b.String()
	e.size = chars(e.text)
}

// result writes a tool's result; an empty one is told too, since the call was.
func (e *entry) result(b *strings.Builder) {
	tag := "tool_result"
	if e.m.ToolError {
		tag = "tool_error"
	}
	text := strings.TrimSpace(e.m.Text)
	if text == "" {
		text = "(empty)"
	}
	e.section(b, tag, attribute("name", e.m.ToolName), cut(text, e.opt.Result))
}

func (e *entry) section(b *strings.Builder, tag, attr, text string) {
	text = strings.TrimSpace(text)
	if text == "" {
		return
	}
	if e.maybe {
		attr += ` note="may be known to you already"`
	}
	fmt.Fprintf(b, "<%s%s>\n%s\n</%s>\n", tag, attr, escape(text), tag)
}

func attribute(name, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(` %s="%s"`, name, strings.NewReplacer(`"`, "'", "<", "(", ">", ")", "\n", " ").Replace(value))
}

// describe names an attachment; its content is not text.
func describe(a events.Part) string {
	words := []string{a.Type}
	for _, w := range []string{a.Name, a.MimeType, a.Path, a.URL} {
		if w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}

// ours are the tags that structure the block: a text that contains one can
// neither end its own section nor begin another.
var ours = regexp.MustCompile(`(?i)<(\s*/?\s*(?:conversation_history|thinking|summary|tool_error|tool_result|tool_call|user|assistant|message|attachment)\b)`)

func escape(s string) string { return ours.ReplaceAllString(s, "&lt;$1") }

func chars(s string) int { return utf8.RuneCountInString(s) }

// cut keeps the beginning of a text and says how much is gone.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n := chars(s)
	if n <= limit {
		return s
	}
	at := 0
	for range limit {
		_, w := utf8.DecodeRuneInString(s[at:])
		at += w
	}
	return s[:at] + fmt.Sprintf("\n[cut: the first %d of %d characters]", limit, n)
}

// images lists the images of user messages, each once.
func images(entries []entry) []events.Part {
	var out []events.Part
	seen := map[string]bool{}
	for _, e := range entries {
		if e.m.Role != roleUser {
			continue
		}
		for _, a := range e.m.Attachments {
			if a.Type != events.PartImage || seen[identity(a)] {
				continue
			}
			seen[identity(a)] = true
			out = append(out, a)
		}
	}
	return out
}

// identity is the host's id of an attachment, or, where it gave none, what
// the attachment is.
func identity(a events.Part) string {
	if a.ID != "" {
		return "id " + a.ID
	}
	if a.Data == "" {
		return "at " + a.URL + a.Path
	}
	h := sha256.Sum256([]byte(a.Data))
	return "data " + hex.EncodeToString(h[:])
}
