package a2a_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/adapter"
	"innerd/adapter/a2a/extension"
	"innerd/adapter/a2a/spec"
	"innerd/test/a2a/rig"
)

// rpc makes a JSON-RPC call as a body has it.
func (c *client) rpc(body string) (status int, answer struct {
	JSONRPC string
	ID      json.RawMessage
	Result  json.RawMessage
	Error   *struct {
		Code    int
		Message string
		Data    []struct {
			Type   string `json:"@type"`
			Reason string
			Domain string
		}
	}
},
) {
	c.t.Helper()
	resp, raw := c.raw(http.MethodPost, "", body)
	if err := json.Unmarshal(raw, &answer); err != nil || answer.JSONRPC != "2.0" {
		c.t.Fatalf("%s: %v: %s", body, err, raw)
	}
	return resp.StatusCode, answer
}

// Every error of the table of 1.0.1, on both bindings.
func TestErrors(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s)
	done := c.send(message("tck-complete-task", "go")).ID
	hi := `{"messageId":"x","role":"ROLE_USER","parts":[{"text":"hi"}]`
	rows := []struct {
		name, method, params string
		code                 int
		reason               string
		rest                 [3]string // method, path, body
		status               int
	}{
		{"task not found", "GetTask", `{"id":"nope"}`, -32001, "TASK_NOT_FOUND", [3]string{"GET", "/tasks/nope", ""}, 404},
		{"not cancelable", "CancelTask", `{"id":"` + done + `"}`, -32002, "TASK_NOT_CANCELABLE", [3]string{"POST", "/tasks/" + done + ":cancel", ""}, 400},
		{"unsupported", "SubscribeToTask", `{"id":"` + done + `"}`, -32004, "UNSUPPORTED_OPERATION", [3]string{"GET", "/tasks/" + done + ":subscribe", ""}, 400},
		{"message to an ended task", "SendStreamingMessage", `{"message":` + hi + `,"taskId":"` + done + `"}}`, -32004, "UNSUPPORTED_OPERATION", [3]string{"POST", "/message:stream", `{"message":` + hi + `,"taskId":"` + done + `"}}`}, 400},
		{"media type", "SendMessage", `{"message":{"messageId":"x","role":"ROLE_USER","parts":[{"text":"hi","mediaType":"application/x-odd"}]}}`, -32005, "CONTENT_TYPE_NOT_SUPPORTED", [3]string{"POST", "/message:send", `{"message":{"messageId":"x","role":"ROLE_USER","parts":[{"text":"hi","mediaType":"application/x-odd"}]}}`}, 400},
		{"extended card", "GetExtendedAgentCard", `{}`, -32004, "UNSUPPORTED_OPERATION", [3]string{"GET", "/extendedAgentCard", ""}, 400},
		{"no message", "SendMessage", `{}`, -32602, "INVALID_PARAMS", [3]string{"POST", "/message:send", `{}`}, 400},
		{"no role", "SendMessage", `{"message":{"messageId":"x","parts":[{"text":"hi"}]}}`, -32602, "INVALID_PARAMS", [3]string{"POST", "/message:send", `{"message":{"messageId":"x","parts":[{"text":"hi"}]}}`}, 400},
		{"unknown role", "SendMessage", `{"message":{"messageId":"x","role":"ROLE_KING","parts":[{"text":"hi"}]}}`, -32602, "INVALID_PARAMS", [3]string{"POST", "/message:send", `{"message":{"messageId":"x","role":"ROLE_KING","parts":[{"text":"hi"}]}}`}, 400},
		{"two kinds in a part", "SendMessage", `{"message":{"messageId":"x","role":"ROLE_USER","parts":[{"text":"hi","url":"https://x"}]}}`, -32602, "INVALID_PARAMS", [3]string{"POST", "/message:send", `{"message":{"messageId":"x","role":"ROLE_USER","parts":[{"text":"hi","url":"https://x"}]}}`}, 400},
		{"not base64", "SendMessage", `{"message":{"messageId":"x","role":"ROLE_USER","parts":[{"raw":"§"}]}}`, -32602, "INVALID_PARAMS", [3]string{"POST", "/message:send", `{"message":{"messageId":"x","role":"ROLE_USER","parts":[{"raw":"§"}]}}`}, 400},
		{"negative history", "GetTask", `{"id":"` + done + `","historyLength":-1}`, -32602, "INVALID_PARAMS", [3]string{"GET", "/tasks/" + done + "?historyLength=-1", ""}, 400},
		{"page size", "ListTasks", `{"pageSize":101}`, -32602, "INVALID_PARAMS", [3]string{"GET", "/tasks?pageSize=101", ""}, 400},
		{"page size 0", "ListTasks", `{"pageSize":0}`, -32602, "INVALID_PARAMS", [3]string{"GET", "/tasks?pageSize=0", ""}, 400},
		{"page token", "ListTasks", `{"pageToken":"§"}`, -32602, "INVALID_PARAMS", [3]string{"GET", "/tasks?pageToken=!!", ""}, 400},
		{"state", "ListTasks", `{"status":"SOME"}`, -32602, "INVALID_PARAMS", [3]string{"GET", "/tasks?status=SOME", ""}, 400},
		{"time", "ListTasks", `{"statusTimestampAfter":"noon"}`, -32602, "INVALID_PARAMS", [3]string{"GET", "/tasks?statusTimestampAfter=noon", ""}, 400},
		{"tenant", "GetTask", `{"id":"` + done + `","tenant":"nobody"}`, -32602, "INVALID_PARAMS", [3]string{"GET", "/nobody/tasks/" + done, ""}, 400},
		{"another agent's task", "GetTask", `{"id":"` + done + `","tenant":"simulate"}`, -32001, "TASK_NOT_FOUND", [3]string{"GET", "/simulate/tasks/" + done, ""}, 404},
		{"null for a request", "CancelTask", `null`, -32602, "INVALID_PARAMS", [3]string{"POST", "/tasks/" + done + ":cancel", `null`}, 400},
		{"null for a configuration", "CreateTaskPushNotificationConfig", `null`, -32602, "INVALID_PARAMS", [3]string{"POST", "/tasks/" + done + "/pushNotificationConfigs", `null`}, 400},
		{"method", "Nope", `{}`, -32601, "METHOD_NOT_FOUND", [3]string{"GET", "/nope", ""}, 404},
		{"push config", "GetTaskPushNotificationConfig", `{"taskId":"` + done + `","id":"none"}`, -32001, "TASK_NOT_FOUND", [3]string{"GET", "/tasks/" + done + "/pushNotificationConfigs/none", ""}, 404},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			c := c.with(func(c *client) { c.t = t })
			status, got := c.rpc(`{"jsonrpc":"2.0","id":"` + row.name + `","method":"` + row.method + `","params":` + row.params + `}`)
			if status != http.StatusOK || got.Error == nil || got.Error.Code != row.code || got.Error.Data[0].Reason != row.reason ||
				got.Error.Data[0].Domain != spec.Domain || string(got.ID) != `"`+row.name+`"` || got.Error.Message == "" {
				t.Errorf("JSON-RPC: %d %+v", status, got)
			}
			var body any
			if row.rest[2] != "" {
				body = row.rest[2]
			}
			resp, raw := c.raw(row.rest[0], row.rest[1], body)
			if resp.StatusCode != row.status || !strings.Contains(string(raw), `"reason":"`+row.reason+`"`) || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("HTTP+JSON: %s %s", resp.Status, raw)
			}
		})
	}
}

