package adapter_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"innerd/adapter"
	"innerd/adapter/api"
	"innerd/backends"
	"innerd/backends/simulate"
	"innerd/events/journal"
	"innerd/runs"
	"innerd/test/fieldhost"
	"innerd/toolbridge"
)

// real is a server over the real domain with the simulated agent.
func real(t testing.TB) *server {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := journal.Open(t.TempDir(), &journal.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	m, err := runs.New(runs.Options{
		Store: store, Bridge: toolbridge.New(&toolbridge.Options{Logger: quiet}), Backends: []backends.Backend{simulate.New(nil)},
		Default: "simulate", Dir: t.TempDir(), Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(o *adapter.Options) { o.Runs = adapter.FromManager(m) })
	t.Cleanup(func() {
		s.CloseClientConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the test's own is over
		defer cancel()
		if err := m.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		_ = store.Close()
	})
	return s
}

func scripted(steps string, rest ...string) map[string]any {
	meta := map[string]any{"backend": "simulate", "agent_options": json.RawMessage(`{"script":` + steps + `}`)}
	for i := 0; i < len(rest); i += 2 {
		meta[rest[i]] = json.RawMessage(rest[i+1])
	}
	return map[string]any{"messages": []any{map[string]any{"role": "user", "content": "go"}}, "metadata": meta}
}

func TestFieldHostOverTheRealDomain(t *testing.T) {
	s := real(t)
	h := fieldhost.Host{BaseURL: s.URL, Client: s.Client(), Tool: func(c fieldhost.Call) string {
		return "result of " + c.Name + string(c.Arguments)
	}}
	r, err := h.Run(t.Context(), scripted(`[{"reasoning":"hm"},{"text":"\u0085 one "},{"call":{"tool":"add","arguments":{"a":1}}},{"text":"😀 done"}]`,
		"native_tool_schemas", `[{"name":"add","parameters":{"type":"object"}},{"name":"bad","parameters":7}]`))
	if err != nil || r.Failed || len(r.Calls) != 1 || len(r.Reasoning) != 1 || len(r.Usage) != 1 || r.Ignored != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if r.Text != "😀 done" || !strings.Contains(r.Shown, `result of add{"a":1}`) || !strings.Contains(r.Shown, "\u0085 one ") {
		t.Errorf("%q %q", r.Text, r.Shown)
	}
	r, err = h.Run(t.Context(), scripted(`[{"error":{"message":"no money","error_type":"quota"}}]`))
	if err != nil || !r.Failed || r.Why != "rate limit (quota): no money" {
		t.Errorf("%+v %v", r, err)
	}
	code, body := s.call(t, "GET", "/tasks/"+r.TaskID, "")
	if code != 200 || !strings.Contains(body, `"state":"failed"`) || !strings.Contains(body, `"history":[{"role":"user","content":"go"}]`) {
		t.Errorf("%d %s", code, body)
	}
}

func TestBadFieldsOverTheRealDomain(t *testing.T) {
	s := real(t)
	for meta, field := range map[string]string{
		`{"backend":"none"}`:   "metadata.backend",
		`{"cwd":"/not/here"}`:  "metadata.cwd",
		`{"cwd":"relative"}`:   "metadata.cwd",
		`{"task_id":"a/../b"}`: "metadata.task_id",
		`{"add_dirs":["/no"]}`: "metadata.add_dirs[0]",
		`{"agent_options":{"script":[{"text":"a"},{"dance":1}]}}`: "metadata.agent_options.script[1]",
	} {
		s.fails(t, "POST", "/message:stream", `{"messages":[],"metadata":`+meta+`}`, 400, "invalid_request", field)
	}
	if _, body := s.call(t, "GET", "/tasks", ""); !strings.Contains(body, `"tasks":[]`) {
		t.Errorf("something was started: %s", body)
	}
	if code, body := s.call(t, "POST", "/tools/tc_unknown/result", `{"result":"x"}`); code != 200 || !strings.Contains(body, "not_found") {
		t.Errorf("%d %s", code, body)
	}
	s.fails(t, "POST", "/tasks/none:reply", `{"text":"x"}`, 404, "not_found", "")
}

func TestCancelOverTheRealDomain(t *testing.T) {
	s := real(t)
	body, _ := json.Marshal(scripted(`[{"text":"a"},{"stall":true}]`))
	r := s.stream(t, "POST", "/message:stream", string(body))
	var first struct {
		Data struct {
			TaskID string `json:"task_id"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(r.want("session.task_id").data), &first); err != nil {
		t.Fatal(err)
	}
	r.want("assistant.message_delta")
	code, answer := s.call(t, "POST", "/tasks/"+first.Data.TaskID+":cancel", `{"reason":"enough"}`)
	if code != 200 || !strings.Contains(answer, `"state":"canceled"`) { // an answer before the end, after 8 s, says that it is being canceled
		t.Errorf("%d %s", code, answer)
	}
	list := r.finish()
	if got := types(list); !strings.HasSuffix(got, "session.error session.end") {
		t.Error(got)
	}
	s.fails(t, "POST", "/tasks/"+first.Data.TaskID+":cancel", "", 409, "conflict", "")
	if code, _ := s.call(t, "DELETE", "/tasks/"+first.Data.TaskID, ""); code != 204 {
		t.Errorf("delete: %d", code)
	}
}

// Typed bodies read what the server writes.
func TestTypedBodies(t *testing.T) {
	s := real(t)
	for path, v := range map[string]any{
		"/health": &api.Health{}, "/ready": &api.Ready{}, "/tasks": &api.Tasks{}, "/conversations": &api.Conversations{},
		"/backends": &api.Backends{}, "/debug/streams": &api.Streams{},
	} {
		res := s.do(t, "GET", path, "")
		data, _ := io.ReadAll(res.Body)
		dec := json.NewDecoder(strings.NewReader(string(data)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(v); err != nil {
			t.Errorf("%s: %s: %v", path, data, err)
		}
	}
	var list api.Backends
	_, body := s.call(t, "GET", "/backends", "")
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Backends) != 1 || !list.Backends[0].Usable || !list.Backends[0].Capabilities["tools"] {
		t.Errorf("%s %+v", body, list)
	}
}
