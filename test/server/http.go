//go:build linux

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"innerd/adapter/api"
	"innerd/test/contract"
)

// Client keeps no connections: each call shows what a new one shows. What is
// answered must be what docs/openapi.json says.
var Client = &http.Client{
	Transport:     contract.Transport(&http.Transport{DisableKeepAlives: true, DisableCompression: true}, nil),
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Request is a call with the key. A body that is no bytes, text or reader is
// marshalled.
func (s *Server) Request(ctx context.Context, method, path string, body any) *http.Request {
	s.T.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	case []byte:
		r = bytes.NewReader(b)
	case io.Reader:
		r = b
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			s.T.Fatal(err)
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(contract.With(ctx, s.T), method, s.url+path, r)
	if err != nil {
		s.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+HostKey)
	for name, v := range s.Header {
		req.Header.Set(name, v)
	}
	return req
}

// Call makes a call that is no stream.
func (s *Server) Call(method, path string, body any) (status int, answer []byte) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.T.Context(), 2*Soon)
	defer cancel()
	resp, err := Client.Do(s.Request(ctx, method, path, body))
	if err != nil {
		s.T.Errorf("%s %s: %v", method, path, err)
		return 0, nil
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		s.T.Errorf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, answer
}

// Do makes a call that must succeed, and reads its answer into v unless that is nil.
func (s *Server) Do(method, path string, body, v any) {
	s.T.Helper()
	status, answer := s.Call(method, path, body)
	if status != http.StatusOK {
		s.T.Errorf("%s %s: status %d: %s", method, path, status, answer)
		return
	}
	if v != nil {
		if err := json.Unmarshal(answer, v); err != nil {
			s.T.Errorf("%s %s: %v: %s", method, path, err, answer)
		}
	}
}

// Conversation finds a conversation by its context.
func (s *Server) Conversation(contextID string) (found api.Conversation, ok bool) {
	s.T.Helper()
	var all api.Conversations
	s.Do(http.MethodGet, "/conversations", nil, &all)
	for _, c := range all.Conversations {
		if c.ContextID == contextID {
			return c, true
		}
	}
	return found, false
}

// Result answers a bridged call.
func (s *Server) Result(callID string, body map[string]any) {
	s.T.Helper()
	var got struct{ Status string }
	s.Do(http.MethodPost, "/tools/"+callID+"/result", body, &got)
	if got.Status != "ok" {
		s.T.Errorf("the result of %s: status %q", callID, got.Status)
	}
}

// Post starts a run, whose stream is then read. It must be accepted.
func (s *Server) Post(t testing.TB, body any) *Tape {
	t.Helper()
	return s.read(t, http.MethodPost, "/message:stream", body)
}

// Follow reads all events of a run after an id.
func (s *Server) Follow(t testing.TB, taskID string, after string) *Tape {
	t.Helper()
	return s.read(t, http.MethodGet, "/tasks/"+taskID+"/events?after="+after, nil)
}

func (s *Server) read(t testing.TB, method, path string, body any) *Tape {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	resp, err := Client.Do(s.For(t).Request(ctx, method, path, body))
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(resp.Body) // for the message
		_ = resp.Body.Close()
		t.Fatalf("%s %s: status %d: %s", method, path, resp.StatusCode, answer)
	}
	p := &Tape{t: t, s: s, hangUp: cancel, changed: make(chan struct{}), over: make(chan struct{})}
	go p.read(resp.Body) // ends with the body, at the latest when the test's context does
	t.Cleanup(func() { cancel(); <-p.over })
	return p
}
