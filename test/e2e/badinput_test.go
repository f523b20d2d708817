//go:build linux

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"innerd/adapter/api"
	"innerd/events"
)

// bad is a call that must be refused.
type bad struct {
	name         string
	method, path string
	body         any
	status       int
	errorType    string
	says         string // a part of the detail
	header       []string
}

// field is a POST whose metadata is wrong in one field.
func field(name string, value any, says string) bad {
	return bad{
		name: fmt.Sprintf("%s=%v", name, value), method: http.MethodPost, path: "/message:stream",
		body: prompt("simulate", "x", map[string]any{name: value}), status: 400, errorType: api.ErrInvalidRequest, says: says,
	}
}

func badFields() []bad {
	var out []bad
	wrong := map[string][]any{
		"backend": {7, true, []any{}}, "task_id": {7, "short", "../../etc/passwd", "", strings.Repeat("x", 65), "with space!"},
		"detach": {"yes", 1}, "detach_grace_s": {"1", -1}, "on_busy": {"wait", 1}, "timeout_s": {"10", -5, true},
		"input_timeout_s": {"10"}, "permission_mode": {"yolo", true}, "interactive": {"true"}, "events": {"every", 1, []any{"basic", 2}, []any{"no.such"}},
		"response_format": {"json", []any{}}, "max_turns": {1.5, "3", -1}, "cwd": {7, "relative/path", "/does/not/exist", "/etc/hostname"},
		"add_dirs": {"x", []any{1}, []any{"/does/not/exist"}}, "env": {[]any{}, map[string]any{"A": 1}, map[string]any{"A=B": "x"}},
		"reasoning_effort": {3}, "credentials": {"sk-dummy", map[string]any{"api_key": 1}}, "max_cost_usd": {"1", -1},
		"background": {"stay"}, "project_instructions": {"no"}, "agent_options": {"x", []any{}},
	}
	for name, values := range wrong {
		for _, v := range values {
			out = append(out, field(name, v, "metadata."+name))
		}
	}
	for steps, says := range map[string]string{
		`[{"txet":"x"}]`:         "script[0]",
		`[{"text":"a"},{"x":1}]`: "script[1]",
		`[{"text":7}]`:           "script[0]",
		`"text"`:                 "script",
		`[{"repeat":2,"steps":[{"nonsense":true}]}]`: "nonsense",
		`[{"sleep_ms":-1}]`:                          "sleep_ms",
		`[{"calls":[]}]`:                             "calls",
	} {
		out = append(out, bad{
			name: "step " + steps, method: http.MethodPost, path: "/message:stream", body: script(steps, nil),
			status: 400, errorType: api.ErrInvalidRequest, says: says,
		})
	}
	return append(out, field("backend", "gpt", "simulate")) // names those that there are
}

