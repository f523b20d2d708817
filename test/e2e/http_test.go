//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"

	"innerd/adapter/api"
	outside "innerd/test/server"
)

// get reads a call's answer into v; anything but a 200 fails the test.
func (s *server) get(path string, v any) {
	s.T.Helper()
	s.Do(http.MethodGet, path, nil, v)
}

func (s *server) task(id string) (t api.Task) {
	s.T.Helper()
	s.get("/tasks/"+id, &t)
	return t
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
	s.T.Helper()
	req := s.Request(ctx, method, path, body)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return outside.Client.Do(req)
}
