//go:build linux

package parity_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"innerd/test/server"
)

// TestWarmConversationsHoldNothing: what a host sends with each turn, which is
// all that was ever said, is not in the server's memory between the turns.
func TestWarmConversationsHoldNothing(t *testing.T) {
	const large = 3 << 20
	for _, a := range agentsOf(t) {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, a: a, s: a.server(t)}
			w.s.Args = append(w.s.Args, "--pprof")
			w.s.Start()
			k := w.talk(nil)
			k.run("first", nil, say("one"))
			before := heap(t, w.s)
			k.tell("user", strings.Repeat("as it was said. ", large/16))
			k.tell("assistant", "yes")
			k.run("second", nil, say("two"))
			var more int64
			for end := time.Now().Add(20 * time.Second); ; { // what ends besides a run ends soon, and nothing says when
				if more = heap(t, w.s) - before; more < large/2 {
					return
				}
				if time.Now().After(end) {
					break
				}
			}
			t.Errorf("a turn with %d bytes of history left %d in memory", large, more)
		})
	}
}

// heap is what lives in a server's heap after a collection.
func heap(t *testing.T, s *server.Server) (live int64) {
	t.Helper()
	for range 2 { // what is pooled goes with the second
		if status, answer := s.Call(http.MethodGet, "/debug/pprof/heap?gc=1", nil); status != http.StatusOK {
			t.Fatalf("GET /debug/pprof/heap: %d: %.100q", status, answer)
		}
	}
	_, answer := s.Call(http.MethodGet, "/metrics", nil)
	for line := range strings.Lines(string(answer)) {
		var v float64
		if n, _ := fmt.Sscanf(line, "go_gc_heap_live_bytes %g", &v); n == 1 {
			return int64(v)
		}
	}
	t.Fatal("GET /metrics has no go_gc_heap_live_bytes")
	return 0
}
