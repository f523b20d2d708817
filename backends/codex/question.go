package codex

import (
	"encoding/json"
	"strings"

	"innerd/backends/internal/rpc"
	"innerd/events"
)

const noUser = "No user is present; decide yourself."

// question puts codex's questions to the user as one request.
func (t *turn) question(r *rpc.Request, q *request) {
	t.tr.next()
	t.ask(events.Request{
		Kind: events.KindQuestion, NativeID: q.ItemID, Message: q.words(), Schema: q.schema(),
	}, func(a events.Answer) {
		answers := q.mapped(a.Value)
		if a.Outcome != events.OutcomeAnswered || len(answers) == 0 {
			why := orElse(a.Message, "The user did not answer; decide yourself.")
			t.respond(r, q.answers(func(question) string { return why }))
			return
		}
		t.respond(r, q.answers(func(x question) string { return answers[x.ID] }))
	})
}

// answers is what codex wants to hear: for each question a list.
func (q *request) answers(of func(question) string) map[string]any {
	out := map[string]any{}
	for _, x := range q.Questions {
		out[x.ID] = map[string]any{"answers": []string{of(x)}}
	}
	return map[string]any{"answers": out}
}

func (q *request) words() string {
	var b strings.Builder
	for i, x := range q.Questions {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(x.Question)
		for _, o := range x.Options {
			b.WriteString("\n- " + o.Label)
			if o.Description != "" {
				b.WriteString(": " + o.Description)
			}
		}
	}
	return b.String()
}

// schema is an object with a property per question, named by its id. The
// labels are examples, not an enum: codex takes any text.
func (q *request) schema() json.RawMessage {
	props := map[string]any{}
	required := []string{}
	for _, x := range q.Questions {
		labels := []string{}
		for _, o := range x.Options {
			labels = append(labels, o.Label)
		}
		props[x.ID] = map[string]any{"type": "string", "title": x.Header, "description": x.Question, "examples": labels}
		required = append(required, x.ID)
	}
	return fields(map[string]any{"type": "object", "properties": props, "required": required})
}

// mapped gives the user's answer to the questions: an object by id, question
// or header, or one value for all of them.
func (q *request) mapped(value json.RawMessage) map[string]string {
	out := map[string]string{}
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) == nil && object != nil {
		for _, x := range q.Questions {
			for _, key := range []string{x.ID, x.Question, x.Header} {
				if v, ok := object[key]; ok && key != "" {
					out[x.ID] = plainText(v)
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
		for _, x := range q.Questions {
			out[x.ID] = text
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
