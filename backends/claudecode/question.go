package claudecode

import (
	"encoding/json"
	"strings"

	"innerd/events"
)

// askInput is the input of claude's AskUserQuestion.
type askInput struct {
	Questions []askQuestion `json:"questions"`
}

type askQuestion struct {
	Question string `json:"question"`
	Header   string `json:"header"`
	Options  []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
	Multi bool `json:"multiSelect"`
}

const noUser = "No user is present; decide yourself."

// question puts claude's questions to the user as one request. The answer goes
// back as the tool's input, where claude looks for it.
func (p *process) question(t *turn, l *line) {
	id, input := l.RequestID, l.Request.Input
	var in askInput
	if lenient(json.Unmarshal(input, &in)) != nil || len(in.Questions) == 0 || !t.interactive {
		p.answer(successBody(id, denied(noUser)))
		return
	}
	t.tr.interrupt()
	t.request(p, []string{id}, events.Request{
		Kind: events.KindQuestion, NativeID: l.Request.ToolUseID, Message: in.message(), Schema: in.schema(),
	}, func(a events.Answer) {
		answers := in.answers(a.Value)
		if a.Outcome != events.OutcomeAnswered || len(answers) == 0 {
			p.answer(successBody(id, denied(orElse(a.Message, "The user did not answer; decide yourself."))))
			return
		}
		p.answer(successBody(id, allowed(withAnswers(input, answers))))
	})
}

func (in *askInput) message() string {
	var b strings.Builder
	for i, q := range in.Questions {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(q.Question)
		for _, o := range q.Options {
			b.WriteString("\n- " + o.Label)
			if o.Description != "" {
				b.WriteString(": " + o.Description)
			}
		}
	}
	return b.String()
}

// schema is an object with a property per question, named by the question.
// The labels are examples, not an enum: claude takes any text.
func (in *askInput) schema() json.RawMessage {
	props := map[string]any{}
	required := make([]string, 0, len(in.Questions))
	for _, q := range in.Questions {
		labels := make([]string, 0, len(q.Options))
		for _, o := range q.Options {
			labels = append(labels, o.Label)
		}
		prop := map[string]any{"type": "string", "title": q.Header, "examples": labels}
		if q.Multi {
			prop = map[string]any{"type": "array", "title": q.Header, "items": map[string]any{"type": "string", "examples": labels}}
		}
		props[q.Question] = prop
		required = append(required, q.Question)
	}
	b, err := json.Marshal(map[string]any{"type": "object", "properties": props, "required": required})
	if err != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	return b
}

// answers maps what the user said to the questions: an object by question or
// header, or one value for all of them.
func (in *askInput) answers(value json.RawMessage) map[string]string {
	out := map[string]string{}
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) == nil && object != nil {
		for _, q := range in.Questions {
			for _, key := range []string{q.Question, q.Header} {
				if v, ok := object[key]; ok && key != "" {
					out[q.Question] = plainText(v)
					break
				}
			}
		}
		if len(out) > 0 {
			return out
		}
		if len(object) == 1 { // {"answer": "…"} and the like
			for _, v := range object {
				value = v
			}
		}
	}
	if text := plainText(value); text != "" {
		for _, q := range in.Questions {
			out[q.Question] = text
		}
	}
	return out
}

// plainText is a JSON value as a user would write it.
func plainText(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	var list []json.RawMessage
	if json.Unmarshal(v, &list) == nil {
		parts := make([]string, 0, len(list))
		for _, x := range list {
			parts = append(parts, plainText(x))
		}
		return strings.Join(parts, ", ")
	}
	return strings.TrimSpace(string(v))
}

func withAnswers(input json.RawMessage, answers map[string]string) json.RawMessage {
	m := map[string]json.RawMessage{}
	_ = json.Unmarshal(input, &m)
	a, err := json.Marshal(answers)
	if err != nil {
		return input
	}
	m["answers"] = a
	b, err := json.Marshal(m)
	if err != nil {
		return input
	}
	return b
}