func TestJSONRPCEnvelope(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s)
	for _, row := range []struct {
		body string
		code int
		id   string
	}{
		{`{`, -32700, "null"},
		{`[]`, -32600, "null"},
		{`{"jsonrpc":"2.0","method":"GetTask","params":{}}`, -32600, "null"},
		{`{"jsonrpc":"1.0","id":1,"method":"GetTask"}`, -32600, "1"},
		{`{"jsonrpc":"2.0","id":{},"method":"GetTask"}`, -32600, "null"},
		{`{"jsonrpc":"2.0","id":7,"method":"GetTask"}`, -32602, "7"},
		{`{"jsonrpc":"2.0","id":7,"method":"GetTask","params":[]}`, -32602, "7"},
		{`{"jsonrpc":"2.0","id":"a","method":""}`, -32600, `"a"`},
	} {
		if status, got := c.rpc(row.body); status != http.StatusOK || got.Error == nil || got.Error.Code != row.code || string(got.ID) != row.id {
			t.Errorf("%s: %d %+v", row.body, status, got)
		}
	}
	if resp, raw := c.with(func(c *client) { c.hdr = map[string]string{"Content-Type": "text/plain"} }).raw(http.MethodPost, "", "{}"); resp.StatusCode != http.StatusUnsupportedMediaType || !strings.Contains(string(raw), "-32005") {
		t.Errorf("%s %s", resp.Status, raw)
	}
	if resp, _ := c.raw(http.MethodGet, "", nil); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %s", resp.Status)
	}
	// Names as the .proto file has them, and a path that ends in a slash.
	raw, err := json.Marshal(message("tck-complete-task", "go").Message)
	if err != nil {
		t.Fatal(err)
	}
	snake := bytes.Replace(raw, []byte("messageId"), []byte("message_id"), 1)
	_, got := c.with(func(c *client) { c.url += "/" }).rpc(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":` + string(snake) + `,"configuration":{"history_length":"0"}}}`)
	if got.Error != nil || strings.Contains(string(got.Result), "history") {
		t.Errorf("%+v", got)
	}
}

