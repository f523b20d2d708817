package adapter_test

import (
	"net/http"
	"testing"
)

// A message of A2A at the root, where the same paths mean another protocol, is
// no run that fails: its sender hears where A2A is.
func TestA2AAtTheRoot(t *testing.T) {
	s := serve(t, nil)
	for _, body := range []string{
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}`,
		`{"message":{"messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]},"configuration":{"blocking":true},"metadata":{"x":1}}`,
	} {
		for _, path := range []string{"/message:send", "/message:stream"} {
			s.fails(t, http.MethodPost, path, body, http.StatusBadRequest, "invalid_request", "/a2a")
		}
	}
	select {
	case r := <-s.fake.started:
		t.Errorf("a run was started: %s", r.ID())
	default:
	}
	for _, body := range []string{ // of hosts, who may send what they like beside
		`{"message":{"parts":[{"text":"hi"}]},"messages":[{"role":"user","content":"hi"}]}`,
		`{"message":{"parts":[{"text":"hi"}]},"metadata":{"query":"hi"}}`,
		`{"message":"hi","messages":[{"role":"user","content":"hi"}]}`,
	} {
		s.stream(t, http.MethodPost, "/message:stream", body).want("session.task_id")
		<-s.fake.started
	}
}
