package mcpjson_test

import (
	"encoding/json"
	"testing"

	"innerd/events"
	"innerd/events/mcpjson"
)

// FuzzTool: any schema of a host becomes an entry that MCP allows.
func FuzzTool(f *testing.F) {
	for _, s := range []string{"", "null", "{}", "[]", `{"type":"string"}`, `{"type":["object","null"],"parallel":false}`, `{"properties":[]}`, `{"type":"object","properties":{"a":{"parallel":true}},"required":"a"}`, `{"$ref":"#"}`, "{", "\xff"} {
		f.Add("look", "looks", []byte(s), true)
	}
	f.Fuzz(func(t *testing.T, name, about string, schema []byte, parallel bool) {
		var got struct {
			InputSchema map[string]json.RawMessage `json:"inputSchema"`
		}
		raw := mcpjson.Tool(name, about, schema, parallel, map[string]any{"m": 1})
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if string(got.InputSchema["type"]) != `"object"` {
			t.Fatalf("%q became %s", schema, raw)
		}
	})
}

// FuzzResult: any result of a host becomes one that MCP allows.
func FuzzResult(f *testing.F) {
	for _, s := range []string{`[]`, `[{"type":"text","text":"a"}]`, `[{"type":"image","mime_type":"image/png","data":"AA=="}]`, `[{"type":"image","data":"%"}]`, `[{"type":"file","name":"f","path":"/x"}]`, `[{"type":"json","json":{"a":1}}]`, `[{"type":"odd"},{}]`} {
		f.Add("text", []byte(s), false)
		f.Add("\xff", []byte(s), true)
	}
	f.Fuzz(func(t *testing.T, text string, content []byte, failed bool) {
		a := events.Answer{Outcome: events.OutcomeOK, Result: text, IsError: failed}
		if json.Unmarshal(content, &a.Content) != nil {
			a.Content = nil
		}
		var got struct {
			Content []struct {
				Type string `json:"type"`
			} `json:"content"`
		}
		raw := mcpjson.Result(a)
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%.300s: %v", raw, err)
		}
		for _, c := range got.Content {
			switch c.Type {
			case "text", "image", "audio", "resource", "resource_link":
			default:
				t.Fatalf("%.300s has the type %q", raw, c.Type)
			}
		}
	})
}
