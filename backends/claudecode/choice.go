package claudecode

import (
	"encoding/json"
	"fmt"

	"innerd/backends"
)

// choice is what a host says of tools: "none", "auto", "required", or the name
// of one, in any of the forms that providers have for that.
type choice struct {
	mode string // none, auto, required
	tool string // one must be called, and it is this
}

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
	for i, t := range tools {
		if c.tool != "" && t.Name == c.tool {
			return tools[i : i+1]
		}
	}
	return tools
}

// words ask the model for what claude can't make it do; "" where nothing is asked.
func (c choice) words(tools []backends.Tool) string {
	switch {
	case c.mode != "required":
		return ""
	case c.tool == "":
		return "[You must call at least one tool before you answer.]"
	}
	ts := newToolset(tools)
	name := c.tool
	for i, t := range tools {
		if t.Name == c.tool {
			name = mcpPrefix + ts.names[i]
		}
	}
	return fmt.Sprintf("[You must call the tool %s before you answer.]", name)
}
