package told

import (
	"encoding/json"

	"innerd/backends"
)

// Choice is what a host wants of the model's calls. Agents leave their model
// free: so only what may be called is offered, and the rest is words.
type Choice struct {
	Mode string // auto, none, required
	Tool string // one must be called, and it is this
}

// Modes of a Choice.
const (
	Auto     = "auto"
	None     = "none"
	Required = "required"
)

// ChoiceOf reads a tool_choice in OpenAI's forms or Anthropic's. One that is not
// known is Auto.
func ChoiceOf(raw json.RawMessage) (c Choice, known bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return Choice{Mode: Auto}, true
	}
	var word string
	if json.Unmarshal(raw, &word) != nil {
		var o struct {
			Type, Name, Mode string
			Function         struct{ Name string }
		}
		if json.Unmarshal(raw, &o) != nil {
			return Choice{Mode: Auto}, false
		}
		if c.Tool = first(o.Function.Name, o.Name); c.Tool != "" {
			return Choice{Mode: Required, Tool: c.Tool}, true
		}
		word = first(o.Type, o.Mode)
	}
	switch word {
	case None, Auto:
		return Choice{Mode: word}, true
	case Required, "any":
		return Choice{Mode: Required}, true
	}
	return Choice{Mode: Auto}, false
}

// Offered are the tools of the host's that the model may see: where one must
// be called, no other.
func (c Choice) Offered(tools []backends.Tool) []backends.Tool {
	if c.Mode == None {
		return nil
	}
	for i, t := range tools {
		if c.Tool != "" && t.Name == c.Tool {
			return tools[i : i+1]
		}
	}
	return tools
}

// Words ask the model for what its agent can't make it do; "" where nothing is
// asked. Listed gives the name under which the model sees a tool of the host's.
func (c Choice) Words(listed func(tool string) string) string {
	switch {
	case c.Mode == None:
		return "[host] Call no tool before you answer."
	case c.Mode != Required:
		return ""
	case c.Tool == "":
		return "[host] You must call at least one tool before you answer."
	}
	return "[host] You must call the tool " + listed(c.Tool) + " before you answer."
}

func first(a, b string) string {
	if a == "" {
		return b
	}
	return a
}
