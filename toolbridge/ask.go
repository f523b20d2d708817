package toolbridge

import (
	"bytes"
	"encoding/json"

	"innerd/events"
)

// AskUserName is the name of AskUser.
const AskUserName = "ask_user"

// AskUser is the built-in bridged tool for agents that have no way to ask of
// their own; a run lends it beside the host's where it is interactive. A call
// of it, on either road, becomes a question: its answer has the question's
// outcome and Value, and the user's words as Result.
func AskUser() ToolSpec {
	return ToolSpec{Name: AskUserName, Description: askUserDescription, Schema: bytes.Clone(askUserSchema), Parallel: true}
}

const askUserDescription = "Ask the user a question and wait for the answer. Use it only when you cannot go on without the user's decision or knowledge."

var askUserSchema = json.RawMessage(`{"type":"object","properties":{` +
	`"question":{"type":"string","description":"The question, complete in itself."},` +
	`"options":{"type":"array","items":{"type":"string"},"description":"Answers to choose from, if there are only some."}` +
	`},"required":["question"]}`)

// isAskUser tells our tool from a host's of the same name.
func isAskUser(t ToolSpec) bool {
	return t.Name == AskUserName && bytes.Equal(canonical(t.Schema), canonical(askUserSchema))
}

// question is the question that a call of AskUser asks; the arguments fit its
// schema.
func askUserQuestion(call events.Request) events.Request {
	var a struct {
		Question string   `json:"question"`
		Options  []string `json:"options"`
	}
	_ = json.Unmarshal(call.Input, &a)
	answer := map[string]any{"type": "string"}
	if len(a.Options) > 0 {
		answer["enum"] = a.Options
	}
	schema, _ := json.Marshal(map[string]any{
		"type": "object", "properties": map[string]any{"answer": answer}, "required": []string{"answer"},
	})
	return events.Request{Kind: events.KindQuestion, NativeID: call.NativeID, Message: a.Question, Schema: schema, Timeout: call.Timeout}
}

// words is a question's answer as text: the one text in it, or its JSON.
func words(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(value, &m) == nil && len(m) == 1 {
		for _, v := range m {
			if json.Unmarshal(v, &s) == nil {
				return s
			}
		}
	}
	return string(value)
}
