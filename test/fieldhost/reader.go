// Package fieldhost plays the host agent loop that is in the field: it reads a
// stream as that host does, odd as some of its rules are, and says what the
// host would end up with. Tests hold the server against it.
package fieldhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Call is a bridged call that the host was asked to run.
type Call struct {
	ID        string
	Name      string
	Arguments json.RawMessage
}

// Question is one that the host was asked to put to its user.
type Question struct {
	TaskID    string
	RequestID string
	Message   string
	Schema    json.RawMessage
}

// Result is what the host has at the end of a run.
type Result struct {
	Text      string   // of the answer: what agent mode and council keep
	Shown     string   // the deltas alone: what chat shows
	Reasoning []string // blocks
	Calls     []Call
	Native    []string // names of the agent's own tools, from telemetry
	Questions []Question
	Usage     []json.RawMessage // each is billed in agent mode; chat keeps the last
	TaskID    string
	Beats     int      // heartbeats
	Types     []string // of every frame that was read
	Ignored   int      // lines that were neither empty nor JSON

	Failed bool   // the run counts as a failure
	Why    string // what it says then
}

// LastUsage is what chat keeps.
func (r *Result) LastUsage() json.RawMessage {
	if len(r.Usage) == 0 {
		return nil
	}
	return r.Usage[len(r.Usage)-1]
}

// Handlers is what the host does while it reads. It reads nothing meanwhile.
type Handlers struct {
	Call      func(Call)               // runs a tool and sends its result
	Question  func(Question)           // asks the user
	Heartbeat func(taskID string) bool // looks whether the user has canceled; true: hang up
}

// ErrHungUp is the end of a read that Heartbeat ended.
var ErrHungUp = errors.New("fieldhost: the user canceled, and the host hung up")

// Read reads a body to its end, or to the first session.error. An error of the
// body makes the run a failure, and is returned.
func Read(body io.Reader, h Handlers) (*Result, error) {
	s := &state{Result: &Result{}, h: h}
	err := s.read(body)
	s.Text, s.Shown = s.text.String(), s.shown.String()
	return s.Result, err
}

func (s *state) read(body io.Reader) error {
	lines := newLineReader(body)
	for {
		line, err := lines.next()
		if err != nil && !errors.Is(err, io.EOF) {
			s.fail(fmt.Sprintf("the stream broke: %v", err))
			return err
		}
		if err != nil {
			break
		}
		if err := s.line(line); err != nil {
			return err
		}
		if s.Failed {
			return nil
		}
	}
	s.closeReasoning()
	if s.text.Len() == 0 && len(s.Reasoning) == 0 && len(s.Calls) == 0 {
		s.fail("no text, no reasoning and no call")
	}
	return nil
}

// state is a Result in the making.
type state struct {
	*Result
	h    Handlers
	open *strings.Builder // the reasoning block that is open

	text, shown strings.Builder // of the Result
}

func (s *state) fail(why string) {
	s.closeReasoning()
	s.Failed, s.Why = true, why
}

// line reads one line: of SSE it knows only the prefix of data.
func (s *state) line(line string) error {
	line = strings.TrimSpace(line)
	text, isData := strings.CutPrefix(line, "data:")
	text = strings.TrimSpace(text)
	if text == "" || text == "[DONE]" || strings.HasPrefix(text, ":") {
		return nil
	}
	var f struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal([]byte(text), &f) != nil || f.Type == "" {
		if isData || !sseField(text) {
			s.Ignored++
		}
		return nil
	}
	if len(f.Data) == 0 {
		f.Data = json.RawMessage(text)
	}
	return s.frame(f.Type, f.Data)
}

// sseField reports whether a line is one of the others of SSE.
func sseField(line string) bool {
	for _, p := range []string{"id:", "event:", "retry:"} {
		if strings.HasPrefix(line, p) {
			return true
		}
	}
	return false
}

// aliases are the other names under which the host takes a type.
var aliases = map[string]string{
	"error":            "session.error",
	"usage":            "assistant.usage",
	"text_delta":       "assistant.message_delta",
	"message_delta":    "assistant.message_delta",
	"message_complete": "assistant.message",
	"content_done":     "assistant.message",
	"reasoning_delta":  "assistant.reasoning_delta",
	"reasoning_done":   "assistant.reasoning",
}

type fields struct {
	Delta      *string         `json:"delta"`
	Text       *string         `json:"text"`
	Content    *string         `json:"content"`
	Message    string          `json:"message"`
	Name       string          `json:"name"`
	TaskID     string          `json:"task_id"`
	ToolCallID string          `json:"tool_call_id"`
	ToolName   string          `json:"tool_name"`
	Arguments  json.RawMessage `json:"arguments"`
	RequestID  string          `json:"request_id"`
	Schema     json.RawMessage `json:"schema"`
}

func first(list ...*string) string {
	for _, s := range list {
		if s != nil && *s != "" {
			return *s
		}
	}
	return ""
}

func (s *state) frame(typ string, raw json.RawMessage) error {
	s.Types = append(s.Types, typ)
	if real, ok := aliases[typ]; ok {
		typ = real
	}
	var d fields
	_ = json.Unmarshal(raw, &d) // a field of another type counts as missing
	switch typ {
	case "heartbeat":
		s.Beats++
		if s.h.Heartbeat != nil && s.h.Heartbeat(s.TaskID) {
			s.fail("canceled")
			return ErrHungUp
		}
		return nil
	case "assistant.reasoning_delta":
		s.reason(first(d.Delta, d.Text))
		return nil
	case "assistant.reasoning":
		if s.open == nil {
			s.reason(first(d.Content, d.Text))
		}
		s.closeReasoning()
		return nil
	}
	s.closeReasoning()
	s.other(typ, d, raw)
	return nil
}

// other takes every type but heartbeats and reasoning.
func (s *state) other(typ string, d fields, raw json.RawMessage) {
	switch typ {
	case "session.task_id":
		s.TaskID = d.TaskID
	case "assistant.message_delta":
		text := first(d.Delta, d.Text)
		s.shown.WriteString(text)
		s.text.WriteString(text)
	case "assistant.message":
		if text := first(d.Content, d.Text); text != "" {
			s.text.Reset() // whatever was said before in this run is gone
			s.text.WriteString(text)
		}
	case "assistant.tool_call":
		s.Native = append(s.Native, d.Name)
	case "tool.execution_request":
		c := Call{d.ToolCallID, d.ToolName, d.Arguments}
		s.Calls = append(s.Calls, c)
		if s.h.Call != nil {
			s.h.Call(c)
		}
	case "session.input_required":
		q := Question{s.TaskID, d.RequestID, d.Message, d.Schema}
		s.Questions = append(s.Questions, q)
		if s.h.Question != nil {
			s.h.Question(q)
		}
	case "assistant.usage":
		s.Usage = append(s.Usage, raw)
	case "session.error":
		if d.Message == "" {
			d.Message = "unknown error"
		}
		s.fail(d.Message)
	}
}

func (s *state) reason(text string) {
	if text == "" {
		return
	}
	if s.open == nil {
		s.open = &strings.Builder{}
	}
	s.open.WriteString(text)
}

func (s *state) closeReasoning() {
	if s.open != nil {
		s.Reasoning = append(s.Reasoning, s.open.String())
		s.open = nil
	}
}
