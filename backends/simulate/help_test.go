package simulate_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/simulate"
	"innerd/events"
)

// crashChild makes this test program the child of a crash step.
const crashChild = "SIMULATE_TEST_CRASH_CHILD"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == crashChild {
		os.Exit(simulate.CrashChild(os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// open opens a conversation of an agent; nil is one that echoes.
func open(t testing.TB, o *simulate.Options) backends.Conversation {
	t.Helper()
	c, err := simulate.New(o).Open(t.Context(), backends.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func prompt(s string) backends.Input {
	return backends.Input{Parts: []events.Part{events.Text(s)}}
}

// script is an input with steps as JSON.
func script(steps string) backends.Input {
	in := prompt("play")
	in.Set.Options = json.RawMessage(`{"script":` + steps + `}`)
	return in
}

// run runs a turn and checks what holds for every turn.
func run(t testing.TB, c backends.Conversation, in backends.Input, turn backendtest.Turn) ([]events.Event, backends.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	rec := backendtest.NewRecorder(turn, nil, func() { cancel(backends.ErrCanceled) })
	out, err := c.Run(ctx, in, rec)
	rec.Close()
	for _, f := range append(rec.Faults(), backendtest.CheckOrder(rec.Events(), err == nil)...) {
		t.Error(f)
	}
	return rec.Events(), out, err
}

// texts are the messages of a log, each the sum of its deltas.
func texts(log []events.Event) (out []string) {
	var open strings.Builder
	for _, e := range log {
		switch d := e.Data.(type) {
		case events.MessageDelta:
			open.WriteString(d.Delta)
		case events.Message:
			out = append(out, open.String())
			open.Reset()
		}
	}
	return out
}

func wantError(t testing.TB, err error, class string) *backends.Error {
	t.Helper()
	var e *backends.Error
	if !errors.As(err, &e) || e.Type != class {
		t.Fatalf("error is %v, want %s", err, class)
	}
	return e
}
