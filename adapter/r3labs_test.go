package adapter_test

import (
	"context"
	"testing"

	"github.com/r3labs/sse/v2"

	"innerd/events"
)

// r3labs/sse is a reader that was not written by us. It needs a larger buffer
// than its own for long events, and takes an empty event for each heartbeat.
func TestIndependentReader(t *testing.T) {
	s := serve(t, nil)
	run, path, r := s.begin(t)
	const n = 2000
	for range n {
		run.say(t, delta("d\u2028"))
	}
	long := make([]byte, 300_000)
	for i := range long {
		long[i] = 'a' + byte(i%26)
	}
	run.end(t, events.Message{Content: string(long), MessageID: "m1"})
	r.finish()

	client := sse.NewClient(s.URL+path+"/events", sse.ClientMaxBufferSize(1<<20))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next := int64(1)
	var last events.Event
	done := false
	err := client.SubscribeRawWithContext(ctx, func(m *sse.Event) {
		if string(m.Data) == "[DONE]" {
			done = true
			return
		}
		e, err := events.ParseLine(m.Data)
		if err != nil || e.ID != next {
			t.Errorf("event %d: %q %v", next, m.Data, err)
		}
		next++
		if e.Type() == events.TypeMessage && e.Data.(events.Message).Content != string(long) {
			t.Error("the long event came changed")
		}
		last = e
	})
	client.Connection.CloseIdleConnections()
	if err != nil || !done || last.Type() != events.TypeEnd || next != n+5 {
		t.Errorf("%v, done %v, %d events, last %s", err, done, next-1, last.Type())
	}
}
