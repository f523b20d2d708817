package modelstub

import (
	"encoding/json"
	"strings"
)

type anthropicRequest struct {
	Model     string             `json:"model"`
	MaxTokens int                `json:"max_tokens"`
	Stream    bool               `json:"stream"`
	System    json.RawMessage    `json:"system"`
	Messages  []anthropicMessage `json:"messages"`
	Tools     []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
}

type anthropicMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type anthropicPart struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	ToolUseID string          `json:"tool_use_id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	IsError   bool            `json:"is_error"`
	Content   json.RawMessage `json:"content"`
	Source    struct {
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
}

func (anthropic) parse(r *Request) {
	var in anthropicRequest
	if json.Unmarshal(r.Body, &in) != nil {
		return // KindOther
	}
	r.Model, r.MaxTokens, r.Stream = in.Model, in.MaxTokens, in.Stream
	r.System = joined(parts(in.System), "\n\n")
	for _, m := range in.Messages {
		r.Messages = append(r.Messages, Message{Role: m.Role, Parts: parts(m.Content)})
	}
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, ToolSpec{Name: t.Name, Description: t.Description, Schema: t.InputSchema})
	}
	switch {
	case in.Stream:
		r.Kind = KindStream
	case in.MaxTokens == 1:
		r.Kind = KindProbe
	default:
		r.Kind = KindWhole
	}
}

// parts reads content: a string, or a list of blocks.
func parts(js json.RawMessage) []Part {
	if len(js) == 0 {
		return nil
	}
	var s string
	if json.Unmarshal(js, &s) == nil {
		return []Part{{Type: "text", Text: s, Raw: js}}
	}
	var list []json.RawMessage
	_ = json.Unmarshal(js, &list) // what is neither is no part
	out := make([]Part, 0, len(list))
	for _, raw := range list {
		var p anthropicPart
		_ = json.Unmarshal(raw, &p) // fields of other types are left empty; Raw has them
		out = append(out, p.part(raw))
	}
	return out
}

func (p anthropicPart) part(raw json.RawMessage) Part {
	out := Part{
		Type: p.Type, Text: p.Text + p.Thinking, ID: p.ID + p.ToolUseID, Name: p.Name, Input: p.Input,
		IsError: p.IsError, MediaType: p.Source.MediaType, Data: p.Source.Data, Raw: raw,
	}
	if p.Type == "tool_result" {
		out.Parts = parts(p.Content)
		out.Text = joined(out.Parts, "\n")
	}
	return out
}

func joined(ps []Part, sep string) string {
	var texts []string
	for _, p := range ps {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, sep)
}
