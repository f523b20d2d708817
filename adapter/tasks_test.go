package adapter_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"innerd/adapter/api"
	"innerd/backends"
	"innerd/events"
	"innerd/runs"
	"innerd/runs/history"
	"innerd/toolbridge"
)

// begin starts a run that goes on, and gives its path.
func (s *server) begin(t *testing.T) (*fakeRun, string, *reader) {
	t.Helper()
	r := s.stream(t, "POST", "/message:stream", `{"context_id":"ctx"}`)
	run := <-s.fake.started
	r.want("session.task_id")
	return run, "/tasks/" + run.ID(), r
}

func TestTask(t *testing.T) {
	s := serve(t, nil)
	run, path, r := s.begin(t)
	code, body := s.call(t, "GET", path, "")
	var task api.Task
	if err := json.Unmarshal([]byte(body), &task); err != nil || code != 200 || task.ID != run.ID() || task.ContextID != "ctx" || task.Status.State != "working" {
		t.Errorf("%d %s", code, body)
	}
	if _, err := time.Parse(time.RFC3339, task.Status.Timestamp); err != nil || !strings.HasSuffix(task.Status.Timestamp, "Z") {
		t.Error(task.Status.Timestamp)
	}
	s.fails(t, "GET", "/tasks/none", "", 404, "not_found", "")
	run.end(t)
	r.finish()
}

func TestTasks(t *testing.T) {
	s := serve(t, nil)
	code, body := s.call(t, "GET", "/tasks?context_id=c%3A1&state=failed&page_size=7&page_token=tok", "")
	if code != 200 || !strings.Contains(body, `"next_page_token":"next"`) || !strings.Contains(body, `"id":"t1"`) {
		t.Errorf("%d %s", code, body)
	}
	want := runs.Query{ContextID: "c:1", State: "failed", PageSize: 7, PageToken: "tok"}
	if diff := cmp.Diff(any(want), s.fake.last()); diff != "" {
		t.Error(diff)
	}
	for query, field := range map[string]string{
		"page_size=0": "page_size", "page_size=101": "page_size", "page_size=x": "page_size", "state=lost": "state",
	} {
		s.fails(t, "GET", "/tasks?"+query, "", 400, "invalid_request", field)
	}
	s.fake.err = &backends.FieldError{Field: "page_token", Reason: "is not one of ours"}
	s.fails(t, "GET", "/tasks?page_token=x", "", 400, "invalid_request", "page_token")
}

func TestDelete(t *testing.T) {
	s := serve(t, nil)
	run, path, r := s.begin(t)
	s.fake.err = runs.ErrRunning
	s.fails(t, "DELETE", path, "", 409, "conflict", "")
	run.end(t)
	r.finish()
	s.fake.err = nil
	if code, body := s.call(t, "DELETE", path, ""); code != 204 || body != "" {
		t.Errorf("%d %s", code, body)
	}
	s.fails(t, "DELETE", "/tasks/none", "", 404, "not_found", "")
}

func TestCancel(t *testing.T) {
	s := serve(t, nil)
	run, path, r := s.begin(t)
	run.slow = true
	code, body := s.call(t, "POST", path+":cancel", `{"reason":"enough"}`)
	if code != 200 || !strings.Contains(body, `"canceling":true`) || <-run.canceled != "enough" {
		t.Errorf("%d %s", code, body)
	}
	run.slow = false
	if code, body := s.call(t, "POST", path+":cancel", ""); code != 200 || strings.Contains(body, "canceling") {
		t.Errorf("without a body: %d %s", code, body)
	}
	run.end(t)
	r.finish()
	s.fails(t, "POST", path+":cancel", "", 409, "conflict", "ended")
	s.fails(t, "POST", "/tasks/none:cancel", "", 404, "not_found", "")
	s.fails(t, "POST", path+":cancel", `{"reason":7}`, 400, "invalid_request", "reason")
}

func TestAnswers(t *testing.T) {
	s := serve(t, nil)
	if code, body := s.call(t, "POST", "/tasks/a:b:reply", `{"text":"yes","request_id":"rq"}`); code != 200 || !strings.Contains(body, `"id":"a:b"`) {
		t.Errorf("%d %s", code, body)
	}
	if diff := cmp.Diff(any([]any{"rq", "yes"}), s.fake.last()); diff != "" {
		t.Error(diff)
	}
	if code, body := s.call(t, "POST", "/tasks/t/requests/rq1", `{"option":"deny","message":"m","value":{"a":1},"remember":true}`); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	want := []any{"rq1", toolbridge.Reply{Option: "deny", Message: "m", Value: json.RawMessage(`{"a":1}`), Remember: true}}
	if diff := cmp.Diff(any(want), s.fake.last()); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		err       error
		status    int
		errorType string
	}{
		{runs.ErrNotFound, 404, "not_found"},
		{toolbridge.ErrNotFound, 404, "not_found"},
		{toolbridge.ErrAnswered, 409, "conflict"},
		{toolbridge.ErrInvalid, 400, "invalid_request"},
	} {
		s.fake.err = c.err
		s.fails(t, "POST", "/tasks/t:reply", `{"text":"x"}`, c.status, c.errorType, "")
		s.fails(t, "POST", "/tasks/t/requests/r", `{"option":"x"}`, c.status, c.errorType, "")
	}
}

