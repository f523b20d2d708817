package modelstub

import "encoding/json"

type chatRequest struct {
	Model         string `json:"model"`
	MaxTokens     int    `json:"max_tokens"`
	MaxCompletion int    `json:"max_completion_tokens"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []json.RawMessage `json:"messages"`
	Tools    []struct {
		Type     string `json:"type"`
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		} `json:"function"`
		Custom struct {
			Name, Description string
			Format            json.RawMessage
		} `json:"custom"`
	} `json:"tools"`
}

type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Refusal    string          `json:"refusal"`
	Reasoning  string          `json:"reasoning_content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name, Arguments string
		} `json:"function"`
		Custom *struct {
			Name, Input string
		} `json:"custom"`
	} `json:"tool_calls"`
}

func (chat) parse(r *Request) {
	var in chatRequest
	if json.Unmarshal(r.Body, &in) != nil || len(in.Messages) == 0 {
		return // KindOther
	}
	r.Model, r.MaxTokens, r.Stream = in.Model, max(in.MaxTokens, in.MaxCompletion), in.Stream
	r.usage = in.StreamOptions.IncludeUsage
	for _, raw := range in.Messages {
		var m chatMessage
		_ = json.Unmarshal(raw, &m) // fields of other types are left empty; Raw has them
		m.add(r, raw)
	}
	for _, t := range in.Tools {
		spec := ToolSpec{Name: t.Function.Name, Description: t.Function.Description, Schema: t.Function.Parameters}
		if t.Type == "custom" {
			spec = ToolSpec{Name: t.Custom.Name, Description: t.Custom.Description, Schema: t.Custom.Format, Custom: true}
		}
		r.Tools = append(r.Tools, spec)
	}
	r.Kind = KindWhole
	if in.Stream {
		r.Kind = KindStream
	}
}

// add puts a message where Anthropic's API would have it.
func (m chatMessage) add(r *Request, raw json.RawMessage) {
	if m.Role == "tool" {
		r.say("user", resultPart(m.ToolCallID, m.Content, raw))
		return
	}
	var ps []Part
	if m.Reasoning != "" {
		ps = append(ps, Part{Type: "thinking", Text: m.Reasoning})
	}
	ps = append(ps, openaiParts(m.Content)...)
	if m.Refusal != "" {
		ps = append(ps, Part{Type: "text", Text: m.Refusal})
	}
	for _, c := range m.ToolCalls {
		p := Part{Type: "tool_use", ID: c.ID, Name: c.Function.Name, Input: argumentsOf(c.Function.Arguments)}
		if c.Custom != nil {
			p.Name, p.Input = c.Custom.Name, json.RawMessage(quote(c.Custom.Input))
		}
		ps = append(ps, p)
	}
	if m.Role == "system" || m.Role == "developer" {
		r.instruct(joined(ps, "\n\n"))
	}
	r.say(m.Role, ps...)
}
