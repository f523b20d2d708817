package a2a_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"innerd/test/a2a/rig"
)

// Whole tasks that are large take turns, whatever asks for them.
func TestLargeTasksTakeTurns(t *testing.T) {
	const size = 6 << 20 // more than sockets take of an answer that nobody reads
	s := start(t, rig.Options{Dir: t.TempDir(), Default: "simulate", BodyLimit: 3 << 20})
	call(t, s, "/message:send", fmt.Sprintf(`{"messages":[{"role":"user","content":"x"}],"metadata":{"backend":"simulate","task_id":"large-one","agent_options":{"script":[{"flood":{"deltas":60,"bytes":%d}}]}}}`, size/60))
	const head = `{"jsonrpc":"2.0","id":1,"method":"`
	for name, next := range map[string]struct{ path, body string }{
		"the profile":        {"/tasks/large-one", ""},
		"HTTP+JSON":          {"/a2a/tasks/large-one", ""},
		"a list":             {"/a2a/tasks?includeArtifacts=true", ""},
		"JSON-RPC":           {"/a2a", head + `GetTask","params":{"id":"large-one"}}`},
		"a list by JSON-RPC": {"/a2a", head + `ListTasks","params":{"includeArtifacts":true}}`},
		"0.3":                {"/v0.3", head + `tasks/get","params":{"id":"large-one"}}`},
		"0.3 HTTP+JSON":      {"/v0.3/v1/tasks/large-one", ""},
	} {
		first, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = first.(*net.TCPConn).SetReadBuffer(128 << 10)
		if _, err := fmt.Fprint(first, "GET /a2a/tasks/large-one HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := first.Read(make([]byte, 1)); err != nil { // it has its turn
			t.Fatal(err)
		}
		came := make(chan int, 1)
		go func() { came <- call(t, s, next.path, next.body) }() // ends with its answer
		select {
		case n := <-came:
			t.Errorf("%s: %d bytes came while another answer is in memory", name, n)
		case <-time.After(300 * time.Millisecond):
		}
		if n := call(t, s, "/a2a/tasks", ""); n > 10_000 {
			t.Errorf("%s: a list without artifacts meanwhile: %d bytes", name, n)
		}
		_ = first.Close()
		if n := <-came; n < size {
			t.Errorf("%s: then %d bytes", name, n)
		}
	}
}

// call reads the whole answer to a GET, or to a POST of a body, and gives its length.
func call(t *testing.T, s *rig.Server, path, body string) int {
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0
	}
	if strings.HasPrefix(path, "/a2a") {
		req.Header.Set("A2A-Version", "1.0")
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%s: %d, %v", path, res.StatusCode, err)
	}
	return int(n)
}
