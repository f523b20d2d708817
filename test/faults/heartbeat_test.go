//go:build linux

package faults_test

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/server"
)

// inHeartbeat are the kinds of places in a frame without an id; start is its
// first byte, end its line end.
var inHeartbeat = map[string]func(start, end int) int{
	"before it":                  func(start, _ int) int { return start },
	"in data:":                   func(start, _ int) int { return start + 3 },
	"in its data":                func(start, end int) int { return (start + end) / 2 },
	"before its line end":        func(_, end int) int { return end },
	"in the blank line":          func(_, end int) int { return end + 1 },
	"after the blank line":       func(_, end int) int { return end + 2 },
	"before the data's last one": func(_, end int) int { return end - 1 },
}

func untilHeartbeat(where func(start, end int) int) place {
	return func(said []byte) (int, int, bool) {
		i := bytes.Index(said, []byte(`"type":"`+events.TypeHeartbeat+`"`))
		whole := bytes.LastIndex(said, []byte("\n\n"))
		if i < 0 || whole < i {
			return 0, max(whole, 0), false
		}
		start := bytes.LastIndex(said[:i], []byte("data: "))
		return where(start, i+bytes.Index(said[i:], []byte("\n\n"))), 0, true
	}
}

// A connection that breaks in a heartbeat, which has no id, costs nothing and
// gives nothing twice.
func TestConnectionIsCutInAHeartbeat(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := newRig(t).start()
	p := r.Post(t, simulate(`[{"text":"it waits"},{"call":{"tool":"x"}},{"flood":{"deltas":100}},{"text":"over"}]`, nil))
	call := server.Until[events.ToolRequest](p, 1).ToolCallID
	l := ledger.New()
	var networks []network
	var readers []*reading
	for i, name := range slices.Sorted(maps.Keys(inHeartbeat)) {
		n, other := newNetwork(t, r, cut(untilHeartbeat(inHeartbeat[name]), i%2 == 0)), newNetwork(t, r, cut(untilHeartbeat(inHeartbeat[name]), i%2 == 1))
		networks = append(networks, n, other)
		to := l.Reader(name + ", by hand").Whole()
		readers = append(readers, read(t, to, func(ctx context.Context) error { return r.comeBack(ctx, to, p.TaskID(), n.URL) }))
		client := r.impatient(other.URL())
		theirs := l.Reader(name + ", host client").Whole()
		readers = append(readers, read(t, theirs, func(ctx context.Context) error {
			_, err := listen(theirs, client.Follow(ctx, p.TaskID(), 0))
			return err
		}))
	}
	for _, n := range networks {
		n.allHappened(t)
	}
	r.Result(call, map[string]any{"result": "go on"})
	for _, reader := range readers {
		reader.clean()
	}
	p.Completed()
	taped(l, "the POST", p).Whole()
	result(t, "connection cut in a heartbeat, plain reader and host client (simulate)", r.compare(l, p.TaskID()), time.Since(began))
}
