package a2a_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"innerd/adapter/a2a/extension"
	"innerd/test/a2a/extschema"
	"innerd/test/a2a/rig"
)

var update = flag.Bool("update", false, "write docs/a2a-extension.schema.json")

const published = "../../docs/a2a-extension.schema.json"

func TestPublishedSchemaIsTrue(t *testing.T) {
	got, err := extschema.Extension()
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(published, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/a2a-extension.schema.json is not what the types say; run: go test -tags nomsgpack ./test/a2a -run Schema -update")
	}
}

// What a run says in the extension fits what is published.
func TestExtensionFitsTheSchema(t *testing.T) {
	raw, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("ext.json", doc); err != nil {
		t.Fatal(err)
	}
	fits := func(def string, v json.RawMessage) {
		t.Helper()
		s, err := compiler.Compile("ext.json#/$defs/" + def)
		if err != nil {
			t.Fatal(err)
		}
		val, err := jsonschema.UnmarshalJSON(bytes.NewReader(v))
		if err == nil {
			err = s.Validate(val)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", def, v, err)
		}
	}
	s := start(t, rig.Options{})
	c := newClient(t, s).with(func(c *client) { c.ext = true })
	steps := `[{"reasoning":"a"},{"tool":{"name":"bash","input":{"x":1},"output":"out","exit_code":1,"ms":3}},{"usage":{"input_tokens":1}},{"retry":{"text":"said twice"}},{"text":"b"}]`
	kinds := map[string]bool{}
	for _, e := range c.open(http.MethodPost, "/message:stream", message("schema", "go", script(steps, nil))).all() {
		if x, ok := extended(e); ok {
			kinds[x.Kind] = true
			fits("Event", e.StatusUpdate.Status.Message.Parts[0].Data)
			fits("UpdateInfo", ours(t, e.StatusUpdate.Metadata))
		}
		if e.ArtifactUpdate != nil {
			fits("ArtifactInfo", ours(t, e.ArtifactUpdate.Artifact.Metadata))
		}
		if e.StatusUpdate != nil && e.StatusUpdate.Status.State.Terminal() {
			fits("TaskInfo", ours(t, e.StatusUpdate.Metadata))
		}
	}
	if len(kinds) < 4 {
		t.Errorf("only %v", kinds)
	}
	for def, v := range map[string]any{
		"Answer": extension.Answer{RequestID: "r", OptionID: "deny"}, "ToolResult": extension.ToolResult{ToolCallID: "t", Content: json.RawMessage(`[]`)},
		"Settings": map[string]any{"model": "m", "native_tool_schemas": []any{}, "permission_mode": "ask", "agent_options": map[string]any{}},
	} {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fits(def, raw)
	}
	if s, err := compiler.Compile("ext.json#/$defs/Event"); err == nil && s.Validate(map[string]any{"kind": "nonsense"}) == nil {
		t.Error("the schema takes anything")
	}
}

func ours(t *testing.T, metadata json.RawMessage) json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(metadata, &m); err != nil || m[extension.URI] == nil {
		t.Fatalf("no metadata of ours: %s %v", metadata, err)
	}
	return m[extension.URI]
}
