package modelstub

import "encoding/json"

type responsesRequest struct {
	Model        string          `json:"model"`
	MaxTokens    int             `json:"max_output_tokens"`
	Stream       bool            `json:"stream"`
	Instructions string          `json:"instructions"`
	Input        json.RawMessage `json:"input"`
	Tools        []responsesTool `json:"tools"`
}

type responsesTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Format      json.RawMessage `json:"format"`
	Tools       []responsesTool `json:"tools"` // of a namespace
}

type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Summary   json.RawMessage `json:"summary"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Arguments json.RawMessage `json:"arguments"` // a string; of some built-in tools an object
	Input     string          `json:"input"`
	Output    json.RawMessage `json:"output"`
	Tools     []responsesTool `json:"tools"` // of additional_tools
}

func (responses) parse(r *Request) {
	var in responsesRequest
	if json.Unmarshal(r.Body, &in) != nil || len(in.Input) == 0 {
		return // KindOther
	}
	r.Model, r.MaxTokens, r.Stream = in.Model, in.MaxTokens, in.Stream
	r.instruct(in.Instructions)
	r.addTools("", in.Tools)
	var items []json.RawMessage
	if json.Unmarshal(in.Input, &items) != nil {
		r.say("user", openaiParts(in.Input)...) // a string
	}
	for _, raw := range items {
		var it responsesItem
		_ = json.Unmarshal(raw, &it) // fields of other types are left empty; Raw has them
		it.add(r, raw)
	}
	r.Kind = KindWhole
	if in.Stream {
		r.Kind = KindStream
	}
}

// add puts an item where Anthropic's API would have it, so that tests read
// the requests of every API in one way.
func (it responsesItem) add(r *Request, raw json.RawMessage) {
	switch it.Type {
	case "message", "":
		ps := openaiParts(it.Content)
		if it.Role == "developer" || it.Role == "system" {
			r.instruct(joined(ps, "\n\n"))
		}
		r.say(it.Role, ps...)
	case "reasoning":
		text := joined(append(openaiParts(it.Summary), openaiParts(it.Content)...), "\n\n")
		r.say("assistant", Part{Type: "thinking", Text: text, Raw: raw})
	case "function_call":
		var args string
		if json.Unmarshal(it.Arguments, &args) != nil {
			args = string(it.Arguments)
		}
		r.say("assistant", Part{Type: "tool_use", ID: it.CallID, Name: it.Name, Namespace: it.Namespace, Input: argumentsOf(args), Raw: raw})
	case "custom_tool_call":
		r.say("assistant", Part{Type: "tool_use", ID: it.CallID, Name: it.Name, Input: json.RawMessage(quote(it.Input)), Raw: raw})
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output":
		r.say("user", resultPart(it.CallID, it.Output, raw))
	case "additional_tools":
		r.addTools("", it.Tools)
	default:
		r.say("assistant", Part{Type: it.Type, ID: it.CallID, Raw: raw})
	}
}

func (r *Request) addTools(namespace string, tools []responsesTool) {
	for _, t := range tools {
		if t.Type == "namespace" {
			r.addTools(t.Name, t.Tools)
			continue
		}
		spec := ToolSpec{Name: t.Name, Namespace: namespace, Description: t.Description, Schema: t.Parameters}
		if t.Type == "custom" {
			spec.Custom, spec.Schema = true, t.Format
		}
		if spec.Name == "" { // one that the provider runs, like web_search
			spec.Name = t.Type
		}
		r.Tools = append(r.Tools, spec)
	}
}
