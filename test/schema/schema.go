// Package schema writes the JSON Schema of the stream's events from the Go
// types that make them, so that the published one cannot drift.
package schema

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"

	"innerd/events"
)

// Events is the schema of one event as a frame or a line of the journal
// carries it: an object for each type, with what its data may hold. Fields may
// be added to any type at any time.
func Events() ([]byte, error) {
	r := &jsonschema.Reflector{AllowAdditionalProperties: true, ExpandedStruct: true, DoNotReference: true, Anonymous: true}
	var alternatives []*jsonschema.Schema
	for _, t := range events.Types() {
		d := events.Decode(t, json.RawMessage("{}"))
		if d.EventType() != t {
			return nil, fmt.Errorf("schema: %s decodes as %s", t, d.EventType())
		}
		data := r.ReflectFromType(reflect.TypeOf(d))
		data.Version = ""
		alternatives = append(alternatives, event(t, data))
	}
	return json.MarshalIndent(&jsonschema.Schema{
		Version: jsonschema.Version, Title: "An event of a run", OneOf: alternatives,
	}, "", "  ")
}

func event(t events.Type, data *jsonschema.Schema) *jsonschema.Schema {
	props := jsonschema.NewProperties()
	props.Set("id", &jsonschema.Schema{Type: "integer", Description: "position in the run, from 1; absent in a heartbeat"})
	props.Set("ts", &jsonschema.Schema{Type: "integer", Description: "Unix milliseconds"})
	props.Set("type", &jsonschema.Schema{Const: string(t)})
	props.Set("data", data)
	return &jsonschema.Schema{Type: "object", Properties: props, Required: []string{"type", "data"}}
}