func badCalls() []bad {
	post := func(name string, body any, status int, errorType, says string) bad {
		return bad{name: name, method: http.MethodPost, path: "/message:stream", body: body, status: status, errorType: errorType, says: says}
	}
	at := func(method, path string, body any, status int, errorType, says string) bad {
		return bad{name: method + " " + path, method: method, path: path, body: body, status: status, errorType: errorType, says: says}
	}
	out := []bad{
		post("no body", "", 400, api.ErrInvalidRequest, "empty"),
		post("no JSON", "hello", 400, api.ErrInvalidRequest, "not JSON"),
		post("half JSON", `{"messages":[{"role":"user"`, 400, api.ErrInvalidRequest, "not JSON"),
		post("JSON twice", `{"messages":[]}{"messages":[]}`, 400, api.ErrInvalidRequest, "not JSON"),
		post("a list", `[]`, 400, api.ErrInvalidRequest, "object"),
		post("not UTF-8 as JSON", "\xff\xfe{}", 400, api.ErrInvalidRequest, "not JSON"),
		post("messages no list", `{"messages":"hi"}`, 400, api.ErrInvalidRequest, "messages"),
		post("a message no object", `{"messages":["hi"]}`, 400, api.ErrInvalidRequest, "messages[0]"),
		post("metadata no object", `{"messages":[],"metadata":"x"}`, 400, api.ErrInvalidRequest, "metadata"),
		post("context_id a list", `{"messages":[],"context_id":[]}`, 400, api.ErrInvalidRequest, "context_id"),
		post("context_id too long", map[string]any{"messages": []any{}, "context_id": strings.Repeat("c", 513)}, 400, api.ErrInvalidRequest, "context_id"),
		post("too large", prompt("simulate", strings.Repeat("x", 2<<20), nil), 413, api.ErrTooLarge, "bytes"),
		post("very deep", `{"messages":`+strings.Repeat("[", 200_000)+strings.Repeat("]", 200_000)+`}`, 400, api.ErrInvalidRequest, ""),
		at("POST", "/message:send", `{"messages":[],"metadata":{"backend":"gpt"}}`, 400, api.ErrInvalidRequest, "backend"),
		at("GET", "/nowhere", nil, 404, api.ErrNotFound, ""),
		at("GET", "/", nil, 404, api.ErrNotFound, ""),
		at("POST", "/message", "{}", 404, api.ErrNotFound, ""),
		at("GET", "/message:stream", nil, 405, api.ErrUnsupported, ""),
		at("PUT", "/tasks", "{}", 405, api.ErrUnsupported, ""),
		at("PATCH", "/tasks/some-task-id", "{}", 405, api.ErrUnsupported, ""),
		at("DELETE", "/health", nil, 405, api.ErrUnsupported, ""),
		at("GET", "/tasks/some-task-id", nil, 404, api.ErrNotFound, ""),
		at("GET", "/tasks/..%2f..%2fVERSION", nil, 404, api.ErrNotFound, ""),
		at("GET", "/tasks/some-task-id/events", nil, 404, api.ErrNotFound, ""),
		at("DELETE", "/tasks/some-task-id", nil, 404, api.ErrNotFound, ""),
		at("DELETE", "/tasks/..%2f..%2fruns", nil, 404, api.ErrNotFound, ""),
		at("GET", "/tasks/some-task-id/blobs/..%2f..%2fVERSION", nil, 404, api.ErrNotFound, ""),
		at("POST", "/tasks/some-task-id:cancel", "{}", 404, api.ErrNotFound, ""),
		at("POST", "/tasks/some-task-id:nonsense", "{}", 404, api.ErrNotFound, ""),
		at("POST", "/tasks/some-task-id:reply", `{"text":"x"}`, 404, api.ErrNotFound, ""),
		at("POST", "/tasks/some-task-id:steer", `{"text":"x"}`, 404, api.ErrNotFound, ""),
		at("POST", "/tasks/some-task-id/requests/rq_1", `{"option":"x"}`, 404, api.ErrNotFound, ""),
		at("POST", "/tasks/some-task-id/requests/rq_1", `{`, 400, api.ErrInvalidRequest, "not JSON"),
		at("POST", "/tools/tc_1/result", `{"result"`, 400, api.ErrInvalidRequest, "not JSON"),
		at("POST", "/conversations/01ARZ3NDEKTSV4RRFFQ69G5FAV:close", "{}", 404, api.ErrNotFound, ""),
		at("GET", "/tasks?page_size=1000", nil, 400, api.ErrInvalidRequest, "page_size"),
		at("GET", "/tasks?state=odd", nil, 400, api.ErrInvalidRequest, "state"),
		at("GET", "/tasks?page_token=%00", nil, 400, api.ErrInvalidRequest, "page_token"),
	}
	noKey := at("GET", "/tasks", nil, 401, api.ErrUnauthorized, "key")
	noKey.name, noKey.header = "no key", []string{"Authorization", ""}
	wrongKey := at("POST", "/message:stream", prompt("simulate", "x", nil), 401, api.ErrUnauthorized, "key")
	wrongKey.name, wrongKey.header = "a wrong key", []string{"Authorization", "Bearer dummy-wrong"}
	return append(out, noKey, wrongKey)
}

