package codex_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

// TestLateWords: what belongs to a turn that has ended is nobody's, whenever it
// comes: before the next turn has a name, in it, from a sub-agent, or without
// a name at all.
func TestLateWords(t *testing.T) {
	t.Parallel()
	const (
		oldTurn  = `"threadId":"{{thread}}","turnId":"turn-00000000-0000-7000-8000-000000000001-1"`
		began    = `{"method":"turn/started","params":{"threadId":"{{thread}}","turn":{"id":"turn-00000000-0000-7000-8000-000000000001-1"}}}`
		over     = `{"method":"turn/completed","params":{"threadId":"{{thread}}","turn":{"id":"turn-00000000-0000-7000-8000-000000000001-1","status":"completed"}}}`
		delta    = `{"method":"item/agentMessage/delta","params":{` + oldTurn + `,"itemId":"old","delta":"late"}}`
		item     = `{"method":"item/completed","params":{` + oldTurn + `,"item":{"type":"agentMessage","id":"old","text":"late"}}}`
		command  = `{"method":"item/started","params":{` + oldTurn + `,"item":{"type":"commandExecution","id":"c1","command":"late","cwd":"/"}}}`
		nameless = `{"method":"item/completed","params":{"threadId":"{{thread}}","item":{"type":"agentMessage","id":"none","text":"late"}}}`
		call     = `{"id":"call","method":"item/tool/call","params":{` + oldTurn + `,"callId":"c2","tool":"alpha","arguments":{}}}`
		ask      = `{"id":"ask","method":"item/commandExecution/requestApproval","params":{` + oldTurn + `,"itemId":"c3","command":"late","cwd":"/"}}`

		spawn = `{"method":"item/completed","params":{"threadId":"{{thread}}","turnId":"{{turn}}","item":{"type":"collabAgentToolCall","id":"s1","tool":"spawnAgent",` +
			`"status":"completed","prompt":"task","receiverThreadIds":["below"]}}}`
		belowBegan = `{"method":"turn/started","params":{"threadId":"below","turn":{"id":"b1"}}}`
		belowOver  = `{"method":"turn/completed","params":{"threadId":"below","turn":{"id":"b1","status":"interrupted"}}}`
		belowSays  = `{"method":"item/agentMessage/delta","params":{"threadId":"below","turnId":"b1","itemId":"i","delta":"late"}}`
		belowAsks  = `{"id":"below","method":"item/commandExecution/requestApproval","params":{"threadId":"below","turnId":"b1","itemId":"c4","command":"late","cwd":"/"}}`
	)
	late := []string{began, delta, item, command, nameless, call, ask, belowBegan, belowSays, belowAsks, over}
	st := newStage(t, script{"turn/start": {
		{accepted, started, said("one"), spawn, belowBegan, belowSays, belowOver, finished},
		slices.Concat(late, []string{`{"id":{{id}},"result":{"turn":true}}`},
			[]string{accepted, started}, late, []string{said("two"), finished}),
	}})
	c := st.open(idA, "")
	set := backends.Settings{Tools: []backends.Tool{tool("alpha")}}
	evs, _, err := run(t, c, backendtest.Turn{}, set)
	if dump := backendtest.Dump(evs); err != nil || !slices.Equal(texts(evs), []string{"one"}) || !strings.Contains(dump, `"late"`) {
		t.Fatalf("%v\n%s", err, dump)
	}
	evs, _, err = run(t, c, backendtest.Turn{Permission: backends.PermissionAsk}, set)
	if dump := backendtest.Dump(evs); err != nil || !slices.Equal(texts(evs), []string{"two"}) || strings.Contains(dump, "late") {
		t.Errorf("%v\n%s", err, dump)
	}
	for _, e := range evs {
		if _, asked := e.Data.(events.PermissionRequest); asked {
			t.Error("the host was asked for a turn that has ended")
		}
	}
	for _, id := range []string{"ask", "below", "call"} {
		st.awaitTimes(2, `"id":"`+id+`","result"`) // refused, each time
	}
	if st.strays.Load() != 2 { // what has no name at all may be of anything
		t.Errorf("%d strays", st.strays.Load())
	}
}

// TestCompactionBeginsLate: a compaction that was canceled before it began may
// begin when the next run is asked for, before its turn or its answer: it is no
// part of it.
func TestCompactionBeginsLate(t *testing.T) {
	t.Parallel()
	compaction := strings.NewReplacer("{{turn}}", "compaction").Replace
	begins, ends := compaction(started), compaction(finished)
	for name, second := range map[string][]string{
		"after the answer":           {accepted, begins, ends, started, said("two"), finished},
		"before the answer":          {begins, accepted, ends, started, said("two"), finished},
		"over before the answer":     {begins, ends, accepted, started, said("two"), finished},
		"never":                      {accepted, started, said("two"), finished},
		"never, and the answer late": {started, accepted, said("two"), finished},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, script{"turn/start": {{accepted, started, said("one"), finished}, second, {accepted, started, said("three"), finished}}})
			c := st.open(idA, "")
			for n, want := range []string{"one", "two", "three"} {
				evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
				if err != nil || !slices.Equal(texts(evs), []string{want}) {
					t.Fatalf("%v\n%s", err, backendtest.Dump(evs))
				}
				if n > 0 {
					continue
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- c.(backends.Compacter).Compact(ctx) }() // ends with the cancel
				st.await("thread/compact/start")
				cancel(backends.ErrCanceled)
				if err := <-ended; !errors.Is(err, backends.ErrCanceled) {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestRefusedCompaction: one that codex refuses, at once or when nobody waits
// for it any more, never begins: the next turn is not taken for it, however
// fast that is.
func TestRefusedCompaction(t *testing.T) {
	t.Parallel()
	const refused = `{"id":{{id}},"error":{"code":-32600,"message":"not now"}}`
	for name, late := range map[string]bool{"at once": false, "late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := filepath.Join(t.TempDir(), "gate")
			answer := []string{refused}
			if late {
				answer = []string{"!gate " + gate, refused}
			}
			st := newStage(t, script{
				"thread/compact/start": {answer},
				"turn/start":           {{accepted, started, said("one"), finished}, {started, said("two"), finished, accepted}},
			})
			c := st.open(idA, "")
			if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			ended := make(chan error, 1)
			go func() { ended <- c.(backends.Compacter).Compact(ctx) }() // ends with the refusal, or the cancel
			if late {
				st.await("thread/compact/start")
				cancel(backends.ErrCanceled)
			}
			err := <-ended
			if own := new(backends.Error); late && !errors.Is(err, backends.ErrCanceled) || !late && !errors.As(err, &own) {
				t.Fatal(err)
			}
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
			if err != nil || !slices.Equal(texts(evs), []string{"two"}) {
				t.Errorf("%v\n%s", err, backendtest.Dump(evs))
			}
		})
	}
}