func TestVersions(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s)
	old := `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"tck-complete-task-v","role":"user","parts":[{"kind":"text","text":"x"}]},"configuration":{"blocking":true}}}`
	now := `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"tck-complete-task-v","role":"ROLE_USER","parts":[{"text":"x"}]}}}`
	for _, row := range []struct {
		version, body string
		code          int // 0: served
	}{
		{"1.0", now, 0},
		{"1.0.1", now, 0},
		{"", now, 0},
		{"99.0", now, -32009},
		{"0.3", now, -32009},
		{"2", now, -32009},
		{"", old, 0},
		{"0.3", old, 0},
		{"0.3.0", old, 0},
		{"1.0", old, -32601},
	} {
		_, got := c.with(func(c *client) { c.hdr = map[string]string{"A2A-Version": row.version} }).rpc(row.body)
		code := 0
		if got.Error != nil {
			code = got.Error.Code
		}
		if code != row.code {
			t.Errorf("version %q: %+v", row.version, got.Error)
		}
	}
	if resp, raw := c.with(func(c *client) { c.hdr = map[string]string{"A2A-Version": ""} }).raw(http.MethodGet, "/tasks?A2A-Version=7.1", nil); resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(raw), "VERSION_NOT_SUPPORTED") {
		t.Errorf("%s %s", resp.Status, raw)
	}
}

func TestMediaTypesAndEchoes(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s)
	for accept, want := range map[string]string{"": "application/json", "application/json": "application/json", "application/a2a+json, application/json": "application/a2a+json"} {
		resp, _ := c.with(func(c *client) { c.hdr = map[string]string{"Accept": accept} }).raw(http.MethodGet, "/tasks", nil)
		if got := resp.Header.Get("Content-Type"); got != want {
			t.Errorf("Accept %q: %q", accept, got)
		}
	}
	resp, _ := c.with(func(c *client) { c.ext = true }).raw(http.MethodGet, "/tasks", nil)
	if resp.Header.Get("A2A-Extensions") != extension.URI || resp.Header.Get("A2A-Version") != "1.0" {
		t.Errorf("%v", resp.Header)
	}
	if resp, _ := c.raw(http.MethodGet, "/tasks", nil); resp.Header.Get("A2A-Extensions") != "" {
		t.Errorf("an extension that was not asked for is active: %v", resp.Header)
	}
}

// Metadata belongs to others: it comes back as it was.
func TestMetadataIsKept(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s)
	given := `{"their_own":{"snake_case":[1.50,null,{"a_b":"<&>"}]},"n":12345678901234567890}`
	task := c.send(message("tck-complete-task", "go", func(m *spec.Message) { m.Metadata = json.RawMessage(given) }))
	var want, got any
	for raw, v := range map[string]*any{given: &want, string(c.task(task.ID).History[0].Metadata): &got} {
		dec := json.NewDecoder(strings.NewReader(raw))
		dec.UseNumber()
		if err := dec.Decode(v); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCards(t *testing.T) {
	get := func(t *testing.T, url string, hdr map[string]string) (*http.Response, map[string]any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range hdr {
			req.Header.Set(k, v)
		}
		resp, err := keepNone.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // only read
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		var card map[string]any
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &card); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
		}
		return resp, card
	}
	const at = "/.well-known/agent-card.json"
	s := start(t, rig.Options{Keys: []adapter.Key{adapter.NewKey("k", "dummy")}})
	_, card := get(t, s.URL+at, map[string]string{"X-Forwarded-Proto": "https", "X-Forwarded-Host": "agents.example"})
	allowed := map[string]bool{
		"name": true, "description": true, "supportedInterfaces": true, "provider": true, "version": true, "documentationUrl": true, "capabilities": true,
		"securitySchemes": true, "securityRequirements": true, "defaultInputModes": true, "defaultOutputModes": true, "skills": true, "signatures": true, "iconUrl": true,
	}
	for k := range card {
		if !allowed[k] {
			t.Errorf("the card has %s, which 1.0 does not", k)
		}
	}
	for _, i := range card["supportedInterfaces"].([]any) {
		if url := i.(map[string]any)["url"].(string); !strings.HasPrefix(url, "https://agents.example/") {
			t.Errorf("the URL %s is not where the caller is", url)
		}
	}
	if card["securitySchemes"] == nil || card["capabilities"].(map[string]any)["extendedAgentCard"] != true {
		t.Errorf("%v", card)
	}
	if _, open := get(t, start(t, rig.Options{}).URL+at, nil); open["securitySchemes"] != nil || open["capabilities"].(map[string]any)["extendedAgentCard"] != nil {
		t.Errorf("an open server asks for keys: %v", open)
	}
	if resp, _ := get(t, s.URL+"/a2a/agents/nobody"+at, nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a card of nobody: %s", resp.Status)
	}
	if _, own := get(t, s.URL+"/a2a/agents/simulate"+at, nil); own["name"] != "innerd/simulate" || len(own["skills"].([]any)) != 1 {
		t.Errorf("%v", own)
	}
	both := start(t, rig.Options{BothRoot: true})
	_, card = get(t, both.URL+at, nil)
	if card["protocolVersion"] != "0.3.0" || card["url"] != both.URL+"/v0.3/" || card["supportedInterfaces"] == nil {
		t.Errorf("a card of both generations: %v", card)
	}
}