func TestToolResult(t *testing.T) {
	s := serve(t, nil)
	for _, c := range []struct {
		verdict toolbridge.Verdict
		want    string
	}{
		{toolbridge.Accepted, `{"status":"ok","tool_call_id":"tc_1"}`},
		{toolbridge.Duplicate, `{"status":"ok","tool_call_id":"tc_1","duplicate":true}`},
		{toolbridge.NotFound, `{"status":"not_found","tool_call_id":"tc_1"}`},
	} {
		s.fake.verdict = c.verdict
		if code, body := s.call(t, "POST", "/tools/tc_1/result", `{"result":"","is_error":true,"metadata":{"a":1},"content":[{"type":"text","text":"x"}]}`); code != 200 || body != c.want {
			t.Errorf("%d %s", code, body)
		}
	}
	want := []any{"default", "tc_1", toolbridge.Result{IsError: true, Metadata: json.RawMessage(`{"a":1}`), Content: []events.Part{events.Text("x")}}}
	if diff := cmp.Diff(any(want), s.fake.last()); diff != "" {
		t.Error(diff)
	}
}

func TestSteerAndCompact(t *testing.T) {
	s := serve(t, nil)
	run, path, r := s.begin(t)
	s.fails(t, "POST", "/tasks/none:steer", `{}`, 404, "not_found", "")
	s.fails(t, "POST", path+":steer", `{}`, 400, "invalid_request", "text")
	s.fails(t, "POST", path+":steer", `{"text":7}`, 400, "invalid_request", "text")
	s.fails(t, "POST", path+":steer", `{"messages":7}`, 400, "invalid_request", "messages")
	s.fails(t, "POST", path+":steer", `{"messages":[{"role":"assistant","content":"x"}]}`, 400, "invalid_request", "user")
	for body, want := range map[string][]history.Message{
		`{"text":"go left"}`: {{Role: "user", Text: "go left"}},
		`{"messages":[{"role":"user","content":"a"},{"role":"tool","content":"x"},{"role":"user","content":[{"text":"b"}]}]}`: {{Role: "user", Text: "a"}, {Role: "user", Text: "b"}},
	} {
		if code, got := s.call(t, "POST", path+":steer", body); code != 200 || !strings.Contains(got, `"id":"`+run.ID()+`"`) {
			t.Errorf("%d %s", code, got)
		}
		if diff := cmp.Diff(any(want), s.fake.last()); diff != "" {
			t.Error(diff)
		}
	}
	s.fails(t, "POST", "/conversations/none:compact", "", 404, "not_found", "")
	if code, got := s.call(t, "POST", "/conversations/conv1:compact", ""); code != 200 || !strings.Contains(got, `"id":"conv1"`) {
		t.Errorf("%d %s", code, got)
	}
	for _, c := range []struct {
		err       error
		status    int
		errorType string
		words     string
	}{
		{runs.ErrUnsupported, 501, "unsupported", ""},
		{runs.ErrEnded, 409, "conflict", ""},
		{runs.ErrWaiting, 409, "conflict", "waits"},
		{runs.ErrRunning, 409, "conflict", ""},
		{&backends.Error{Type: events.ErrAuth, Message: "no key"}, 502, "auth", "auth: unavailable: no key"},
	} {
		s.fake.err = c.err
		s.fails(t, "POST", path+":steer", `{"text":"x"}`, c.status, c.errorType, c.words)
		s.fails(t, "POST", "/conversations/conv1:compact", "", c.status, c.errorType, c.words)
	}
	run.end(t)
	r.finish()
}

func TestConversationsAndBackends(t *testing.T) {
	s := serve(t, nil)
	if code, body := s.call(t, "GET", "/conversations", ""); code != 200 || !strings.Contains(body, `{"conversations":[{"id":"conv1","context_id":"c default","backend":"fake","state":"idle","last_used":`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := s.call(t, "POST", "/conversations/conv1:close", ""); code != 200 || !strings.Contains(body, `"state":"cold"`) {
		t.Errorf("%d %s", code, body)
	}
	s.fails(t, "POST", "/conversations/none:close", "", 404, "not_found", "")
	s.fake.err = runs.ErrRunning
	s.fails(t, "POST", "/conversations/conv1:close", "", 409, "conflict", "")
	if code, body := s.call(t, "GET", "/backends", ""); code != 200 || !strings.Contains(body, `{"backends":[{"name":"fake","usable":true,"version":"1","capabilities":{`) {
		t.Errorf("%d %s", code, body)
	}
}

func TestBlob(t *testing.T) {
	s := serve(t, nil)
	run, path, r := s.begin(t)
	long := strings.Repeat("0123456789", 300_000)
	run.say(t, events.ToolComplete{ID: "1", Result: long})
	run.end(t)
	r.finish()
	list := s.stream(t, "GET", path+"/events", "").finish()
	var cut struct {
		Data struct {
			SHA256 string `json:"sha256"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(list[1].data), &cut); err != nil || cut.Data.SHA256 == "" {
		t.Fatalf("the log did not cut a value of 3 MB: %.200s", list[1].data)
	}
	if code, body := s.call(t, "GET", path+"/blobs/"+cut.Data.SHA256, ""); code != 200 || !strings.Contains(body, long) {
		t.Errorf("%d, %d bytes", code, len(body))
	}
	s.fails(t, "GET", path+"/blobs/"+strings.Repeat("0", 64), "", 404, "not_found", "")
	s.fails(t, "GET", path+"/blobs/..%2f..%2frequest.json", "", 404, "not_found", "")
}
