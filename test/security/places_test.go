//go:build linux

package security_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"innerd/test/server"
)

// held is a stream over a connection of its own, read to its end.
type held struct {
	id    string // of its run
	asked chan obj
	done  chan string // all that was read
}

// hold opens a stream of a run; what it asks the host for goes to asked.
func hold(t *testing.T, s *server.Server, path string, body obj) *held {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(server.Soon))
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nA2A-Version: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, versionFor(path), s.Key(), len(raw), raw)
	h := &held{asked: make(chan obj, 8), done: make(chan string, 1)}
	go h.read(conn) // ends with the stream, or with the connection
	return h
}

func (h *held) read(conn net.Conn) {
	var all strings.Builder
	for lines := bufio.NewScanner(io.TeeReader(conn, &all)); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var e struct {
			Type string
			Data obj
		}
		if !ok || json.Unmarshal([]byte(data), &e) != nil {
			continue
		}
		switch e.Type {
		case "tool.execution_request", "permission.request", "session.input_required":
			h.asked <- e.Data
		}
	}
	h.done <- all.String()
}

// next is what it asks next.
func (h *held) next(t *testing.T) obj {
	t.Helper()
	select {
	case asked := <-h.asked:
		return asked
	case got := <-h.done:
		t.Fatalf("a stream that should ask: %.600s", got)
		return nil
	}
}

// Streams that take every place there is for them keep no other call waiting:
// what they wait for comes in. Those that have no place yet get one, and all
// their events.
func TestStreamsOverTheLimit(t *testing.T) {
	t.Parallel()
	const limit, more = 4, 20
	s := serve(t, "--max-connections", fmt.Sprint(limit), "--open-metrics")
	look := obj{"call": obj{"tool": "look", "arguments": obj{}}}
	tools := []any{obj{"name": "look", "parameters": obj{"type": "object"}}}
	var first []*held
	for i, step := range []obj{look, {"permission": obj{"tool": "shell", "input": obj{}}}, {"ask": obj{"message": "which?"}}, look} {
		body := simulate("hello", obj{"task_id": fmt.Sprintf("first-%03d", i), "permission_mode": "ask", "interactive": true, "native_tool_schemas": tools},
			step, look, obj{"text": fmt.Sprintf("the end of first %d", i)})
		first = append(first, hold(t, s, "/message:stream", body))
		first[i].id = fmt.Sprintf("first-%03d", i)
	}
	var asked []obj
	for _, h := range first {
		asked = append(asked, h.next(t))
	}
	var rest []*held
	for i := range more {
		path := []string{"/message:stream", "/message:send", "/a2a/message:stream", "/a2a/message:send"}[i%4]
		body := simulate("hello", nil, obj{"text": fmt.Sprintf("the-end-of-the-rest-%d.", i)})
		if strings.HasPrefix(path, "/a2a") {
			body = obj{
				"message":  obj{"messageId": "m", "role": "ROLE_USER", "parts": []any{obj{"text": "hello"}}},
				"metadata": obj{"urn:innerd:extensions:coding-agent/v1": body["metadata"]},
			}
		}
		rest = append(rest, hold(t, s, path, body))
	}
	for end := time.Now().Add(server.Soon); !strings.Contains(call(t, s, "", http.MethodGet, "/metrics", nil).body, fmt.Sprintf("\ninnerd_http_waiting %d\n", more)); {
		if time.Now().After(end) {
			t.Fatal("the streams above the limit do not wait")
		}
	}

	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodGet, "/health", nil},
		{http.MethodGet, "/ready", nil},
		{http.MethodGet, "/tasks", nil},
		{http.MethodPost, fmt.Sprint("/tools/", asked[0]["tool_call_id"], "/result"), obj{"result": "seen"}},
		{http.MethodPost, fmt.Sprint("/tasks/first-001/requests/", asked[1]["request_id"]), obj{"option": "allow_once"}},
		{http.MethodPost, "/tasks/first-002:reply", obj{"text": "this one"}},
		{http.MethodPost, "/tasks/first-003:cancel", obj{}},
	} {
		began := time.Now()
		got := call(t, s, s.Key(), c.method, c.path, c.body)
		t.Logf("%s %s: %d after %v", c.method, c.path, got.status, time.Since(began).Round(time.Millisecond))
		if got.status != http.StatusOK || strings.Contains(got.body, "not_found") {
			t.Errorf("%s %s: %d %.300s", c.method, c.path, got.status, got.body)
		}
	}
	if got := <-first[3].done; !strings.Contains(got, `"canceled"`) || !strings.Contains(got, "[DONE]") {
		t.Errorf("the stream that was canceled: %.600s", got)
	}
	for i, h := range first[:3] {
		call(t, s, s.Key(), http.MethodPost, fmt.Sprint("/tools/", h.next(t)["tool_call_id"], "/result"), obj{"result": "seen"})
		if got := <-h.done; !strings.Contains(got, fmt.Sprintf("the end of first %d", i)) || !strings.Contains(got, "[DONE]") {
			t.Errorf("a stream that had its place: %.600s", got)
		}
	}
	for i, h := range rest {
		if got := <-h.done; !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.Contains(got, fmt.Sprintf("the-end-of-the-rest-%d.", i)) {
			t.Errorf("a stream that waited, %d: %.600s", i, got)
		}
	}
}
