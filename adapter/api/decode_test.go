package api_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/test/mutate"
)

func decode(t *testing.T, body string) *api.Request {
	t.Helper()
	r, err := api.DecodeRequest([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

// one decodes a request with one message.
func one(t *testing.T, message string) api.Message {
	t.Helper()
	r := decode(t, `{"messages":[`+message+`]}`)
	if len(r.Messages) != 1 {
		t.Fatalf("%s: %d messages", message, len(r.Messages))
	}
	return r.Messages[0]
}

func TestContentShapes(t *testing.T) {
	for content, want := range map[string]string{
		`"hello"`:                        "hello",
		`null`:                           "",
		`""`:                             "",
		`[]`:                             "",
		`[{"text":"a"},{"content":"b"}]`: "a\nb",
		`["a","b"]`:                      "a\nb",
		`[{"type":"text","text":"a"},null,"",{"x":1},"b"]`: "a\nb",
		`{"text":"a"}`:                    "a",
		`[{"content":[{"text":"deep"}]}]`: "deep",
		`[{"text":null,"content":"b"}]`:   "b",
		`42`:                              "42",
		`"\u0085\ud83d\ude00"`:            "\u0085😀",
	} {
		if got := one(t, `{"role":"user","content":`+content+`}`).Content; got != want {
			t.Errorf("content %s: %q, want %q", content, got, want)
		}
	}
	if got := one(t, `{"role":"user"}`).Content; got != "" {
		t.Errorf("missing content: %q", got)
	}
}

func TestRoles(t *testing.T) {
	for raw, want := range map[string]string{
		`"user"`: "user", `"narrator"`: "narrator", `null`: "", `7`: "7", `{}`: "",
	} {
		if got := one(t, `{"role":`+raw+`,"content":"x"}`).Role; got != want {
			t.Errorf("role %s: %q", raw, got)
		}
	}
}

func TestToolCallShapes(t *testing.T) {
	want := []api.ToolCall{{ID: "c1", Name: "read", Arguments: json.RawMessage(`{"p":1}`)}}
	for _, raw := range []string{
		`[{"id":"c1","name":"read","arguments":{"p":1}}]`,
		`[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"p\":1}"}}]`,
		`[{"id":"c1","function":{"name":"read","arguments":{"p":1}}}]`,
		`[{"id":"c1","name":"read","arguments":"{\"p\":1}"}]`,
		`{"id":"c1","name":"read","input":{"p":1}}`,
		`[{"id":"c1","tool_name":"read","arguments":{"p":1}},{"id":"c2"},7,null]`,
	} {
		if diff := cmp.Diff(want, one(t, `{"role":"assistant","tool_calls":`+raw+`}`).ToolCalls); diff != "" {
			t.Errorf("%s:\n%s", raw, diff)
		}
	}
	for raw, arguments := range map[string]string{
		`""`: "", `null`: "", `"not json"`: `"not json"`, `[1]`: "[1]",
	} {
		got := one(t, `{"tool_calls":[{"name":"x","arguments":`+raw+`}]}`).ToolCalls
		if len(got) != 1 || string(got[0].Arguments) != arguments {
			t.Errorf("arguments %s: %+v", raw, got)
		}
	}
	for _, raw := range []string{`null`, `7`, `"x"`, `[]`, `{}`} {
		if got := one(t, `{"tool_calls":`+raw+`}`).ToolCalls; got != nil {
			t.Errorf("tool_calls %s: %+v", raw, got)
		}
	}
}

func TestAttachments(t *testing.T) {
	m := one(t, `{"role":"user","content":"see",
		"images":[{"url":"http://x/a.png","id":"i1","alt_text":"A","size":"12"},{"content":"AAAA","mime_type":"image/gif"},{},null,7],
		"files":{"filepath":"/tmp/a","filename":"a.txt","size":-3},
		"audio":"http://x/a.mp3","videos":null,
		"image_output":{"content":"BBBB"},"audio_output":{"content":"CCCC","transcript":"hi","format":"wav"},
		"video_output":false}`)
	want := api.Message{
		Role: "user", Content: "see",
		Images: []api.Attachment{
			{Kind: events.PartImage, URL: "http://x/a.png", ID: "i1", AltText: "A", Size: 12},
			{Kind: events.PartImage, Content: "AAAA", MimeType: "image/gif"},
		},
		Files:       []api.Attachment{{Kind: events.PartFile, FilePath: "/tmp/a", Filename: "a.txt"}},
		Audio:       []api.Attachment{{Kind: events.PartAudio, URL: "http://x/a.mp3"}},
		ImageOutput: []api.Attachment{{Kind: events.PartImage, Content: "BBBB"}},
		AudioOutput: []api.Attachment{{Kind: events.PartAudio, Content: "CCCC", Transcript: "hi", Format: "wav"}},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	for kind, mime := range map[string]string{
		events.PartImage: "image/png", events.PartFile: "application/octet-stream",
		events.PartAudio: "audio/mpeg", events.PartVideo: "video/mp4",
	} {
		if got := (api.Attachment{Kind: kind}).DefaultMimeType(); got != mime {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

func TestOtherMessageFields(t *testing.T) {
	m := one(t, `{"role":"tool","content":"out","reasoning_content":"r","redacted_reasoning_content":"x",
		"tool_name":"read","tool_call_id":"c1","tool_call_error":true,"is_summary":"true",
		"citations":{"items":[1]},"unknown":{"a":1}}`)
	want := api.Message{
		Role: "tool", Content: "out", Reasoning: "r", RedactedReasoning: "x", ToolName: "read",
		ToolCallID: "c1", ToolError: true, Summary: true, Citations: json.RawMessage(`{"items":[1]}`),
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	m = one(t, `{"role":"tool","name":"read","tool_call_error":null,"is_summary":7,"citations":"no","reasoning_content":null}`)
	if diff := cmp.Diff(api.Message{Role: "tool", ToolName: "read"}, m); diff != "" {
		t.Error(diff)
	}
}

func TestLenientRequests(t *testing.T) {
	for _, body := range []string{
		`{}`, `{"messages":null}`, `{"messages":[]}`, `{"messages":[null]}`, `{"metadata":null}`,
		`{"context_id":null,"messages":[],"metadata":{}}`,
		`{"messages":[],"metadata":{"query":"do it","context":"ctx","unheard":[1]}}`,
		`{"metadata":{"model":null,"tool_call_limit":null,"tool_choice":null,"context_reuse":null,"tool_count":null,
			"tool_routing":null,"native_tool_schemas":null,"system_message":null,"source":null,"thinking_tokens":null}}`,
		`{"metadata":{"backend":null,"task_id":null,"detach":null,"detach_grace_s":null,"on_busy":null,"timeout_s":null,
			"input_timeout_s":null,"permission_mode":null,"interactive":null,"events":null,"response_format":null,
			"max_turns":null,"cwd":null,"add_dirs":null,"env":null,"reasoning_effort":null,"credentials":null,
			"max_cost_usd":null,"background":null,"project_instructions":null,"agent_options":null}}`,
		`{"metadata":{"model":7,"tool_call_limit":"many","context_reuse":{},"thinking_tokens":-5,"system_message":[{"text":"s"}],"native_tool_schemas":"x"}}`,
		"  \n{\"extra\":1}\n ",
	} {
		decode(t, body)
	}
	m := decode(t, `{"metadata":{"query":"q","context":{"a":1},"tool_call_limit":"5","thinking_tokens":1e3,"context_reuse":"false","system_message":["a","b"]}}`).Metadata
	if m.Query != "q" || m.Context != `{"a":1}` || m.ToolCallLimit != 5 || m.ThinkingTokens != 1000 || m.ContextReuse == nil || *m.ContextReuse || m.System != "a\nb" {
		t.Errorf("%+v", m)
	}
	if m.Prompt() != "q\n\nContext:\n{\"a\":1}" {
		t.Errorf("prompt %q", m.Prompt())
	}
}

func TestContextID(t *testing.T) {
	for id, own := range map[string]bool{"": true, "default": true, "https://x/y:z?q": false, "é": false} {
		raw, _ := json.Marshal(id)
		if r := decode(t, `{"context_id":`+string(raw)+`}`); r.ContextID != id || r.OwnContext() != own {
			t.Errorf("%q: %+v", id, r)
		}
	}
	decode(t, `{"context_id":"`+strings.Repeat("x", 512)+`"}`)
}

func TestTools(t *testing.T) {
	m := decode(t, `{"metadata":{"native_tool_schemas":[
		{"name":"a","description":"A","parameters":{"type":"object","properties":{"x":{"type":"string"}}}},
		{"name":"b","input_schema":{"type":["object","null"]}},
		{"type":"function","function":{"name":"c","description":"C","parameters":{"type":"object"}}},
		{"name":"d","inputSchema":{}},
		{"name":"e"},
		{"name":"f","parameters":null,"parallel":false},
		{"name":"g","parameters":{"type":"object","parallel":false}},
		{"name":"a","parameters":{}},
		{"name":"bad1","parameters":"string"},
		{"name":"bad2","parameters":{"type":"array"}},
		{"name":"bad3","parameters":{"properties":[]}},
		{"description":"nameless"}, "x", null]}}`).Metadata
	empty := json.RawMessage(`{"type":"object","properties":{}}`)
	want := []api.Tool{
		{Name: "a", Description: "A", Parameters: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}}}`)},
		{Name: "b", Parameters: json.RawMessage(`{"type":["object","null"]}`)},
		{Name: "c", Description: "C", Parameters: json.RawMessage(`{"type":"object"}`)},
		{Name: "d", Parameters: json.RawMessage(`{}`)},
		{Name: "e", Parameters: empty},
		{Name: "f", Parameters: empty, Serial: true},
		{Name: "g", Parameters: json.RawMessage(`{"type":"object","parallel":false}`), Serial: true},
	}
	if diff := cmp.Diff(want, m.Tools); diff != "" {
		t.Error(diff)
	}
	for i, word := range []string{`"a" left out: its name is repeated`, `"bad1"`, `"bad2"`, `"bad3"`, `[11]`, `[12]`, `[13]`} {
		if i >= len(m.Notes) || !strings.Contains(m.Notes[i], word) {
			t.Errorf("note %d: want %s in %q", i, word, m.Notes)
		}
	}
}

func TestFaultsNameTheirField(t *testing.T) {
	meta := func(s string) string { return `{"metadata":{` + s + `}}` }
	for body, field := range map[string]string{
		`[]`:                                  "body",
		`"x"`:                                 "body",
		`null`:                                "body",
		`{"messages":{}}`:                     "messages",
		`{"messages":"x"}`:                    "messages",
		`{"messages":[{},7]}`:                 "messages[1]",
		`{"messages":["x"]}`:                  "messages[0]",
		`{"context_id":7}`:                    "context_id",
		`{"metadata":[]}`:                     "metadata",
		meta(`"backend":7`):                   "metadata.backend",
		meta(`"task_id":7`):                   "metadata.task_id",
		meta(`"task_id":""`):                  "metadata.task_id",
		meta(`"task_id":"short"`):             "metadata.task_id",
		meta(`"task_id":"../../etc/pw"`):      "metadata.task_id",
		meta(`"detach":"yes"`):                "metadata.detach",
		meta(`"detach":1`):                    "metadata.detach",
		meta(`"detach_grace_s":"1"`):          "metadata.detach_grace_s",
		meta(`"detach_grace_s":-1`):           "metadata.detach_grace_s",
		meta(`"on_busy":"wait"`):              "metadata.on_busy",
		meta(`"on_busy":""`):                  "metadata.on_busy",
		meta(`"on_busy":true`):                "metadata.on_busy",
		meta(`"timeout_s":-0.5`):              "metadata.timeout_s",
		meta(`"timeout_s":1e999`):             "metadata.timeout_s",
		meta(`"input_timeout_s":[]`):          "metadata.input_timeout_s",
		meta(`"permission_mode":"never"`):     "metadata.permission_mode",
		meta(`"interactive":"true"`):          "metadata.interactive",
		meta(`"events":"some"`):               "metadata.events",
		meta(`"events":["session.plan","x"]`): "metadata.events[1]",
		meta(`"events":[7]`):                  "metadata.events[0]",
		meta(`"events":{}`):                   "metadata.events",
		meta(`"response_format":"json"`):      "metadata.response_format",
		meta(`"max_turns":1.5`):               "metadata.max_turns",
		meta(`"max_turns":-1`):                "metadata.max_turns",
		meta(`"cwd":["/"]`):                   "metadata.cwd",
		meta(`"add_dirs":"/"`):                "metadata.add_dirs",
		meta(`"add_dirs":["/",7]`):            "metadata.add_dirs[1]",
		meta(`"env":[]`):                      "metadata.env",
		meta(`"env":{"A":1}`):                 "metadata.env.A",
		meta(`"env":{"A=B":"1"}`):             "metadata.env",
		meta(`"reasoning_effort":3`):          "metadata.reasoning_effort",
		meta(`"credentials":"key"`):           "metadata.credentials",
		meta(`"credentials":{"api_key":7}`):   "metadata.credentials.api_key",
		meta(`"max_cost_usd":"1"`):            "metadata.max_cost_usd",
		meta(`"background":"keep"`):           "metadata.background",
		meta(`"project_instructions":"no"`):   "metadata.project_instructions",
		meta(`"agent_options":[]`):            "metadata.agent_options",
	} {
		_, err := api.DecodeRequest([]byte(body))
		var fe *api.FieldError
		if !errors.As(err, &fe) || fe.Field != field || fe.Reason == "" {
			t.Errorf("%s: %v, want a fault of %s", body, err, field)
		}
	}
	if _, err := api.DecodeRequest([]byte(`{"context_id":"` + strings.Repeat("x", 513) + `"}`)); err == nil {
		t.Error("a context_id of 513 bytes was taken")
	}
	for _, body := range []string{``, ` `, `{`, `{"messages":[}`, `{} x`, `{"metadata":{"env":}}`, "\x00"} {
		var fe *api.FieldError
		if _, err := api.DecodeRequest([]byte(body)); err == nil || errors.As(err, &fe) {
			t.Errorf("%q: %v, want a syntax error", body, err)
		}
	}
}

func TestStrictValues(t *testing.T) {
	m := decode(t, `{"metadata":{"backend":"simulate","task_id":"abcd-EF_1","detach":true,"detach_grace_s":0,"on_busy":"cancel",
		"timeout_s":1.5,"input_timeout_s":2,"permission_mode":"ask","interactive":true,"events":["session.plan","all"],
		"response_format":{"type":"object"},"max_turns":3,"cwd":"/w","add_dirs":["/a"],"env":{"A":"1"},
		"reasoning_effort":"high","credentials":{"api_key":"k","base_url":"u","model":"m","provider":"p","x":1},
		"max_cost_usd":0.5,"background":"wait","project_instructions":false,"agent_options":{"script":[]}}}`).Metadata
	zero, no := 0.0, false
	want := api.Metadata{
		Backend: "simulate", TaskID: "abcd-EF_1", Detach: true, DetachGraceS: &zero, OnBusy: "cancel",
		TimeoutS: 1.5, InputTimeoutS: 2, PermissionMode: "ask", Interactive: true, Events: api.Events{"session.plan", "all"},
		ResponseFormat: json.RawMessage(`{"type":"object"}`), MaxTurns: 3, Cwd: "/w", AddDirs: []string{"/a"},
		Env: map[string]string{"A": "1"}, ReasoningEffort: "high",
		Credentials: &api.Credentials{APIKey: "k", BaseURL: "u", Model: "m", Provider: "p"},
		MaxCostUSD:  0.5, Background: "wait", ProjectInstructions: &no, AgentOptions: json.RawMessage(`{"script":[]}`),
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		meta     string
		has, not []events.Type
	}{
		{`{}`, []events.Type{events.TypeMessageDelta, events.TypeEnd}, []events.Type{events.TypeStatus, events.TypePermissionRequest}},
		{`{"events":"basic"}`, []events.Type{events.TypeEnd}, []events.Type{events.TypePlan}},
		{`{"events":["session.plan"]}`, []events.Type{events.TypePlan, events.TypeTaskID}, []events.Type{events.TypeStatus}},
		{`{"events":"ask"}`, []events.Type{events.TypePermissionRequest, events.TypePermissionResolved, events.TypeEnd}, []events.Type{events.TypePlan}},
		{`{"permission_mode":"ask","events":["session.plan"]}`, []events.Type{events.TypePermissionRequest, events.TypePlan}, []events.Type{events.TypeStatus}},
	} {
		f := decode(t, `{"metadata":`+c.meta+`}`).Metadata
		has := f.Filter()
		for _, typ := range c.has {
			if !has(typ) {
				t.Errorf("%s leaves out %s", c.meta, typ)
			}
		}
		for _, typ := range c.not {
			if has(typ) {
				t.Errorf("%s lets %s through", c.meta, typ)
			}
		}
	}
	all := decode(t, `{"metadata":{"events":"all"}}`).Metadata
	if all.Filter() != nil {
		t.Error(`"all" filters`)
	}
}

func TestBodies(t *testing.T) {
	var c api.Cancel
	var r api.Reply
	var a api.Answer
	var res api.ToolResult
	for _, ok := range []struct {
		body string
		v    api.Body
	}{
		{``, &c},
		{`{"reason":"no"}`, &c},
		{`{"text":""}`, &r},
		{`{"text":"t","request_id":null,"metadata":{"a":1}}`, &r},
		{`{"option":"deny","message":"m","value":null,"remember":true}`, &a},
		{`{"result":"","metadata":{}}`, &res},
	} {
		if err := api.Decode([]byte(ok.body), ok.v); err != nil {
			t.Errorf("%s: %v", ok.body, err)
		}
	}
	if c.Reason != "no" || r.Text != "t" || a.Option != "deny" || !a.Remember || string(a.Value) != "null" {
		t.Errorf("%+v %+v %+v", c, r, a)
	}
	for body, want := range map[string]string{
		`{"result":"x"}`: "x", `{"result":{"a":1}}`: `{"a":1}`, `{"result":null}`: "", `{}`: "", `{"result":7}`: "7",
	} {
		if err := api.Decode([]byte(body), &res); err != nil || res.Result != want {
			t.Errorf("%s: %q %v", body, res.Result, err)
		}
	}
	body := `{"result":"","is_error":true,"content":[{"type":"text","text":""},{"type":"image","mime_type":"image/png","data":"AA=="},
		{"type":"audio","url":"http://x"},{"type":"file","name":"n","path":"/p"},{"type":"json","json":{"a":[1]}}]}`
	if err := api.Decode([]byte(body), &res); err != nil || len(res.Content) != 5 || !res.IsError {
		t.Errorf("%+v %v", res, err)
	}
}

func TestFaultsOfBodies(t *testing.T) {
	for _, c := range []struct {
		body, field string
		v           api.Body
	}{
		{`[]`, "body", &api.Cancel{}},
		{`{"reason":7}`, "reason", &api.Cancel{}},
		{`{"text":7}`, "text", &api.Reply{}},
		{``, "text", &api.Reply{}},
		{`{"txt":"yes"}`, "text", &api.Reply{}},
		{`{"text":null}`, "text", &api.Reply{}},
		{`{"text":"t","request_id":7}`, "request_id", &api.Reply{}},
		{`{"option":7}`, "option", &api.Answer{}},
		{`{"remember":"x"}`, "remember", &api.Answer{}},
		{`{"is_error":"x"}`, "is_error", &api.ToolResult{}},
		{`{"content":"x"}`, "content", &api.ToolResult{}},
		{`{"content":[7]}`, "content[0]", &api.ToolResult{}},
		{`{"content":[{"type":"text"},{"type":"hologram"}]}`, "content[1].type", &api.ToolResult{}},
		{`{"content":[{"type":"image"}]}`, "content[0]", &api.ToolResult{}},
		{`{"content":[{"type":"json"}]}`, "content[0].json", &api.ToolResult{}},
	} {
		var fe *api.FieldError
		if err := api.Decode([]byte(c.body), c.v); !errors.As(err, &fe) || fe.Field != c.field {
			t.Errorf("%s: %v, want a fault of %s", c.body, err, c.field)
		}
	}
	if err := api.Decode([]byte(`{`), &api.Cancel{}); err == nil {
		t.Error("a half object was taken")
	}
}

// A small body cannot be made to take all memory: a decoded value is hundreds
// of times as long as "{}".
func TestTooManyValues(t *testing.T) {
	many := func(value string) string { return `[` + strings.Repeat(value+",", api.MaxValues) + value + `]` }
	var fe *api.FieldError
	for _, body := range []string{
		`{"messages":` + many(`{}`) + `}`,
		`{"messages":[{"role":"user","images":` + many(`{}`) + `}]}`,
		`{"messages":[{"role":"user","content":` + many(`""`) + `}]}`,
		`{"metadata":{"native_tool_schemas":` + many(`{}`) + `}}`,
		`{"messages":` + strings.Repeat(`[[`, 5000) + strings.Repeat(`]]`, 5000) + `,"x":` + many(`0`) + `}`,
	} {
		if _, err := api.DecodeRequest([]byte(body)); !errors.As(err, &fe) || fe.Field != "body" {
			t.Errorf("%.60s: %v", body, err)
		}
	}
	if err := api.Decode([]byte(`{"content":`+many(`{}`)+`}`), &api.ToolResult{}); !errors.As(err, &fe) || fe.Field != "content" {
		t.Error(err)
	}
	// What is only passed on, or stands in a string, does not count.
	if err := api.Decode([]byte(`{"result":`+many(`0`)+`}`), &api.ToolResult{}); err != nil {
		t.Error(err)
	}
	text := strings.Repeat(`,[{\"`, api.MaxValues) + `\\`
	if _, err := api.DecodeRequest([]byte(`{"messages":[{"role":"user","content":"` + text + `"}]}`)); err != nil {
		t.Error(err)
	}
}

// A client's request arrives as it was meant.
func TestRoundTrip(t *testing.T) {
	reuse := false
	sent := api.Request{
		ContextID: "c",
		Messages: []api.Message{
			api.UserText("hi"),
			{Role: api.RoleAssistant, Content: "yo", ToolCalls: []api.ToolCall{{ID: "1", Name: "t", Arguments: json.RawMessage(`{"a":1}`)}}},
			{Role: api.RoleTool, ToolName: "t", ToolCallID: "1", Content: "r", ToolError: true},
			{Role: api.RoleUser, Images: []api.Attachment{{Kind: events.PartImage, Content: "AA=="}}},
		},
		Metadata: api.Metadata{
			Backend: "simulate", ContextReuse: &reuse, Events: api.Events{"all"},
			Tools: []api.Tool{{Name: "t", Parameters: json.RawMessage(`{"type":"object"}`), Serial: true}},
		},
	}
	raw, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&sent, decode(t, string(raw))); diff != "" {
		t.Errorf("%s\n%s", raw, diff)
	}
}

func FuzzDecodeRequest(f *testing.F) {
	for _, s := range []string{
		`{"context_id":"c","messages":[{"role":"user","content":[{"text":"a"}],"images":[{"url":"u"}],"tool_calls":[{"function":{"name":"n","arguments":"{}"}}]}],"metadata":{"task_id":"abcdefgh","events":["all"]}}`,
		`{"messages":[null,{"citations":{"items":[]}}],"metadata":{"native_tool_schemas":[{"name":"a","parameters":{}}],"env":{"A":"b"}}}`,
		`{"metadata":{"timeout_s":1e308,"max_turns":2147483647,"credentials":{"api_key":"k"}}}`, `{}`, `[`,
	} {
		f.Add([]byte(s))
		for bad := range mutate.Bytes([]byte(s), 100) {
			f.Add(bad)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := api.DecodeRequest(body)
		if err != nil {
			return
		}
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("decoded %q but cannot encode it: %v", body, err)
		}
		again, err := api.DecodeRequest(raw)
		if err != nil {
			t.Fatalf("%q became %q, which is refused: %v", body, raw, err)
		}
		if len(again.Messages) != len(r.Messages) || again.Metadata.TaskID != r.Metadata.TaskID || len(again.Metadata.Tools) != len(r.Metadata.Tools) {
			t.Fatalf("%q became %q", body, raw)
		}
	})
}
