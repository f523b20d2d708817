// Package extschema writes the JSON Schema of innerd's A2A extension from the
// Go types that make it, so that the published one cannot drift.
package extschema

import (
	"encoding/json"
	"reflect"

	"github.com/invopop/jsonschema"

	"innerd/adapter/a2a/extension"
	"innerd/adapter/api"
)

// Extension is the schema: a definition for everything that the extension puts
// somewhere. Members may be added to any of them at any time.
func Extension() ([]byte, error) {
	r := &jsonschema.Reflector{AllowAdditionalProperties: true, DoNotReference: true, Anonymous: true, Mapper: anyJSON}
	defs := jsonschema.Definitions{}
	for _, d := range []struct {
		name, description string
		of                any
	}{
		{"Event", "data of the DataPart in a status update of the server", extension.Event{}},
		{"Answer", "data of a DataPart of the client: the answer to a permission or a question", extension.Answer{}},
		{"ToolResult", "data of a DataPart of the client: the result of one of its tools", extension.ToolResult{}},
		{"Settings", "metadata of a message of the client, under the extension's URI: how the task shall be done", api.Metadata{}},
		{"TaskInfo", "metadata of a task and of its last status update, under the extension's URI", extension.TaskInfo{}},
		{"UpdateInfo", "metadata of a status update with an Event, under the extension's URI", extension.UpdateInfo{}},
		{"ArtifactInfo", "metadata of an artifact, under the extension's URI", extension.ArtifactInfo{}},
	} {
		s := r.ReflectFromType(reflect.TypeOf(d.of))
		s.Version, s.Description = "", d.description
		defs[d.name] = s
	}
	return json.MarshalIndent(&jsonschema.Schema{
		Version: jsonschema.Version, Title: "innerd's A2A extension " + extension.URI, Definitions: defs,
	}, "", "  ")
}

// anyJSON says of values that are somebody else's that they may be anything.
func anyJSON(t reflect.Type) *jsonschema.Schema {
	if t == reflect.TypeFor[json.RawMessage]() {
		return &jsonschema.Schema{}
	}
	return nil
}
