package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Tool is a tool of the host.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // JSON Schema, an object
	Serial      bool            `json:"-"`                    // "parallel": false: never two calls at once
}

// MarshalJSON gives the flat shape.
func (t Tool) MarshalJSON() ([]byte, error) {
	type flat Tool
	if !t.Serial {
		return json.Marshal(flat(t))
	}
	return json.Marshal(struct {
		flat
		Parallel bool `json:"parallel"`
	}{flat(t), false})
}

var emptySchema = json.RawMessage(`{"type":"object","properties":{}}`)

// decodeTools reads native_tool_schemas. A tool that can't be used is left
// out, and a note says so.
func decodeTools(raw json.RawMessage) (tools []Tool, notes []string) {
	if absent(raw) {
		return nil, nil
	}
	if kind(raw) != '[' {
		return nil, []string{"native_tool_schemas left out: it is " + kindName(raw) + ", not a list"}
	}
	seen := map[string]bool{}
	for i, item := range looseList(raw) {
		t, err := decodeTool(item)
		switch {
		case err != nil && t.Name != "":
			notes = append(notes, fmt.Sprintf("tool %q left out: %v", t.Name, err))
		case err != nil:
			notes = append(notes, fmt.Sprintf("native_tool_schemas[%d] left out: %v", i, err))
		case seen[t.Name]:
			notes = append(notes, fmt.Sprintf("tool %q left out: its name is repeated", t.Name))
		default:
			seen[t.Name] = true
			tools = append(tools, t)
		}
	}
	return tools, notes
}

// toolFields are the fields of a tool, as they came.
type toolFields struct{ name, description, parameters, inputSchema, mcpSchema, parallel, function []byte }

func (f *toolFields) read(raw []byte) {
	for w := walkIn(raw); w.next(); {
		switch string(fieldOf(w.key)) {
		case "name":
			f.name = w.val
		case "description":
			f.description = w.val
		case "parameters":
			f.parameters = w.val
		case "input_schema":
			f.inputSchema = w.val
		case "inputschema":
			f.mcpSchema = w.val
		case "parallel":
			f.parallel = w.val
		case "function":
			f.function = w.val
		}
	}
}

// decodeTool reads {"name","description","parameters"} (also "input_schema"
// and "inputSchema") and {"type":"function","function":{…}}.
func decodeTool(raw json.RawMessage) (Tool, error) {
	if kind(raw) != '{' {
		return Tool{}, fmt.Errorf("it is %s, not an object", kindName(raw))
	}
	var f toolFields
	f.read(raw)
	if kind(f.function) == '{' {
		inner := toolFields{parallel: f.parallel}
		inner.read(f.function)
		f = inner
	}
	t := Tool{Description: looseString(f.description)}
	if kind(f.name) == '"' {
		t.Name = looseString(f.name)
	}
	if t.Name == "" {
		return t, fmt.Errorf("it has no name")
	}
	for _, s := range [][]byte{f.parameters, f.inputSchema, f.mcpSchema} {
		if !absent(s) {
			t.Parameters = bytes.Clone(s)
			break
		}
	}
	if t.Parameters == nil {
		t.Parameters = emptySchema
	}
	parallel, err := checkSchema(t.Parameters)
	if own := looseBool(f.parallel); own != nil {
		parallel = *own
	}
	t.Serial = !parallel
	return t, err
}

// checkSchema says what is wrong with a schema of arguments, as far as it can
// be seen without compiling it, and whether it allows parallel calls.
func checkSchema(raw json.RawMessage) (parallel bool, err error) {
	if kind(raw) != '{' {
		return true, fmt.Errorf("its schema is %s, not an object", kindName(raw))
	}
	s := members(raw)
	if t := s["type"]; !absent(t) {
		var names []string
		for _, n := range looseList(t) {
			names = append(names, looseString(n))
		}
		if !slices.Contains(names, "object") {
			return true, fmt.Errorf("its schema has the type %s, not \"object\"", t)
		}
	}
	if p := s["properties"]; !absent(p) && kind(p) != '{' {
		return true, fmt.Errorf("its schema's properties are %s, not an object", kindName(p))
	}
	if p := looseBool(s["parallel"]); p != nil {
		return *p, nil
	}
	return true, nil
}
