package adapter_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"innerd/adapter"
	"innerd/adapter/api"
	"innerd/backends"
	"innerd/runs/history"
	"innerd/test/mutate"
)

// FuzzSpec: any body asks for a run or is refused with a fault; what is stored
// of it is JSON without its secrets, its attachments have bytes or a place, and
// its history can be told.
func FuzzSpec(f *testing.F) {
	for _, s := range []string{
		`{"context_id":"c","messages":[{"role":"user","content":[{"text":"a"},"b"],"images":[{"url":"http://x/y.png","id":"1"},{"content":"AA==","mime_type":"image/png"},{"filepath":"/x"}],"files":[{"filename":"n","format":"pdf","content":"AA=="}],"audio":[{"url":"u","transcript":"t"}],"videos":[{}]}],"metadata":{"env":{"A":"b"},"credentials":{"api_key":"a-secret-key-of-a-run","base_url":"http://m"}}}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"n","arguments":"{"}}],"reasoning_content":"r"},{"role":"tool","tool_call_id":"1","content":null,"tool_call_error":true}],"metadata":{"query":"q","context":"c"}}`,
		`{"messages":[{"role":"user","content":"x","image_output":[{"url":"a"}],"citations":{"items":[1]}}],"metadata":{"native_tool_schemas":[{"name":"a","parameters":{}},{"name":"a"}],"response_format":{"type":"object"},"timeout_s":1e300,"events":["all",7]}}`,
		`{"messages":[{"role":"user","content":"x","files":[{"content":" "},{"content":"data:image/png;base64,"}],"images":[{"url":"data:,"}]}]}`,
		`{"messages":null,"metadata":null}`, `{}`, `[`, `{"metadata":{"cwd":"../x","add_dirs":["a"]}}`,
	} {
		f.Add([]byte(s))
		for bad := range mutate.Bytes([]byte(s), 100) {
			f.Add(bad)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		spec, err := adapter.SpecOf(body)
		if err != nil {
			var field *api.FieldError
			var other *backends.FieldError
			if (errors.As(err, &field) || errors.As(err, &other)) && !strings.Contains(err.Error(), ": ") {
				t.Errorf("a fault without its field: %v", err)
			}
			return
		}
		if len(spec.Request) > 0 && !json.Valid(spec.Request) {
			t.Fatalf("%q is stored as %q", body, spec.Request)
		}
		if c := spec.Credential; c != nil && len(c.Key) > 12 && strings.Contains(string(spec.Request), c.Key) && strings.Count(string(body), c.Key) < 2 {
			t.Fatalf("the key is stored: %q", spec.Request)
		}
		for _, m := range spec.Messages {
			for _, a := range m.Attachments {
				if a.Type == "" || a.Data == "" && a.URL == "" && a.Path == "" && a.Text == "" {
					t.Fatalf("an attachment of nothing: %+v", a)
				}
			}
		}
		if hist, _, ok := history.Split(spec.Messages); ok {
			history.Render(hist, nil, history.RenderOptions{Total: 2000})
		}
	})
}

var owners = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// FuzzKeys: any file is refused or gives keys, each with an owner that can be a
// name, none of which an empty secret opens.
func FuzzKeys(f *testing.F) {
	for _, s := range []string{"secret\nname:secret\n\n  other:x  \r\n", "a:\n", ":x\n", "a:b:c", "n ame:x", "\x00", strings.Repeat("a", 70) + ":x", "é:x"} {
		f.Add(s)
		for bad := range mutate.Bytes([]byte(s), 30) {
			f.Add(string(bad))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		keys, _, err := adapter.ParseKeyFile([]byte(text))
		if err != nil {
			return
		}
		empty := adapter.NewKey("x", "")
		for _, k := range keys {
			if !owners.MatchString(k.Owner) {
				t.Fatalf("%q: the owner %q", text, k.Owner)
			}
			if empty.Owner = k.Owner; k == empty {
				t.Fatalf("%q: an empty secret is a key", text)
			}
		}
		if len(keys) == 0 {
			return
		}
		if _, err := adapter.New(adapter.Options{Keys: keys}); err != nil {
			t.Fatal(err)
		}
		for entry := range strings.SplitSeq(text, "\n") {
			if strings.TrimSpace(entry) != "" && adapter.Secret(entry) == "" {
				t.Fatalf("%q: no secret", entry)
			}
		}
	})
}
