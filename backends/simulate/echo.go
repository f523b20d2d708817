package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"innerd/events"
)

// echo says back what it was told, word by word, with reasoning before. With a
// user there, it asks back a message that ends in a question mark.
type echo struct{}

func (echo) says() bool { return true }

func (echo) play(t *turn) error {
	text := heard(t.in.Parts)
	var answer string
	if t.in.Set.Interactive && strings.HasSuffix(strings.TrimSpace(text), "?") {
		var err error
		q := ask{"You asked: " + strings.TrimSpace(text) + " What is your own answer?", json.RawMessage(stringSchema)}
		if answer, err = q.answer(t); err != nil {
			return err
		}
	}
	p := pace{delay: t.c.b.opts.WordDelay}
	if err := t.think(fmt.Sprintf("I was told %d words. I say them back.", words(text)), p); err != nil {
		return err
	}
	if !isNull(t.in.Set.Schema) {
		raw, err := json.Marshal(sample(t.in.Set.Schema, text, 0))
		if err != nil {
			return wrap(err)
		}
		return t.say(string(raw), p)
	}
	if answer != "" {
		text += "\nYour answer: " + answer
	}
	if text == "" {
		text = "(an empty message)"
	}
	return t.say(text, p)
}

// heard is the prompt as text.
func heard(parts []events.Part) string {
	var out []string
	for _, p := range parts {
		out = append(out, describePart(p))
	}
	return strings.Join(out, "\n")
}

// sample makes a value that a simple schema takes: the first of an enum, or
// the required properties, with text where a string may stand.
func sample(schema json.RawMessage, text string, depth int) any {
	var s struct {
		Type       any                        `json:"type"`
		Const      json.RawMessage            `json:"const"`
		Enum       []json.RawMessage          `json:"enum"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil || depth > maxDepth {
		return nil
	}
	switch {
	case len(s.Const) > 0:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type == "string":
		return text
	case s.Type == "number" || s.Type == "integer":
		return 0
	case s.Type == "boolean":
		return false
	case s.Type == "null":
		return nil
	case s.Type == "array":
		return []any{}
	}
	if s.Required == nil {
		s.Required = slices.Collect(maps.Keys(s.Properties))
	}
	out := map[string]any{}
	for _, key := range s.Required {
		out[key] = sample(s.Properties[key], text, depth+1)
	}
	return out
}
