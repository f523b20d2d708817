package contract

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"innerd/adapter/published"
)

// faults answers a request as told, and gives what is wrong with that.
func faults(t *testing.T, method, path string, status int, contentType, body string) (out []error) {
	t.Helper()
	req := httptest.NewRequest(method, path, nil)
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	if contentType != "" {
		resp.Header.Set("Content-Type", contentType)
	}
	check(req, resp, func(err error) { out = append(out, err) })
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	goodTask = `{"id":"t","contextId":"c","status":{"state":"completed","timestamp":"2026-01-02T03:04:05.678Z"},"artifacts":[],"history":[],"backend":"simulate","last_event_id":3}`
	notFound = `{"detail":"no such run","error_type":"not_found"}`
)

func frame(id, data string) string { return "id: " + id + "\ndata: " + data + "\n\n" }

func TestWhatTheDocumentSays(t *testing.T) {
	first := frame("1", `{"id":1,"ts":1,"type":"session.task_id","data":{"task_id":"t","context_id":"c","backend":"simulate"}}`)
	for name, c := range map[string]struct {
		method, path string
		status       int
		media, body  string
		good         bool
	}{
		"a task":                         {"GET", "/tasks/t", 200, "application/json", goodTask, true},
		"a trailing slash":               {"GET", "/tasks/t/", 200, "application/json", goodTask, true},
		"a task without a field":         {"GET", "/tasks/t", 200, "application/json", `{"id":"t"}`, false},
		"a state that is none":           {"GET", "/tasks/t", 200, "application/json", strings.Replace(goodTask, "completed", "done", 1), false},
		"no JSON":                        {"GET", "/tasks/t", 200, "application/json", `{`, false},
		"another content type":           {"GET", "/tasks/t", 200, "text/html", goodTask, false},
		"an error":                       {"GET", "/tasks/t", 404, "application/json", notFound, true},
		"an error_type of another route": {"GET", "/tasks/t", 404, "application/json", strings.Replace(notFound, "not_found", "busy", 1), false},
		"a status that is none":          {"GET", "/tasks/t", 418, "application/json", notFound, false},
		"a verb":                         {"POST", "/tasks/t:cancel", 200, "application/json", goodTask, true},
		"a verb's own status":            {"POST", "/tasks/t:cancel", 409, "application/json", strings.Replace(notFound, "not_found", "conflict", 1), true},
		"a status of another verb":       {"POST", "/tasks/t:cancel", 501, "application/json", strings.Replace(notFound, "not_found", "unsupported", 1), false},
		"no body":                        {"DELETE", "/tasks/t", 204, "", "", true},
		"a body where there is none":     {"DELETE", "/tasks/t", 204, "application/json", "{}", false},
		"no such path":                   {"GET", "/nowhere", 404, "application/json", notFound, true},
		"a path that leads up":           {"GET", "/a2a/tasks/..", 404, "application/json", notFound, true},
		"a path that leads up, found":    {"GET", "/tasks/../tasks/t", 200, "application/json", goodTask, false},
		"a path that is not there":       {"GET", "/nowhere", 200, "application/json", "{}", false},
		"a head":                         {"HEAD", "/health", 200, "application/json", "", true},
		"a stream":                       {"POST", "/message:stream", 200, "text/event-stream", first + "data: [DONE]\n\n", true},
		"a heartbeat":                    {"POST", "/message:stream", 200, "text/event-stream; charset=utf-8", first + `data: {"type":"heartbeat","data":{"status":"waiting","elapsed_s":1,"idle_s":1}}` + "\n\n", true},
		"a field of another type":        {"GET", "/tasks/t/events", 200, "text/event-stream", strings.Replace(first, `"context_id":"c"`, `"context_id":7`, 1), false},
		"an unknown type":                {"GET", "/tasks/t/events", 200, "text/event-stream", strings.Replace(first, "session.task_id", "session.what", 1), false},
		"another id":                     {"GET", "/tasks/t/events", 200, "text/event-stream", strings.Replace(first, "id: 1", "id: 2", 1), false},
		"a comment":                      {"GET", "/tasks/t/events", 200, "text/event-stream", ": hello\n\n", false},
		"an event without an end":        {"GET", "/tasks/t/events", 200, "text/event-stream", first + "id: 2\ndata: {\"id\":2,", true},
		"bytes":                          {"GET", "/tasks/t/blobs/" + strings.Repeat("0", 64), 200, "application/octet-stream", "123 456", true},
		"a conversation":                 {"POST", "/conversations/x:close", 200, "application/json", `{"id":"x","context_id":"c","backend":"b","state":"cold","last_used":"2026-01-02T03:04:05Z"}`, true},
		"A2A":                            {"GET", "/a2a/tasks/t", 404, "application/json", `{"error":{"code":404,"status":"NOT_FOUND","message":"m","details":[]}}`, true},
		"A2A with another error":         {"GET", "/a2a/tasks/t", 404, "application/json", notFound, false},
	} {
		if got := faults(t, c.method, c.path, c.status, c.media, c.body); (len(got) == 0) != c.good {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestExamplesFit looks that each example of the document is what its own
// schema says; package e2e sends those of requests.
func TestExamplesFit(t *testing.T) {
	type content map[string]struct {
		Schema   json.RawMessage
		Example  json.RawMessage
		Examples map[string]struct{ Value json.RawMessage }
		Events   json.RawMessage `json:"x-event-schema"`
	}
	type body struct{ Content content }
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody body
			Responses   map[string]body
		}
	}
	if err := json.Unmarshal([]byte(published.OpenAPI.Body), &doc); err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	whole, err := jsonschema.UnmarshalJSON(strings.NewReader(published.OpenAPI.Body))
	if err == nil {
		err = c.AddResource("openapi.json", whole)
	}
	rules, err2 := load()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	requests, answers, streams := 0, 0, 0
	look := func(at string, all content, n *int) {
		for name, m := range all {
			if len(m.Events) > 0 {
				var text string
				if err := json.Unmarshal(m.Example, &text); err != nil {
					t.Fatal(err)
				}
				streams++
				(&stream{rules: rules, report: func(err error) { t.Errorf("%s: %v", at, err) }, seen: map[string]int{}}).take([]byte(text))
				continue
			}
			s, err := c.Compile("openapi.json#" + (&url.URL{Path: at + "/content/" + strings.ReplaceAll(name, "/", "~1") + "/schema"}).EscapedPath())
			if err != nil {
				t.Fatal(err)
			}
			given := []json.RawMessage{}
			if m.Example != nil {
				given = append(given, m.Example)
			}
			for _, e := range m.Examples {
				given = append(given, e.Value)
			}
			for _, e := range given {
				*n++
				if err := fits(s, e); err != nil {
					t.Errorf("%s: %v\n%s", at, err, e)
				}
			}
		}
	}
	for path, methods := range doc.Paths {
		for method, o := range methods {
			at := "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + method
			look(at+"/requestBody", o.RequestBody.Content, &requests)
			for status, resp := range o.Responses {
				look(at+"/responses/"+status, resp.Content, &answers)
			}
		}
	}
	if requests < 20 || answers < 15 || streams < 2 {
		t.Errorf("%d examples of requests, %d of answers and %d of streams", requests, answers, streams)
	}
}
