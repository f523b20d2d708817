package runs_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/simulate"
	"innerd/events"
	"innerd/events/journal"
	"innerd/runs"
	"innerd/runs/history"
	"innerd/telemetry"
	"innerd/toolbridge"
)

// world is a manager over a real journal and the simulated agent.
type world struct {
	t     *testing.T
	dir   string
	home  string
	store *journal.Store
	m     *runs.Manager
	other []backends.Backend
	lim   runs.Limits
	open  bool

	bridge *toolbridge.Bridge // nil: a new one
	mcp    string             // base of the second road
	tracer *telemetry.Tracer
}

func newWorld(t *testing.T, change ...func(*world)) *world {
	w := &world{t: t, dir: t.TempDir(), home: t.TempDir(), lim: runs.Limits{Grace: 200 * time.Millisecond}}
	for _, c := range change {
		c(w)
	}
	w.start()
	t.Cleanup(w.stop)
	return w
}

func (w *world) start() {
	w.t.Helper()
	var err error
	quiet := slog.New(slog.DiscardHandler)
	if w.store, err = journal.Open(w.dir, &journal.Options{Logger: quiet}); err != nil {
		w.t.Fatal(err)
	}
	bridge := w.bridge
	if bridge == nil {
		bridge = toolbridge.New(&toolbridge.Options{Logger: quiet})
	}
	sim := simulate.New(&simulate.Options{StateDir: w.home})
	w.m, err = runs.New(runs.Options{
		Store: w.store, Bridge: bridge, MCPURL: w.mcp, Default: "simulate",
		Backends: append([]backends.Backend{sim}, w.other...), Dir: w.t.TempDir(), Limits: w.lim, OpenServer: w.open, Tracer: w.tracer,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.m.Recover(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) stop() {
	if w.m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := w.m.Shutdown(ctx); err != nil {
		w.t.Errorf("shutdown: %v", err)
	}
	if err := w.store.Close(); err != nil {
		w.t.Errorf("close the store: %v", err)
	}
	w.m = nil
}

func (w *world) restart() {
	w.stop()
	w.start()
}

func script(steps string) func(*runs.Spec) {
	return func(s *runs.Spec) { s.Settings.Options = json.RawMessage(`{"script":` + steps + `}`) }
}

func inContext(id string) func(*runs.Spec) { return func(s *runs.Spec) { s.ContextID = id } }

// said makes a history: user and assistant in turns, the last one the prompt.
func said(texts ...string) func(*runs.Spec) {
	return func(s *runs.Spec) {
		s.Messages = nil
		for i, text := range texts {
			role := "user"
			if i%2 == 1 {
				role = "assistant"
			}
			s.Messages = append(s.Messages, history.Message{Role: role, Text: text})
		}
	}
}

func (w *world) spec(change ...func(*runs.Spec)) runs.Spec {
	s := runs.Spec{Messages: []history.Message{{Role: "user", Text: "hello there"}}, Detach: true}
	for _, c := range change {
		c(&s)
	}
	return s
}

func (w *world) begin(change ...func(*runs.Spec)) *runs.Run {
	w.t.Helper()
	run, created, err := w.m.Start(w.t.Context(), "me", w.spec(change...))
	if err != nil || !created {
		w.t.Fatalf("start: created %v, %v", created, err)
	}
	return run
}

func (w *world) await(run *runs.Run) runs.Task {
	w.t.Helper()
	select {
	case <-run.Done():
	case <-time.After(time.Minute):
		w.t.Fatalf("run %s did not end; log: %s", run.ID(), types(run))
	}
	task, err := run.Task()
	if err != nil {
		w.t.Fatal(err)
	}
	return task
}

func (w *world) run(change ...func(*runs.Spec)) runs.Task {
	w.t.Helper()
	return w.await(w.begin(change...))
}

// until waits for an event of the type and returns it.
func until[T events.Data](t *testing.T, run *runs.Run) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := run.Log().Follow(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for e, err := range c.Events(ctx) {
		if err != nil {
			break
		}
		if d, ok := e.Data.(T); ok {
			return d
		}
	}
	var zero T
	t.Fatalf("no %s in %s", zero.EventType(), types(run))
	return zero
}

func types(run *runs.Run) string {
	var out []string
	for e := range run.Log().Snapshot(0, nil) {
		if len(out) == 0 || out[len(out)-1] != string(e.Type()) {
			out = append(out, string(e.Type()))
		}
	}
	return strings.Join(out, " ")
}

func answer(t runs.Task) string {
	var b strings.Builder
	for _, m := range t.Messages {
		b.WriteString(m.Content)
	}
	return b.String()
}

func errorType(t runs.Task) string {
	if t.Error == nil {
		return ""
	}
	return t.Error.ErrorType
}
