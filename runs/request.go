package runs

import (
	"encoding/json"

	"innerd/runs/history"
)

// requestRecord is request.json: what was asked, without secrets. The texts of
// user and assistant stand in it once more, as a task shows them. It is a
// storedRequest, made by hand: a request may be large.
func requestRecord(spec Spec) json.RawMessage {
	size := 100 + len(spec.ContextID) + len(spec.Request)
	for _, msg := range spec.Messages {
		size += len(msg.Text) + len(msg.Text)/32 + 40
	}
	out := append(make([]byte, 0, size), `{"context_id":`...)
	out = appendText(out, spec.ContextID)
	between := `,"history":[`
	for _, msg := range spec.Messages {
		if msg.Role != "user" && msg.Role != "assistant" {
			continue
		}
		out = append(out, between...)
		out = append(out, `{"role":"`+msg.Role+`","content":`...)
		out = append(appendText(out, msg.Text), '}')
		between = ","
	}
	if between == "," {
		out = append(out, ']')
	}
	if len(spec.Request) > 0 {
		out = append(append(out, `,"request":`...), spec.Request...)
	}
	return append(out, '}')
}

type storedRequest struct {
	ContextID string         `json:"context_id"`
	History   []HistoryEntry `json:"history,omitempty"`
}

// promptOf splits the request's messages.
func promptOf(spec Spec) ([]history.Message, history.Message, error) {
	hist, prompt, ok := history.Split(spec.Messages)
	if !ok {
		return nil, prompt, errNoPrompt
	}
	return hist, prompt, nil
}
