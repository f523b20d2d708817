package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"innerd/events"
)

// Events is the JSON Schema of one event as a frame or a line of the journal
// carries it: an object for each type, with what its data may hold. Fields may
// be added to any type at any time. root is the folder of the module, whose
// comments the schema has.
func Events(root string) ([]byte, error) {
	r, err := reflector(root)
	if err != nil {
		return nil, err
	}
	r.ExpandedStruct, r.DoNotReference = true, true
	var alternatives []*jsonschema.Schema
	for _, t := range events.Types() {
		d, err := dataOf(t)
		if err != nil {
			return nil, err
		}
		data := r.ReflectFromType(d)
		data.Version = ""
		alternatives = append(alternatives, event(t, data))
	}
	return indented(&jsonschema.Schema{
		Version: jsonschema.Version, Title: "An event of a run", OneOf: alternatives,
	})
}

// dataOf is the Go type of a type's data.
func dataOf(t events.Type) (reflect.Type, error) {
	d := events.Decode(t, json.RawMessage("{}"))
	if d.EventType() != t {
		return nil, fmt.Errorf("openapi: %s decodes as %s", t, d.EventType())
	}
	return reflect.TypeOf(d), nil
}

func event(t events.Type, data *jsonschema.Schema) *jsonschema.Schema {
	props := jsonschema.NewProperties()
	props.Set("id", &jsonschema.Schema{Type: "integer", Description: "position in the run, from 1; absent in a heartbeat"})
	props.Set("ts", &jsonschema.Schema{Type: "integer", Description: "Unix milliseconds"})
	props.Set("type", &jsonschema.Schema{Const: string(t)})
	props.Set("data", data)
	return &jsonschema.Schema{Type: "object", Properties: props, Required: []string{"type", "data"}}
}

// EventName is the component that is the schema of a type of event.
func EventName(t events.Type) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(string(t), func(r rune) bool { return r == '.' || r == '_' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String() + "Event"
}
