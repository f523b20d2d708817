//go:build linux

package security_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"innerd/test/contract"
	"innerd/test/server"
)

// innerd is the binary under test, as it is released.
var innerd string

func TestMain(m *testing.M) { os.Exit(server.Main(m, &innerd)) }

type obj = map[string]any

// otherKey is the key of a host that has nothing to do with the first.
const otherKey = "dummy-key-of-another-host"

// serve starts a server with two hosts.
func serve(t testing.TB, args ...string) *server.Server {
	t.Helper()
	s := server.New(t, innerd)
	s.Keys += ",other:" + otherKey
	s.Args = append(s.Args, args...)
	s.Start()
	return s
}

// simulate is a request for a run that plays steps.
func simulate(text string, meta obj, steps ...any) obj {
	m := obj{"backend": "simulate", "events": "all", "agent_options": obj{"script": steps}}
	for k, v := range meta {
		m[k] = v
	}
	return obj{"messages": []any{obj{"role": "user", "content": text}}, "metadata": m}
}

// client makes calls of all kinds. What is answered to those that name their test
// must be what docs/openapi.json says.
var client = &http.Client{
	Transport:     contract.Transport(&http.Transport{DisableKeepAlives: true, DisableCompression: true}, nil),
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// answer is what a call came to.
type answer struct {
	status int
	header http.Header
	body   string
}

// call makes any call with any key, and reads at most a second of what streams.
func call(t testing.TB, s *server.Server, key, method, path string, body any, headers ...string) answer {
	t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		r = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(contract.With(t.Context(), t), server.Soon)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.URL()+path, r)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		time.AfterFunc(time.Second, cancel)
	}
	data, _ := io.ReadAll(res.Body) // cut, where it streams
	return answer{res.StatusCode, res.Header, string(data)}
}

// raw sends bytes as they are and gives all that comes back, until the server
// closes the connection.
func raw(t testing.TB, s *server.Server, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // only read
	_ = conn.SetDeadline(time.Now().Add(server.Soon))
	if _, err := io.WriteString(conn, text); err != nil {
		return "" // it was closed before all of it was sent
	}
	got, err := io.ReadAll(conn)
	if err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("%.60q: the connection stays open", text)
	}
	return string(got)
}

// operations are the calls of the published description.
func operations(t testing.TB) (out []operation) {
	t.Helper()
	data, err := os.ReadFile("../../docs/openapi.json")
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths {
		for method, rawOp := range item {
			var o struct {
				ID       string `json:"operationId"`
				Security *[]any
			}
			if method == "parameters" || json.Unmarshal(rawOp, &o) != nil || o.ID == "" {
				continue
			}
			out = append(out, operation{strings.ToUpper(method), path, o.ID, o.Security != nil && len(*o.Security) == 0})
		}
	}
	if len(out) < 100 {
		t.Fatalf("only %d operations are described", len(out))
	}
	return out
}

type operation struct {
	method, path, id string
	open             bool
}
