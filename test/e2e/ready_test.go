//go:build linux

package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"innerd/adapter/api"
	"innerd/events"
	outside "innerd/test/server"
)

// A state directory that is deleted under a server is no secret of its log: it
// is not ready any more, and says why; the run that is on and the next ones
// are whole all the same.
func TestReadyTellsThatTheStateIsGone(t *testing.T) {
	s := serve(t)
	ready := func() (out api.Ready) {
		status, answer := s.Call(http.MethodGet, "/ready", nil)
		decode(t, answer, &out)
		if (status == http.StatusOK) != out.Ready {
			t.Errorf("status %d: %s", status, answer)
		}
		return out
	}
	if r := ready(); !r.Ready {
		t.Fatalf("from the start: %v", r.Reasons)
	}
	on := s.post(script(`[{"text":"one"},{"call":{"tool":"t","arguments":{}}},{"text":"two"}]`, map[string]any{"events": "all"}), nil)
	call := on.until(t, events.TypeToolRequest).Data.(events.ToolRequest).ToolCallID
	if err := os.RemoveAll(s.State); err != nil {
		t.Fatal(err)
	}
	outside.Eventually(t, "the server says that its state is gone", func() bool { return !ready().Ready })
	if r := ready(); len(r.Reasons) != 1 || !strings.Contains(r.Reasons[0], "gone") {
		t.Errorf("%q", r.Reasons)
	}
	s.Do(http.MethodPost, "/tools/"+call+"/result", `{"result":"r"}`, nil)
	completed(t, on)
	next := s.post(prompt("simulate", "and now?", map[string]any{"events": "all"}), nil)
	completed(t, next)
	again := s.follow("from the beginning", next.taskID(), 0)
	completed(t, again)
	s.equal(next.lines, true, again)
	if n := strings.Count(s.Log(), "directory is gone"); n != 1 {
		t.Errorf("said %d times:\n%s", n, s.Log())
	}
}

func decode(t testing.TB, raw []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		t.Errorf("%v: %s", err, raw)
	}
}
