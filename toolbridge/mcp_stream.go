package toolbridge

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// streamHeader carries the id of a response from the bridge through the SDK
// to the call it is for. It is set on every request, so clients can't.
const streamHeader = "Innerd-Stream"

// mcpWriteLimit is how long one event may take to reach a client's socket.
const mcpWriteLimit = 60 * time.Second

// stream is a response that a waiting call can keep alive with comments. The
// SDK writes each event with one Write, so that a comment between two writes
// stands between two events.
type stream struct {
	mu   sync.Mutex
	w    http.ResponseWriter
	rc   *http.ResponseController
	over bool
}

func (s *stream) Header() http.Header { return s.w.Header() }

func (s *stream) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w.WriteHeader(status)
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit()
	return s.w.Write(p)
}

// FlushError is what http.ResponseController looks for.
func (s *stream) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit()
	return s.rc.Flush()
}

// limit gives each write its own time, since the whole has none.
func (s *stream) limit() {
	_ = s.rc.SetWriteDeadline(time.Now().Add(mcpWriteLimit)) // recorders in tests have none
}

// ping sends the headers, if they were not sent, and a comment. Nil does
// nothing. It is called while the SDK waits for the call, so after the SDK
// has set the headers.
func (s *stream) ping() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || !strings.HasPrefix(s.w.Header().Get("Content-Type"), "text/event-stream") {
		return
	}
	s.limit()
	if _, err := s.w.Write([]byte(": waiting\n\n")); err == nil {
		_ = s.rc.Flush() // a broken connection shows at the next read
	}
}

// end makes late pings harmless: the response is gone when its handler returns.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}
