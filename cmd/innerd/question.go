package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"innerd/host"
)

// question asks what the agent wants to know. The library asks again, with the
// server's words, where a line does not fit.
func (t *terminal) question(ctx context.Context, q host.Question) (json.RawMessage, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	hint := ""
	if h := answerHint(q.Schema); h != "" {
		hint = "(" + h + ") "
	}
	prompt := "? " + q.Message + "\n  " + hint + "> "
	if q.Refused != "" {
		prompt = "  that does not fit: " + oneLine(q.Refused, 200) + "\n  " + hint + "> "
	}
	line, err := t.ask(ctx, prompt)
	if errors.Is(err, errEOF) {
		t.show("\ninnerd: the question stays open; Ctrl-C cancels the run\n")
	}
	if err != nil {
		return nil, err
	}
	return answerValue(q.Schema, line), nil
}

// answerSchema is what the terminal understands of a question's schema.
type answerSchema struct {
	Type       any                        `json:"type"`
	Enum       []any                      `json:"enum"`
	Properties map[string]json.RawMessage `json:"properties"`
}

// answerHint says what is expected, "" for words.
func answerHint(schema json.RawMessage) string {
	var s answerSchema
	_ = json.Unmarshal(schema, &s)
	if len(s.Enum) > 0 {
		var words []string
		for _, e := range s.Enum {
			words = append(words, fmt.Sprint(e))
		}
		return strings.Join(words, ", ")
	}
	switch s.Type {
	case "boolean":
		return "yes or no"
	case "number", "integer":
		return "a number"
	case "array":
		return "a JSON list"
	case "object":
		if len(s.Properties) == 0 {
			return "a JSON object"
		}
		var names []string
		for name, inner := range s.Properties {
			if len(s.Properties) == 1 {
				return answerHint(inner)
			}
			names = append(names, name)
		}
		slices.Sort(names)
		return "a JSON object with " + strings.Join(names, ", ")
	}
	return ""
}

// answerValue makes JSON of a line. A line that is JSON of the type the schema
// wants is taken as such, any other as a string. An object with one property
// is filled by a line that is not an object itself.
func answerValue(schema json.RawMessage, line string) json.RawMessage {
	var s answerSchema
	_ = json.Unmarshal(schema, &s)
	text, _ := json.Marshal(line)
	switch s.Type {
	case "object":
		if strings.HasPrefix(line, "{") && json.Valid([]byte(line)) {
			return json.RawMessage(line)
		}
		for name, inner := range s.Properties {
			if len(s.Properties) == 1 {
				raw, _ := json.Marshal(map[string]json.RawMessage{name: answerValue(inner, line)})
				return raw
			}
		}
	case "boolean":
		switch strings.ToLower(line) {
		case "y", "yes", "true":
			return json.RawMessage("true")
		case "n", "no", "false":
			return json.RawMessage("false")
		}
	case "number", "integer", "array":
		if json.Valid([]byte(line)) {
			return json.RawMessage(line)
		}
	}
	return text
}
