//go:build linux

package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"innerd/events"
)

// post starts a run and reads its stream beside the test.
func (s *server) post(b body, on func(events.Event)) *tape {
	s.T.Helper()
	return s.record("the POST", on, http.MethodPost, "/message:stream", b)
}

// follow reads a run's events after an id beside the test.
func (s *server) follow(name, taskID string, after int64) *tape {
	s.T.Helper()
	return s.record(name, nil, http.MethodGet, "/tasks/"+taskID+"/events", nil, "Last-Event-ID", strconv.FormatInt(after, 10))
}

func (s *server) record(name string, on func(events.Event), method, path string, b any, header ...string) *tape {
	s.T.Helper()
	p := newTape(name, on)
	resp, err := s.stream(s.T.Context(), method, path, b, header...)
	if err != nil {
		s.T.Fatalf("%s: %v", name, err)
	}
	if resp.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(resp.Body) // only for the message
		_ = resp.Body.Close()
		s.T.Fatalf("%s: status %d: %s", name, resp.StatusCode, answer)
	}
	over := make(chan struct{})
	go func() { // ends with the body, at the latest when the test's context ends
		defer close(over)
		defer resp.Body.Close() //nolint:errcheck // only read
		p.read(resp.Body)
	}()
	s.T.Cleanup(func() { <-over })
	return p
}

// journal is a run's log on disk by id.
func (s *server) journal(taskID string) map[int64]string {
	s.T.Helper()
	out := map[int64]string{}
	files, _ := filepath.Glob(filepath.Join(s.State, "runs", taskID, "*.jsonl"))
	if len(files) == 0 {
		s.T.Errorf("run %q has no log on disk", taskID)
	}
	for _, path := range files { // named by their first ids, so in order
		raw, err := os.ReadFile(path)
		if err != nil {
			s.T.Error(err)
		}
		if len(raw) > 0 && raw[len(raw)-1] != '\n' {
			s.T.Errorf("%s: the last line is not whole", path)
		}
		for line := range bytes.Lines(raw) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			id := int64(len(out)) + 1
			if !bytes.HasPrefix(line, fmt.Appendf(nil, `{"id":%d,"ts":`, id)) {
				s.T.Errorf("%s: line %d: %.200q", path, id, line)
				return out
			}
			out[id] = string(line)
		}
	}
	return out
}

// equal fails the test where a reader saw what the log does not have, or has
// otherwise. What is complete must have seen every event.
func (s *server) equal(journal map[int64]string, complete bool, tapes ...*tape) {
	s.T.Helper()
	for _, p := range tapes {
		p.mu.Lock()
		bad := 0
		for _, id := range p.ids {
			if line, ok := journal[id]; !ok || line != p.lines[id] {
				if bad++; bad <= 3 {
					s.T.Errorf("%s saw as %d\n  %.300s\nthe log has\n  %.300s", p.name, id, p.lines[id], line)
				}
			}
		}
		if complete && len(p.ids) != len(journal) {
			s.T.Errorf("%s saw %d of %d events", p.name, len(p.ids), len(journal))
		}
		p.mu.Unlock()
		if bad > 0 {
			s.T.Errorf("%s: %d events are lost or changed", p.name, bad)
		}
	}
}
