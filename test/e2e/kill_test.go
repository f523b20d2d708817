//go:build linux

package e2e_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"innerd/events"
)

// Whatever a reader was shown before the server was killed, at any moment, is
// there afterwards, unchanged.
func TestKilledInAFlood(t *testing.T) {
	rounds := 8
	if long() {
		rounds = 50
	}
	s := newServer(t)
	for i := range rounds {
		if i%2 == 0 {
			killInFlood(t, s, `{"deltas":8000}`, 1+rand.Int64N(2000))
		} else {
			killInFlood(t, s, `{"deltas":8000,"per_second":8000}`, 1+rand.Int64N(4000))
		}
	}
}

// killInFlood kills a server when the slowest of three readers has seen so
// many events.
func killInFlood(t *testing.T, s *server, flood string, seen int64) {
	s.Start()
	post := s.post(script(`[{"reasoning":"now"},{"tool":{"name":"shell","input":{}}},{"flood":`+flood+`},{"stall":true}]`,
		map[string]any{"events": "all", "detach": true}), nil)
	id := post.until(t, events.TypeTaskID).Data.(events.TaskID).TaskID
	readers := []*tape{post, s.follow("the first follower", id, 0), s.follow("the second follower", id, 0)}
	for _, p := range readers {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		if err := p.await(ctx, func() bool { return p.last() >= seen }); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	s.Kill()
	for _, p := range readers {
		if err := p.ended(t.Context()); err == nil {
			t.Errorf("%s: the stream of a killed server ended cleanly", p.name)
		}
	}
	s.Start()
	after := s.follow("a reader afterwards", id, 0)
	after.whole(t)
	journal := s.journal(id)
	s.equal(journal, false, readers...)
	s.equal(journal, true, after)
	checkOrder(t, after.events())
	restarted(t, after)
	// Who comes back with the last id that it saw gets the rest.
	rest := s.follow("the POST's reader, back", id, post.lastID())
	rest.whole(t)
	if len(rest.ids)+len(post.ids) != len(journal) {
		t.Errorf("%d events before, %d after, %d in all", len(post.ids), len(rest.ids), len(journal))
	}
	s.Kill()
	if t.Failed() {
		t.Logf("killed when the slowest had seen %d events; %v", seen, id)
	}
}

// restarted fails the test unless the run ended by the restart.
func restarted(t testing.TB, p *tape) {
	t.Helper()
	f, end := p.failure(), p.end()
	if f == nil || f.ErrorType != events.ErrAdapterRestarted || end == nil || end.State != events.Failed || end.Reason != events.ErrAdapterRestarted {
		t.Errorf("the run ended with %+v, %+v\n%s", f, end, p)
	}
}

// A server that is killed while all kinds of things are open closes each.
func TestKilledWhileThingsAreOpen(t *testing.T) {
	s := serve(t)
	for name, c := range map[string]struct {
		steps string
		until events.Type
		meta  map[string]any
	}{
		"calls":      {`[{"calls":[{"tool":"a"},{"tool":"b"}]}]`, events.TypeToolRequest, nil},
		"permission": {`[{"permission":{"tool":"shell","input":{}}}]`, events.TypePermissionRequest, map[string]any{"permission_mode": "ask"}},
		"question":   {`[{"ask":{"message":"which?"}}]`, events.TypeInputRequired, map[string]any{"interactive": true}},
		"message":    {`[{"text":"half a sentence","chunk_bytes":4,"delay_ms":600000}]`, events.TypeMessageDelta, nil},
		"reasoning":  {`[{"reasoning":"half a thought","chunk_bytes":4,"delay_ms":600000}]`, events.TypeReasoningDelta, nil},
		"tool":       {`[{"tool":{"name":"shell","input":{},"ms":600000}}]`, events.TypeToolCall, nil},
		"nothing":    {`[{"stall":true}]`, events.TypeStatus, nil},
	} {
		t.Run(name, func(t *testing.T) {
			meta := map[string]any{"events": "all", "detach": true}
			for k, v := range c.meta {
				meta[k] = v
			}
			post := s.post(script(c.steps, meta), nil)
			post.until(t, c.until)
			id := post.taskID()
			s.Kill()
			s.Start()
			after := s.follow("a reader afterwards", id, 0)
			after.whole(t)
			checkOrder(t, after.events())
			restarted(t, after)
			s.equal(s.journal(id), true, after)
			s.equal(s.journal(id), false, post)
		})
	}
}

// A run that was killed can be asked for again by its task id: it is not done
// a second time.
func TestKilledRunIsNotRepeated(t *testing.T) {
	s := serve(t)
	b := script(`[{"text":"once"},{"sleep_ms":600000}]`, map[string]any{"task_id": "the-task-id", "events": "all"})
	first := s.post(b, nil)
	first.until(t, events.TypeMessage)
	s.Kill()
	s.Start()
	second := s.post(b, nil)
	second.whole(t)
	restarted(t, second)
	s.equal(s.journal("the-task-id"), false, first)
	s.equal(s.journal("the-task-id"), true, second)
}
