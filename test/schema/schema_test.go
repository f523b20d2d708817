package schema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"innerd/adapter/openapi"
	"innerd/events"
)

var update = flag.Bool("update", false, "write docs/openapi.json and docs/events.schema.json, and what the server has of them")

// root is the folder of the module.
const root = "../.."

// TestPublishedDocumentsAreTrue makes both documents from the Go types, for
// docs and, without spaces, for the server.
func TestPublishedDocumentsAreTrue(t *testing.T) {
	for _, doc := range []struct {
		name string
		made func(string) ([]byte, error)
	}{
		{"openapi.json", openapi.Build},
		{"events.schema.json", openapi.Events},
	} {
		pretty, err := doc.made(root)
		if err != nil {
			t.Fatal(err)
		}
		var small bytes.Buffer
		if err := json.Compact(&small, pretty); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string][]byte{"docs": pretty, "adapter/published": small.Bytes()} {
			path = filepath.Join(root, path, doc.name)
			if *update {
				if err := os.WriteFile(path, want, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s is not what the types say; run: go test -tags nomsgpack ./test/schema -update", path)
			}
		}
	}
}

// TestEventsFitTheSchema checks what the encoding writes against what is
// published.
func TestEventsFitTheSchema(t *testing.T) {
	raw, err := openapi.Events(root)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("events.json", doc); err != nil {
		t.Fatal(err)
	}
	s := c.MustCompile("events.json")
	check := func(line []byte) error {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return s.Validate(v)
	}
	code, n := 3, int64(7)
	for _, d := range []events.Data{
		events.TaskID{TaskID: "t", Backend: "simulate"},
		events.MessageDelta{Delta: "\u0085", MessageID: "m1"},
		events.ReasoningDelta{Delta: "x", ReasoningID: "r1"},
		events.ToolCall{ID: "tc", Name: "Bash", Input: json.RawMessage(`{"command":"ls"}`)},
		events.ToolComplete{ID: "tc", Success: true, ExitCode: &code, Result: "x"},
		events.ToolResolved{ToolCallID: "tc", Outcome: events.OutcomeOK, Content: []events.Part{events.Text("x")}},
		events.Usage{InputTokens: &n, Backend: "simulate"},
		events.TurnUsage{Usage: events.Usage{OutputTokens: &n}},
		events.NewError(events.ErrAuth, "no key"),
		events.End{State: events.Completed, Usage: &events.Usage{}},
		events.Heartbeat{Status: "waiting"},
	} {
		line, err := events.AppendLine(nil, 1, 2, d)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, bad := range []string{`{"type":"session.end","data":{"state":7}}`, `{"type":"text_delta","data":{}}`, `{"data":{}}`} {
		if check([]byte(bad)) == nil {
			t.Errorf("%s passed", bad)
		}
	}
}
