//go:build linux

package soak_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"innerd/test/server"
)

// client calls one server over connections that it keeps.
type client struct {
	url, key string
	http     *http.Client
}

func newClient(t testing.TB, s *server.Server) *client {
	tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	t.Cleanup(tr.CloseIdleConnections)
	return &client{url: s.URL(), key: s.Key(), http: &http.Client{Transport: tr}}
}

// answerWithin is how long a call that is no stream may take on a busy machine.
const answerWithin = 2 * time.Minute

// open makes a request and gives its answer, whatever its status.
func (c *client) open(ctx context.Context, method, path string, body any, header ...string) (*http.Response, error) {
	var r io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, r)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return c.http.Do(req)
}

// call makes a call that is no stream.
func (c *client) call(ctx context.Context, method, path string, body any) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	resp, err := c.open(ctx, method, path, body)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// get reads an answer, which must be a success, into v.
func (c *client) get(ctx context.Context, path string, v any) error {
	status, answer, err := c.call(ctx, http.MethodGet, path, nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, answer)
	}
	if err == nil {
		err = json.Unmarshal(answer, v)
	}
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

type object = map[string]any

// turn is the body of a run that plays a script.
func turn(contextID, text string, script any, meta object) object {
	m := object{"backend": "simulate"}
	if script != nil {
		m["agent_options"] = object{"script": script}
	}
	for k, v := range meta {
		m[k] = v
	}
	return object{"context_id": contextID, "messages": []object{{"role": "user", "content": text}}, "metadata": m}
}
