// Package mcpjson writes tools and their results as the JSON of the Model
// Context Protocol, for agents that take it over a control channel and for
// the MCP server alike. It is pure: no transport, no SDK.
//
// What it writes is one line: line ends, and the characters that some readers
// take for one, stand escaped.
package mcpjson

import (
	"bytes"
	"encoding/json"
	"fmt"

	"innerd/events"
)

type toolJSON struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations annotations     `json:"annotations"`
	Meta        map[string]any  `json:"_meta,omitempty"`
}

type annotations struct {
	// Agents run calls of a tool at the same time only where it claims to
	// change nothing. Whether a tool of the host does is the host's to know.
	ReadOnlyHint bool `json:"readOnlyHint"`
}

// Tool is an entry of tools/list. A schema that MCP does not allow is mended,
// see Schema; a meta that is not JSON is left out.
func Tool(name, description string, schema json.RawMessage, parallel bool, meta map[string]any) json.RawMessage {
	t := toolJSON{Name: name, Description: description, InputSchema: Schema(schema), Annotations: annotations{ReadOnlyHint: parallel}, Meta: meta}
	out, err := encode(t)
	if err != nil {
		t.Meta = nil
		out, _ = encode(t)
	}
	return out
}

// Schema is a host's schema as MCP wants it: an object of type "object",
// without the host's own word "parallel". What can't be mended takes anything.
func Schema(schema json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(schema, &m) != nil || m == nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	typ, hasType := m["type"]
	var word string
	if hasType && (json.Unmarshal(typ, &word) != nil || word != "object") {
		return json.RawMessage(`{"type":"object"}`)
	}
	var flag bool
	parallel, hasParallel := m["parallel"]
	hasParallel = hasParallel && json.Unmarshal(parallel, &flag) == nil
	if hasType && !hasParallel {
		return schema
	}
	m["type"] = json.RawMessage(`"object"`)
	if hasParallel {
		delete(m, "parallel")
	}
	out, err := encode(m)
	if err != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	return out
}

type resultJSON struct {
	Content []content `json:"content"`
	IsError bool      `json:"isError"`
}

type content struct {
	Type     string    `json:"type"`
	Text     *string   `json:"text,omitempty"`
	Data     string    `json:"data,omitempty"`
	MimeType string    `json:"mimeType,omitempty"`
	Resource *resource `json:"resource,omitempty"`
}

type resource struct {
	URI      string  `json:"uri"`
	MimeType string  `json:"mimeType,omitempty"`
	Text     *string `json:"text,omitempty"`
	Blob     string  `json:"blob,omitempty"`
}

// Result is the result of tools/call. It never has structuredContent, which
// agents put in the place of everything else. A part without data is named
// in words, since links reach no model.
func Result(a events.Answer) json.RawMessage {
	r := resultJSON{IsError: failed(a), Content: []content{}}
	for _, p := range a.Parts() {
		r.Content = append(r.Content, part(p))
	}
	out, err := encode(r)
	if err != nil { // nothing in r can fail to encode
		return json.RawMessage(`{"content":[{"type":"text","text":"the result can't be encoded"}],"isError":true}`)
	}
	return out
}

// failed reports whether the model must take the answer for an error. Answers
// that nobody gave have their outcome alone.
func failed(a events.Answer) bool {
	switch a.Outcome {
	case events.OutcomeError, events.OutcomeTimeout, events.OutcomeCanceled, events.OutcomeExpired, events.OutcomeDenied:
		return true
	}
	return a.IsError
}

func part(p events.Part) content {
	switch {
	case p.Type == events.PartText:
		return text(p.Text)
	case p.Type == events.PartJSON:
		return text(compact(p.JSON))
	case p.Data == "":
		return text(named(p))
	case p.Type == events.PartImage || p.Type == events.PartAudio:
		return content{Type: p.Type, Data: p.Data, MimeType: p.MimeType}
	}
	return file(p)
}

func text(s string) content { return content{Type: "text", Text: &s} }

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// named is a part without data in words.
func named(p events.Part) string {
	where := p.URL
	if where == "" {
		where = p.Path
	}
	s := p.Type
	if p.Name != "" {
		s += " " + p.Name
	}
	if p.MimeType != "" {
		s += " (" + p.MimeType + ")"
	}
	return fmt.Sprintf("[%s: %s]", s, where)
}

// encode is JSON on one line.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	out := bytes.TrimRight(b.Bytes(), "\n")
	// Raw JSON is copied as it came, and U+0085 is never escaped.
	for _, c := range []string{"\u0085", "\u2028", "\u2029"} {
		if bytes.Contains(out, []byte(c)) {
			out = bytes.ReplaceAll(out, []byte(c), fmt.Appendf(nil, `\u%04x`, []rune(c)[0]))
		}
	}
	return out, nil
}