// Whatever is wrong is said in JSON, and nothing is started.
func TestBadInput(t *testing.T) {
	s := serve(t, "--max-body", "1MiB")
	for _, c := range append(badCalls(), badFields()...) {
		t.Run(c.name, func(t *testing.T) { refused(t, s, c) })
	}
	var page api.Tasks
	if s.get("/tasks", &page); len(page.Tasks) != 0 {
		t.Errorf("something was started: %+v", page.Tasks)
	}
	if left, _ := filepath.Glob(filepath.Join(s.State, "runs", "*")); len(left) > 0 {
		t.Errorf("something is logged: %v", left)
	}
	after := s.post(prompt("simulate", "still here", nil), nil)
	if after.whole(t); after.end() == nil || after.end().State != events.Completed {
		t.Errorf("afterwards a run fails:\n%s", after)
	}
	for _, bad := range []string{"panic", "fault in the server"} {
		if strings.Contains(s.Log(), bad) {
			t.Errorf("the log speaks of %q", bad)
		}
	}
}

func refused(t *testing.T, s *server, c bad) {
	resp, err := s.stream(t.Context(), c.method, c.path, c.body, c.header...)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	var got api.Error
	dec := json.NewDecoder(resp.Body)
	if err := dec.Decode(&got); err != nil {
		t.Fatalf("status %d, and no JSON: %v", resp.StatusCode, err)
	}
	if resp.StatusCode != c.status || got.ErrorType != c.errorType || got.Detail == "" || !strings.Contains(got.Detail, c.says) {
		t.Errorf("status %d, %+v; want %d, %s, %q", resp.StatusCode, got, c.status, c.errorType, c.says)
	}
	if h := resp.Header; h.Get("A2A-Version") != api.Version || h.Get("Content-Type") != "application/json" {
		t.Errorf("header %v", h)
	}
}

