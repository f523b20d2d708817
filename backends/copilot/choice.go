package copilot

import (
	"encoding/json"

	"innerd/backends"
)

// choice is what a host wants of the model's calls. Copilot always leaves the
// model free: so only what may be called is offered, and the rest is words.
type choice struct {
	mode string // auto, none, required
	tool string // one must be called, and it is this
}

// choiceOf takes OpenAI's forms and Anthropic's.
func choiceOf(raw json.RawMessage) (c choice, known bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return choice{mode: "auto"}, true
	}
	var word string
	if json.Unmarshal(raw, &word) != nil {
		var o struct {
			Type, Name, Mode string
			Function         struct{ Name string }
		}
		if json.Unmarshal(raw, &o) != nil {
			return choice{mode: "auto"}, false
		}
		if c.tool = orElse(o.Function.Name, o.Name); c.tool != "" {
			return choice{mode: "required", tool: c.tool}, true
		}
		word = orElse(o.Type, o.Mode)
	}
	switch word {
	case "none", "auto":
		return choice{mode: word}, true
	case "required", "any":
		return choice{mode: "required"}, true
	}
	return choice{mode: "auto"}, false
}

// offered are the tools of the host's that the model may see: where one must
// be called, no other.
func (c choice) offered(tools []backends.Tool) []backends.Tool {
	if c.mode == "none" {
		return nil
	}
	for i, t := range tools {
		if c.tool != "" && t.Name == c.tool {
			return tools[i : i+1]
		}
	}
	return tools
}

// words ask the model for what copilot can't make it do; "" where nothing is asked.
func (c choice) words(ts *toolset) string {
	switch {
	case c.mode == "none":
		return "[host] Call no tool before you answer."
	case c.mode != "required":
		return ""
	case c.tool == "":
		return "[host] You must call at least one tool before you answer."
	}
	name := c.tool
	for i, t := range ts.tools {
		if t.Name == c.tool {
			name = ts.names[i]
		}
	}
	return "[host] You must call the tool " + name + " before you answer."
}
