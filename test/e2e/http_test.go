//go:build linux

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"innerd/adapter/api"
	"innerd/test/contract"
)

// client keeps no connections: each call shows what a new one shows. What is
// answered must be what docs/openapi.json says.
var client = &http.Client{
	Transport:     contract.Transport(&http.Transport{DisableKeepAlives: true, DisableCompression: true}, nil),
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// request makes a call with the key. A body that is not bytes, text or a reader is
// marshalled.
func request(ctx context.Context, t testing.TB, method, url string, body any) *http.Request {
	t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = bytes.NewReader([]byte(b))
	case []byte:
		r = bytes.NewReader(b)
	case io.Reader:
		r = b
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(contract.With(ctx, t), method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	return req
}

// call makes a call that is no stream.
func (s *server) call(method, path string, body any) (status int, answer []byte) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), soon)
	defer cancel()
	resp, err := client.Do(request(ctx, s.t, method, s.url+path, body))
	if err != nil {
		s.t.Errorf("%s %s: %v", method, path, err)
		return 0, nil
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		s.t.Errorf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, answer
}

// get reads a call's answer into v; anything but a 200 fails the test.
func (s *server) get(path string, v any) {
	s.t.Helper()
	s.do(http.MethodGet, path, nil, v)
}

// do makes a call that must succeed.
func (s *server) do(method, path string, body, v any) {
	s.t.Helper()
	status, answer := s.call(method, path, body)
	if status != http.StatusOK {
		s.t.Errorf("%s %s: status %d: %s", method, path, status, answer)
		return
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(answer, v); err != nil {
		s.t.Errorf("%s %s: %v: %s", method, path, err, answer)
	}
}

func (s *server) task(id string) (t api.Task) {
	s.t.Helper()
	s.get("/tasks/"+id, &t)
	return t
}

// conversation finds a conversation by its context.
func (s *server) conversation(contextID string) (found api.Conversation, ok bool) {
	s.t.Helper()
	var all api.Conversations
	s.get("/conversations", &all)
	for _, c := range all.Conversations {
		if c.ContextID == contextID {
			return c, true
		}
	}
	return found, false
}

// body is the request of a run.
type body map[string]any

// prompt is a run of one message; metadata is what it adds to the backend.
func prompt(backend, text string, metadata map[string]any) body {
	meta := map[string]any{"backend": backend}
	for k, v := range metadata {
		meta[k] = v
	}
	return body{"messages": []any{map[string]any{"role": "user", "content": text}}, "metadata": meta}
}

// in puts the run into a conversation.
func (b body) in(contextID string) body { b["context_id"] = contextID; return b }

// script is a run of simulate that plays steps.
func script(steps string, metadata map[string]any) body {
	meta := map[string]any{"agent_options": json.RawMessage(`{"script":` + steps + `}`)}
	for k, v := range metadata {
		meta[k] = v
	}
	return prompt("simulate", "Play the script.", meta)
}

// stream makes a call that answers with a stream. Whoever gets the answer closes it.
func (s *server) stream(ctx context.Context, method, path string, body any, header ...string) (*http.Response, error) {
	s.t.Helper()
	req := request(ctx, s.t, method, s.url+path, body)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return client.Do(req)
}
