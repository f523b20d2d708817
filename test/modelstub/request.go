package modelstub

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Kind says what a request was for.
type Kind string

const (
	// KindStream is a request for a stream: the only kind that uses up turns.
	KindStream Kind = "stream"
	// KindWhole is a request for a reply in one piece, as agents make it when streams break.
	KindWhole Kind = "whole"
	// KindProbe is a request for a token at most, as agents make it to see whether a model exists.
	KindProbe Kind = "probe"
	// KindCount is a request to count tokens.
	KindCount Kind = "count"
	// KindModels is a request for the list of models.
	KindModels Kind = "models"
	// KindRejected is a request without the scenario's key.
	KindRejected Kind = "rejected"
	// KindOther is a path that the server does not know, or a body that it cannot read.
	KindOther Kind = "other"
)

// Request is what an agent asked. It is shared between callers: read only.
type Request struct {
	N         int // 1 for the first of a scenario that used up a turn; 0 for others
	Kind      Kind
	Method    string
	Path      string // below the base URL, with the query
	Header    http.Header
	Body      []byte
	Model     string
	MaxTokens int
	Stream    bool
	System    string    // all texts of the system or developer, joined by blank lines
	Messages  []Message // OpenAI's system and developer messages too, in their places
	Tools     []ToolSpec

	usage bool // a chat asks for the usage at its end
}

// ToolSpec is the description of one tool in a request.
type ToolSpec struct {
	Name, Description string
	Namespace         string          // of OpenAI's grouped tools
	Custom            bool            // freeform: Schema is its grammar
	Schema            json.RawMessage // JSON Schema of the input
}

// Message is one message of a request.
type Message struct {
	Role  string
	Parts []Part
}

// Part is a piece of a message, or of a tool's result.
type Part struct {
	Type      string          // text, thinking, image, tool_use, tool_result, or what the API calls it
	Text      string          // text and thinking; the joined text of a tool_result
	ID        string          // of a tool_use, or the tool_use that a tool_result answers
	Name      string          // of a tool_use, or of a file
	Namespace string          // of a tool_use
	Input     json.RawMessage // of a freeform tool: a JSON string
	IsError   bool
	MediaType string // of an image
	Data      string // of an image: base64
	Parts     []Part // of a tool_result
	Raw       json.RawMessage
}

// Prompt is the last text of the user, without what agents themselves add to it.
func (r *Request) Prompt() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		m := r.Messages[i]
		if m.Role != "user" {
			continue
		}
		for j := len(m.Parts) - 1; j >= 0; j-- {
			if p := m.Parts[j]; p.Type == "text" && !added(p.Text) {
				return undated(p.Text)
			}
		}
	}
	return ""
}

// added tells whether an agent wrote a user's text by itself.
func added(s string) bool {
	s = strings.TrimSpace(s)
	for _, by := range []string{"<system-reminder>", "<environment_context>", "<user_instructions>", "# AGENTS.md instructions"} {
		if strings.HasPrefix(s, by) {
			return true
		}
	}
	return false
}

// undated is a prompt without the date that Copilot puts before it.
func undated(s string) string {
	if rest, ok := strings.CutPrefix(s, "<current_datetime>"); ok {
		if _, rest, ok = strings.Cut(rest, "</current_datetime>"); ok {
			return strings.TrimPrefix(rest, "\n\n")
		}
	}
	return s
}

// ToolResults are the tool results of the last message that has any.
func (r *Request) ToolResults() []Part {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		var out []Part
		for _, p := range r.Messages[i].Parts {
			if p.Type == "tool_result" {
				out = append(out, p)
			}
		}
		if out != nil {
			return out
		}
	}
	return nil
}

// ToolResult is the text of the last tool result.
func (r *Request) ToolResult() string {
	rs := r.ToolResults()
	if len(rs) == 0 {
		return ""
	}
	return rs[len(rs)-1].Text
}

// Tool finds a tool by name.
func (r *Request) Tool(name string) (ToolSpec, bool) {
	for _, t := range r.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return ToolSpec{}, false
}

// expand fills in the templates of a script. quote, if not nil, is done to
// what is put in.
func (r *Request) expand(s string, quote func(string) string) string {
	if !strings.Contains(s, "{{") {
		return s
	}
	if quote == nil {
		quote = func(s string) string { return s }
	}
	return strings.NewReplacer(
		"{{prompt}}", quote(r.Prompt()),
		"{{tool_result}}", quote(r.ToolResult()),
		"{{model}}", quote(r.Model),
	).Replace(s)
}