// A version of A2A that nobody speaks is refused in the words of JSON-RPC.
func TestBadVersion(t *testing.T) {
	s := serve(t)
	resp, err := s.stream(t.Context(), http.MethodGet, "/tasks", nil, "A2A-Version", "9.9")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	var got struct {
		JSONRPC string
		Error   struct{ Message string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || resp.StatusCode != 400 || got.JSONRPC != "2.0" || !strings.Contains(got.Error.Message, "0.3.0") {
		t.Errorf("status %d, %+v, %v", resp.StatusCode, got, err)
	}
}

// What hosts in the field send, careless as it may be, is taken.
func TestCarelessInputIsTaken(t *testing.T) {
	s := serve(t, "--backend", "simulate")
	for name, b := range map[string]string{
		"no messages":        `{"messages":[],"metadata":{"query":"the question","context":"about it"}}`,
		"messages null":      `{"messages":null,"metadata":{"query":"the question"}}`,
		"unknown role":       `{"messages":[{"role":"narrator","content":"once"},{"role":"user","content":"go on"}]}`,
		"content null":       `{"messages":[{"role":"assistant","content":null},{"role":"user","content":"go on"}]}`,
		"content missing":    `{"messages":[{"role":"user"},{"role":"user","content":"go on"}]}`,
		"a null message":     `{"messages":[null,{"role":"user","content":"go on"}]}`,
		"content of parts":   `{"messages":[{"role":"user","content":["a",{"text":"b"},{"content":"c"},{"type":"odd","x":1},null,7]}]}`,
		"metadata null":      `{"messages":[{"role":"user","content":"go on"}],"metadata":null}`,
		"metadata of nulls":  `{"messages":[{"role":"user","content":"go on"}],"metadata":{"model":null,"tool_choice":null,"context_reuse":null,"native_tool_schemas":null,"system_message":null,"thinking_tokens":null,"task_id":null,"backend":null,"cwd":null,"events":null}}`,
		"unknown fields":     `{"messages":[{"role":"user","content":"go on","shoe_size":43}],"metadata":{"shoe_size":43},"shoe_size":43}`,
		"odd types":          `{"messages":[{"role":"user","content":"go on"}],"metadata":{"tool_call_limit":"12","thinking_tokens":"many","context_reuse":"true","tool_count":[],"tool_routing":7,"source":3}}`,
		"another's model":    `{"messages":[{"role":"user","content":"go on"}],"metadata":{"model":"gpt-9"}}`,
		"bad tools":          `{"messages":[{"role":"user","content":"go on"}],"metadata":{"native_tool_schemas":[7,{},{"name":"a","parameters":"x"},{"name":"b"},{"name":"b"},{"type":"function","function":{"name":"c"}}]}}`,
		"odd tool calls":     `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[{"name":"x","arguments":"{"},{"function":{"name":"y","arguments":{"a":1}}},null]},{"role":"tool","tool_call_id":"1","content":"r"},{"role":"user","content":"go on"}]}`,
		"the default id":     `{"context_id":"default","messages":[{"role":"user","content":"go on"}]}`,
		"an id like a path":  `{"context_id":"../../etc/passwd","messages":[{"role":"user","content":"go on"}]}`,
		"an id like a URL":   `{"context_id":"https://host/a?b=c#d\u0000e","messages":[{"role":"user","content":"go on"}]}`,
		"lone surrogates":    `{"messages":[{"role":"user","content":"a\ud800b"}]}`,
		"an image by path":   `{"messages":[{"role":"user","content":"look","images":[{"filepath":"/does/not/exist.png"},{"url":"http://127.0.0.1:1/x.png"},{"content":"!!!"}]}]}`,
		"underscore backend": `{"messages":[{"role":"user","content":"go on"}],"metadata":{"backend":"simulate"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := s.record(name, nil, http.MethodPost, "/message:stream", b)
			p.whole(t)
			if end := p.end(); end == nil || end.State != events.Completed {
				t.Errorf("%+v\n%s", end, p)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(s.Home, "etc")); err == nil {
		t.Error("a context_id became a path")
	}
}

// Answers that nobody waits for change nothing, and are no errors where hosts
// repeat theirs.
func TestAnswersNobodyWaitsFor(t *testing.T) {
	s := serve(t)
	var got api.ToolResultStatus
	s.Do(http.MethodPost, "/tools/tc_unknown/result", `{"result":"x"}`, &got)
	if got.Status != api.StatusNotFound || got.ToolCallID != "tc_unknown" {
		t.Errorf("%+v", got)
	}
	p := s.post(script(`[{"call":{"tool":"lookup","arguments":{"a":1}}},{"ask":{"message":"which?"}}]`, map[string]any{"interactive": true}), nil)
	call := p.until(t, events.TypeToolRequest).Data.(events.ToolRequest).ToolCallID
	id := p.taskID()
	for _, c := range []struct{ body, status string }{
		{`{"result":""}`, "ok"}, {`{"result":""}`, "ok"}, {`{"result":"another"}`, "not_found"},
	} {
		if s.Do(http.MethodPost, "/tools/"+call+"/result", c.body, &got); got.Status != c.status {
			t.Errorf("%s: %+v", c.body, got)
		}
	}
	if !got.Duplicate {
		s.Do(http.MethodPost, "/tools/"+call+"/result", `{"result":""}`, &got)
	}
	if !got.Duplicate {
		t.Errorf("the same body again: %+v", got)
	}
	question := p.until(t, events.TypeInputRequired).Data.(events.InputRequired).RequestID
	for path, status := range map[string]int{
		"/tasks/" + id + "/requests/rq_unknown":  404,
		"/tasks/" + id + "/requests/" + call:     404,
		"/tasks/unknown-id/requests/" + question: 404,
	} {
		if got, answer := s.Call(http.MethodPost, path, `{"value":"x"}`); got != status {
			t.Errorf("%s: %d %s", path, got, answer)
		}
	}
	s.Do(http.MethodPost, "/tasks/"+id+":reply", `{"text":"blue"}`, nil)
	p.whole(t)
	if status, answer := s.Call(http.MethodPost, "/tasks/"+id+":reply", `{"text":"red"}`); status != 409 {
		t.Errorf("a second answer: %d %s", status, answer)
	}
	if status, answer := s.Call(http.MethodPost, "/tasks/"+id+":cancel", nil); status != 409 {
		t.Errorf("a cancel of what is over: %d %s", status, answer)
	}
	log := s.follow("afterwards", id, 0)
	log.whole(t)
	checkOrder(t, log.events())
}
