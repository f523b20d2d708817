package adapter_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"innerd/backends"
	"innerd/events"
	"innerd/runs"
	"innerd/runs/history"
)

// specOf is what the domain is asked for by a request.
func (s *server) specOf(t *testing.T, body string) runs.Spec {
	t.Helper()
	r := s.stream(t, "POST", "/message:stream", body)
	(<-s.fake.started).end(t)
	r.finish()
	return s.fake.spec(t)
}

func TestSpecOfEverything(t *testing.T) {
	s := serve(t, nil)
	got := s.specOf(t, `{"context_id":"c:1","messages":[{"role":"user","content":"hi"}],"metadata":{
		"model":"m","tool_call_limit":5,"tool_choice":"auto","context_reuse":false,"system_message":"sys","source":"chat","thinking_tokens":100,
		"native_tool_schemas":[{"name":"a","description":"A","parameters":{"type":"object"}},{"name":"b","parallel":false},{"name":"a"}],
		"backend":"simulate","task_id":"task_id-1","detach":true,"detach_grace_s":2.5,"on_busy":"cancel","timeout_s":1.5,"input_timeout_s":3,
		"permission_mode":"deny","interactive":true,"response_format":{"type":"object"},"max_turns":4,"cwd":"/w","add_dirs":["/x"],
		"env":{"SECRET":"hush"},"reasoning_effort":"low","credentials":{"api_key":"sk-1","base_url":"u","model":"cm","provider":"p"},
		"max_cost_usd":0.25,"background":"wait","project_instructions":false,"agent_options":{"script":[]}}}`)
	want := runs.Spec{
		ContextID: "c:1", Messages: []history.Message{{Role: "user", Text: "hi"}},
		TaskID: "task_id-1", Backend: "simulate", Source: "chat", Detach: true, DetachGrace: 2500 * time.Millisecond, OnBusy: "cancel",
		Timeout: 1500 * time.Millisecond, InputTimeout: 3 * time.Second, FreshSession: true, ToolCallLimit: 5, MaxCostUSD: 0.25,
		Settings: backends.Settings{
			Model: "m", Effort: "low", ThinkingTokens: 100, System: "sys", ToolChoice: json.RawMessage(`"auto"`), Schema: json.RawMessage(`{"type":"object"}`),
			Tools: []backends.Tool{
				{Name: "a", Description: "A", Schema: json.RawMessage(`{"type":"object"}`), Parallel: true},
				{Name: "b", Schema: json.RawMessage(`{"type":"object","properties":{}}`)},
			},
			Permission: "deny", Interactive: true, MaxTurns: 4, Background: "wait", Options: json.RawMessage(`{"script":[]}`),
		},
		Dir: "/w", AddDirs: []string{"/x"}, Env: map[string]string{"SECRET": "hush"},
		Credential:    &backends.Credential{Key: "sk-1", BaseURL: "u", Model: "cm", Provider: "p"},
		NoProjectDocs: true, Notes: []string{`tool "a" left out: its name is repeated`},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(runs.Spec{}, "Request", "BodyHash")); diff != "" {
		t.Error(diff)
	}
	stored := string(got.Request)
	for _, secret := range []string{"sk-1", "hush", "credentials"} {
		if strings.Contains(stored, secret) {
			t.Errorf("%s is stored: %s", secret, stored)
		}
	}
	if !strings.Contains(stored, `"SECRET":""`) || !strings.Contains(stored, `"model":"m"`) || len(got.BodyHash) != 64 {
		t.Errorf("%s %s", stored, got.BodyHash)
	}
}

func TestSpecOfNothing(t *testing.T) {
	s := serve(t, nil)
	for _, body := range []string{`{}`, `{"context_id":"default","metadata":null}`, `{"context_id":"","messages":[null]}`} {
		got := s.specOf(t, body)
		want := runs.Spec{Messages: []history.Message{}}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(runs.Spec{}, "Request")); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
	if got := s.specOf(t, `{"metadata":{"detach_grace_s":0}}`).DetachGrace; got != 1 {
		t.Errorf("no grace at all became %v", got)
	}
	if got := s.specOf(t, `{"metadata":{"timeout_s":1e300}}`).Timeout; got < 24*time.Hour {
		t.Errorf("a long time became %v", got)
	}
}

