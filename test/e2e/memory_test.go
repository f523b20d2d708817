//go:build linux

package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"innerd/adapter/api"
)

// The server itself stays small, whatever its agents need: 60 MB with forty
// conversations open.
func TestMemoryWithFortyConversations(t *testing.T) {
	s := serve(t, "--max-warm", "50")
	tool := map[string]any{"native_tool_schemas": []any{map[string]any{"name": "t", "parameters": map[string]any{"type": "object"}}}}
	for i := range 40 {
		completed(t, s.post(prompt("simulate", fmt.Sprint("hello ", i), tool).in(fmt.Sprint("c", i)), nil))
	}
	var all api.Conversations
	s.get("/conversations", &all)
	open := 0
	for _, c := range all.Conversations {
		if c.State == "idle" {
			open++
		}
	}
	if kb := rss(t, s.Pid()); open != 40 || kb > 60_000 {
		t.Errorf("%d kB with %d conversations open", kb, open)
	}
}

// rss is what a process holds in memory, in kB.
func rss(t testing.TB, pid int) (kb int) {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "VmRSS:")
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		t.Fatal(err)
	}
	return kb
}
