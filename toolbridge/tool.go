package toolbridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"innerd/events"
)

// maxProblem bounds what a model is told about bad arguments.
const maxProblem = 2000

// tool is a bridged tool of one session.
type tool struct {
	name   string
	schema func() *jsonschema.Schema // compiled at the first call; nil: no check
	serial bool                      // never two open calls
	ask    bool                      // AskUser

	// Guarded by the bridge's mu; serial tools only.
	busy  bool
	queue []*Pending
}

func compileTools(specs []ToolSpec) map[string]*tool {
	m := make(map[string]*tool, len(specs))
	for _, t := range specs {
		m[t.Name] = &tool{
			name:   t.Name,
			schema: sync.OnceValue(func() *jsonschema.Schema { return compile(t.Schema) }),
			serial: !t.Parallel || saysSerial(t.Schema),
			ask:    isAskUser(t),
		}
	}
	return m
}

// saysSerial reports a schema with "parallel": false.
func saysSerial(schema json.RawMessage) bool {
	var s struct {
		Parallel *bool `json:"parallel"`
	}
	return json.Unmarshal(schema, &s) == nil && s.Parallel != nil && !*s.Parallel
}

// compile gives nil for a schema that can't be compiled. Hosts' schemas are
// not trusted: a $ref never reads a file or the network.
func compile(schema json.RawMessage) (out *jsonschema.Schema) {
	defer func() {
		if recover() != nil {
			out = nil
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if c.AddResource("urn:tool", doc) != nil {
		return nil
	}
	s, err := c.Compile("urn:tool")
	if err != nil {
		return nil
	}
	return s
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("references to other documents are not followed: " + url)
}

// Misfit says why a value does not fit a schema, in the words that an answer
// to a question is refused with; "" if it does, or if there is no schema that
// could say so.
func Misfit(schema, value json.RawMessage) string { return problem(compile(schema), value) }

// problem says what is wrong with a value, "" if nothing is.
func problem(s *jsonschema.Schema, raw json.RawMessage) (words string) {
	if s == nil {
		return ""
	}
	defer func() {
		if recover() != nil { // a schema the library can't run is not checked
			words = ""
		}
	}()
	v, ok := decode(raw)
	if !ok {
		return "not JSON"
	}
	err := s.Validate(v)
	if err == nil {
		return ""
	}
	// The first line of the library's text names the schema, not the fault.
	_, words, _ = strings.Cut(err.Error(), "\n")
	words = strings.TrimSpace(words)
	if words == "" {
		words = err.Error()
	}
	if len(words) > maxProblem {
		words = strings.ToValidUTF8(words[:maxProblem], "") + " …"
	}
	return words
}

// check makes p's request fit for the log, and says why it must not be
// announced, if so.
func (s *Session) check(p *Pending) (refusal string) {
	switch p.r.Kind {
	case events.KindPermission:
		p.r.Input = object(p.r.Input)
		p.r.Input = quoted(p.r.Input)
		return ""
	case events.KindQuestion:
		if !json.Valid(p.r.Schema) {
			p.r.Schema = json.RawMessage(`{"type":"string"}`)
		}
		return ""
	}
	p.r.Input = object(p.r.Input)
	if v, ok := decode(p.r.Input); !ok {
		return fmt.Sprintf("invalid arguments for %s: not JSON", p.r.Tool)
	} else if _, ok := v.(map[string]any); !ok {
		return fmt.Sprintf("invalid arguments for %s: not an object", p.r.Tool)
	}
	if p.tool == nil {
		return ""
	}
	if why := problem(p.tool.schema(), p.r.Input); why != "" {
		return fmt.Sprintf("invalid arguments for %s: %s", p.r.Tool, why)
	}
	if p.tool.ask {
		p.r, p.id, p.tool = askUserQuestion(p.r), newRequestID(), nil
	}
	return ""
}

// object is {} for no arguments at all.
func object(raw json.RawMessage) json.RawMessage {
	if t := bytes.TrimSpace(raw); len(t) == 0 || bytes.Equal(t, []byte("null")) {
		return json.RawMessage("{}")
	}
	return raw
}