func TestQueryIsThePrompt(t *testing.T) {
	s := serve(t, nil)
	for body, want := range map[string]string{
		`{"messages":[],"metadata":{"query":"q"}}`:                                     "q",
		`{"metadata":{"query":"q","context":"c"}}`:                                     "q\n\nContext:\nc",
		`{"messages":[{"role":"user","content":"u"}],"metadata":{"query":"q"}}`:        "u",
		`{"messages":[{"role":"assistant","content":"a"}],"metadata":{"query":"q"}}`:   "q",
		`{"messages":[{"role":"user","content":""}],"metadata":{"query":"not asked"}}`: "",
	} {
		got := s.specOf(t, body).Messages
		if last := got[len(got)-1]; last.Role != "user" || last.Text != want {
			t.Errorf("%s: %+v", body, last)
		}
	}
}

func TestSystemMessages(t *testing.T) {
	s := serve(t, nil)
	messages := `"messages":[{"role":"system","content":"one"},{"role":"developer","content":"two"},{"role":"user","content":"u"}]`
	if got := s.specOf(t, `{`+messages+`}`).Settings.System; got != "one\n\ntwo" {
		t.Errorf("%q", got)
	}
	if got := s.specOf(t, `{`+messages+`,"metadata":{"system_message":"mine"}}`).Settings.System; got != "mine" {
		t.Errorf("%q", got)
	}
}

func TestMessagesOfTheSpec(t *testing.T) {
	s := serve(t, nil)
	got := s.specOf(t, `{"messages":[
		{"role":"user","content":"look","images":[{"url":"http://x/a","id":"i"},{"content":"QUJD\n","mime_type":"image/gif","alt_text":"alt"},{"url":"data:image/webp;base64,QUJD"},{"content":"data:;base64,QUI"}],
		 "files":[{"content":"plain text!","filename":"f.txt"},{"filepath":"/p"},{"url":"http://x/f"},{"url":"data:text/plain,a%20b"}],"audio":[{"url":"http://x/s","transcript":"words"}]},
		{"role":"assistant","content":"a","reasoning_content":"r","tool_calls":[{"id":"c","function":{"name":"t","arguments":"{\"x\":1}"}}],"audio_output":{"content":"QUJD","transcript":"said"}},
		{"role":"tool","tool_name":"t","tool_call_id":"c","tool_call_error":true,"content":"boom"},
		{"role":"assistant","content":"sum","is_summary":true}]}`).Messages
	want := []history.Message{
		{Role: "user", Text: "look\n[audio transcript: words]", Attachments: []events.Part{
			{Type: "image", URL: "http://x/a", ID: "i", MimeType: "image/png"},
			{Type: "image", Data: "QUJD", MimeType: "image/gif", Name: "alt"},
			{Type: "image", Data: "QUJD", MimeType: "image/webp"},
			{Type: "image", Data: "QUI=", MimeType: "image/png"},
			{Type: "file", Data: "cGxhaW4gdGV4dCE=", Name: "f.txt", MimeType: "application/octet-stream"},
			{Type: "file", Path: "/p", MimeType: "application/octet-stream"},
			{Type: "file", URL: "http://x/f"},
			{Type: "file", Data: "YSBi", MimeType: "text/plain"},
			{Type: "audio", URL: "http://x/s", MimeType: "audio/mpeg"},
		}},
		{
			Role: "assistant", Text: "a", Reasoning: "r", ToolCalls: []history.ToolCall{{ID: "c", Name: "t", Arguments: json.RawMessage(`{"x":1}`)}},
			Attachments: []events.Part{{Type: "audio", Data: "QUJD", MimeType: "audio/mpeg"}},
		},
		{Role: "tool", Text: "boom", ToolName: "t", ToolCallID: "c", ToolError: true},
		{Role: "assistant", Text: "sum", Summary: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Names of secrets in another case are kept out of what is stored as well.
func TestNoSecretIsStored(t *testing.T) {
	s := serve(t, nil)
	got := s.specOf(t, `{"METADATA":{"Credentials":{"api_key":"sk-1"},"ENV":{"A":"hush"},"env":"hush"},"metadata":{"env":{"B":"hush"}},"messages":[]}`)
	if strings.Contains(string(got.Request), "sk-1") || strings.Contains(string(got.Request), "hush") {
		t.Errorf("%s", got.Request)
	}
}
