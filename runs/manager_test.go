package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	sim := simulate.New(&simulate.Options{StateDir: w.home})
	w.m, err = runs.New(runs.Options{
		Store: w.store, Bridge: toolbridge.New(&toolbridge.Options{Logger: quiet}), Default: "simulate",
		Backends: append([]backends.Backend{sim}, w.other...), Dir: w.t.TempDir(), Limits: w.lim, OpenServer: w.open,
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
	case <-time.After(20 * time.Second):
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
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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

func TestRunEchoes(t *testing.T) {
	w := newWorld(t)
	run := w.begin()
	task := w.await(run)
	if task.State != "completed" || !strings.Contains(answer(task), "hello there") || task.Usage == nil {
		t.Errorf("task %+v", task)
	}
	got := types(run)
	if !strings.HasPrefix(got, "session.task_id") || !strings.HasSuffix(got, "assistant.message assistant.usage session.end") {
		t.Errorf("events: %s", got)
	}
}

func TestTaskIDMakesStartIdempotent(t *testing.T) {
	w := newWorld(t)
	spec := w.spec(script(`[{"sleep_ms":100},{"text":"once"}]`))
	spec.TaskID, spec.BodyHash = "task-0001", "h1"
	type result struct {
		run     *runs.Run
		created bool
		err     error
	}
	results := make(chan result)
	for range 8 {
		go func() {
			run, created, err := w.m.Start(t.Context(), "me", spec)
			results <- result{run, created, err}
		}()
	}
	made := 0
	for range 8 {
		r := <-results
		if r.err != nil || r.run.ID() != "task-0001" {
			t.Fatalf("%v", r.err)
		}
		if r.created {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d of 8 starts made the run", made)
	}
	other := spec
	other.BodyHash = "h2"
	if _, _, err := w.m.Start(t.Context(), "me", other); !errors.Is(err, runs.ErrConflict) {
		t.Errorf("another body: %v", err)
	}
	if _, _, err := w.m.Start(t.Context(), "somebody else", spec); !errors.Is(err, runs.ErrConflict) {
		t.Errorf("another owner: %v", err)
	}
	run, err := w.m.Get("me", "task-0001")
	if err != nil {
		t.Fatal(err)
	}
	w.await(run)
	if run, created, err := w.m.Start(t.Context(), "me", spec); err != nil || created || run.ID() != "task-0001" {
		t.Errorf("after its end: created %v, %v", created, err)
	}
	w.restart()
	if _, created, err := w.m.Start(t.Context(), "me", spec); err != nil || created {
		t.Errorf("after a restart: created %v, %v", created, err)
	}
}

func TestOneRunAtATime(t *testing.T) {
	w := newWorld(t)
	first := w.begin(inContext("c"), script(`[{"sleep_ms":150},{"text":"first"}]`))
	second := w.begin(inContext("c"), script(`[{"text":"second"}]`))
	if _, _, err := w.m.Start(t.Context(), "me", w.spec(inContext("c"), func(s *runs.Spec) { s.OnBusy = runs.BusyReject })); !errors.Is(err, runs.ErrConflict) {
		t.Errorf("on_busy reject: %v", err)
	}
	until[events.Status](t, second)
	w.await(second)
	if _, ended := first.Log().Ended(); !ended {
		t.Error("the second run ended before the first")
	}
	third := w.begin(inContext("c"), script(`[{"stall":true}]`))
	until[events.Status](t, third)
	fourth := w.run(inContext("c"), script(`[{"text":"fourth"}]`), func(s *runs.Spec) { s.OnBusy = runs.BusyCancel })
	if task := w.await(third); task.State != "canceled" || fourth.State != "completed" {
		t.Errorf("on_busy cancel: %s then %s", task.State, fourth.State)
	}
}

func TestQueueIsBounded(t *testing.T) {
	w := newWorld(t, func(w *world) { w.lim.Queue = 2 })
	head := w.begin(inContext("c"), script(`[{"stall":true}]`))
	waiting := []*runs.Run{w.begin(inContext("c")), w.begin(inContext("c"))}
	if _, _, err := w.m.Start(t.Context(), "me", w.spec(inContext("c"))); !errors.Is(err, runs.ErrBusy) {
		t.Errorf("a full queue: %v", err)
	}
	if _, err := waiting[0].Cancel(t.Context(), "not needed"); err != nil {
		t.Error(err)
	}
	if task := w.await(waiting[0]); task.State != "canceled" {
		t.Errorf("a queued run that was canceled: %s", task.State)
	}
	if _, err := head.Cancel(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if task := w.await(waiting[1]); task.State != "completed" {
		t.Errorf("the run behind: %s %s", task.State, errorType(task))
	}
}

func TestARunBehindOneThatWaitsForItsHostIsNotQueued(t *testing.T) {
	w := newWorld(t)
	tool := func(s *runs.Spec) {
		s.Settings.Tools = []backends.Tool{{Name: "ask_the_host", Schema: json.RawMessage(`{"type":"object"}`), Parallel: true}}
	}
	outer := w.begin(inContext("c"), tool, script(`[{"call":{"tool":"ask_the_host","arguments":{}}}]`))
	req := until[events.ToolRequest](t, outer)
	if inner := w.run(inContext("c"), script(`[{"text":"inner"}]`)); inner.State != "completed" {
		t.Errorf("inner: %s", inner.State)
	}
	if !outer.OpenToolRequests() {
		t.Error("the outer run's request is not open")
	}
	if v := w.m.ToolResult("me", req.ToolCallID, toolbridge.Result{Result: "from the host"}); v != toolbridge.Accepted {
		t.Errorf("verdict %v", v)
	}
	if task := w.await(outer); !strings.Contains(answer(task), "from the host") {
		t.Errorf("outer said %q", answer(task))
	}
}

func TestCancel(t *testing.T) {
	for name, steps := range map[string]string{
		"in a stall": `[{"stall":true}]`,
		"in text":    `[{"text":"a long text that goes on and on","chunk_bytes":1,"delay_ms":200}]`,
		"in a flood": `[{"flood":{"deltas":100000000,"per_second":5000}}]`,
		"in a tool":  `[{"tool":{"name":"Bash","input":{"command":"sleep"},"output":"x","ms":60000}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.begin(script(steps))
			until[events.Status](t, run)
			ended, err := run.Cancel(t.Context(), "enough")
			if err != nil || !ended {
				t.Fatalf("cancel: %v %v", ended, err)
			}
			task := w.await(run)
			if task.State != "canceled" || errorType(task) != "canceled" || !strings.HasPrefix(task.Error.Message, "canceled: ") || !strings.Contains(task.Error.Message, "enough") {
				t.Errorf("%s %+v", task.State, task.Error)
			}
			if _, err := run.Cancel(t.Context(), ""); !errors.Is(err, runs.ErrEnded) {
				t.Errorf("second cancel: %v", err)
			}
			if n := strings.Count(types(run), "session.error session.end"); n != 1 {
				t.Errorf("%d ends: %s", n, types(run))
			}
		})
	}
}

func TestHangUp(t *testing.T) {
	w := newWorld(t)
	mine := func(s *runs.Spec) { s.Detach, s.DetachGrace = false, 50*time.Millisecond }
	run := w.begin(mine, script(`[{"stall":true}]`))
	detach := run.Attach()
	again := run.Attach()
	detach()
	detach() // twice is once
	time.AfterFunc(150*time.Millisecond, again)
	if task := w.await(run); task.State != "canceled" || task.Reason != "disconnected" {
		t.Errorf("%s %s", task.State, task.Reason)
	}
	if lived := time.Since(run.Started()); lived < 150*time.Millisecond {
		t.Errorf("ended after %s, while it had a reader", lived)
	}
	kept := w.begin(mine, func(s *runs.Spec) { s.Detach = true }, script(`[{"sleep_ms":200},{"text":"x"}]`))
	kept.Attach()()
	if task := w.await(kept); task.State != "completed" {
		t.Errorf("a detached run: %s", task.State)
	}
}

func TestDeadlineAndStall(t *testing.T) {
	w := newWorld(t, func(w *world) { w.lim.Stall = map[string]time.Duration{"simulate": 150 * time.Millisecond} })
	late := w.run(func(s *runs.Spec) { s.Timeout = 50 * time.Millisecond }, script(`[{"stall":true}]`))
	if late.State != "failed" || errorType(late) != "timeout" {
		t.Errorf("deadline: %s %s", late.State, errorType(late))
	}
	stalled := w.run(script(`[{"text":"x"},{"stall":true}]`))
	if stalled.State != "failed" || errorType(stalled) != "stalled" || !strings.HasPrefix(stalled.Error.Message, "timeout: ") {
		t.Errorf("stall: %s %+v", stalled.State, stalled.Error)
	}
	tool := w.run(script(`[{"tool":{"name":"Bash","input":{},"output":"done","ms":500}},{"text":"x"}]`))
	if tool.State != "completed" {
		t.Errorf("a silent tool is no stall: %s %s", tool.State, errorType(tool))
	}
}

func TestLimitsEndARunAsCompleted(t *testing.T) {
	w := newWorld(t)
	calls := w.run(func(s *runs.Spec) { s.ToolCallLimit = 2 },
		script(`[{"repeat":5,"steps":[{"tool":{"name":"Bash","input":{},"output":"x"}}]},{"text":"never"}]`))
	if calls.State != "completed" || calls.Reason != "tool_call_limit" || strings.Contains(answer(calls), "never") {
		t.Errorf("tool_call_limit: %s %s %q", calls.State, calls.Reason, answer(calls))
	}
}

func TestEmptyTurnIsAFailure(t *testing.T) {
	w := newWorld(t)
	if task := w.run(script(`[{"empty":true}]`)); task.State != "failed" || errorType(task) != "empty_turn" {
		t.Errorf("%s %s", task.State, errorType(task))
	}
	if task := w.run(func(s *runs.Spec) { s.Messages = nil }); task.State != "failed" || errorType(task) != "invalid_request" {
		t.Errorf("no messages: %s %s", task.State, errorType(task))
	}
}

func TestPermissionAndQuestion(t *testing.T) {
	w := newWorld(t)
	run := w.begin(func(s *runs.Spec) { s.Settings.Permission, s.Settings.Interactive = backends.PermissionAsk, true },
		script(`[{"permission":{"tool":"Bash","input":{"command":"rm x"}}},{"ask":{"message":"Sure?","schema":{"type":"string"}}},{"text":"done"}]`))
	perm := until[events.PermissionRequest](t, run)
	task, err := w.m.Answer("me", run.ID(), perm.RequestID, toolbridge.Reply{Option: perm.Options[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	if len(task.Pending) > 1 {
		t.Errorf("pending %+v", task.Pending)
	}
	if _, err := w.m.Answer("somebody else", run.ID(), perm.RequestID, toolbridge.Reply{Option: "x"}); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("another owner's answer: %v", err)
	}
	until[events.InputRequired](t, run)
	if task, _ := run.Task(); task.State != "input_required" || len(task.Pending) != 1 {
		t.Errorf("state %s, pending %+v", task.State, task.Pending)
	}
	if _, err := w.m.ReplyText("me", run.ID(), "", "yes", nil); err != nil {
		t.Fatal(err)
	}
	if task := w.await(run); task.State != "completed" {
		t.Errorf("%s %s", task.State, errorType(task))
	}
	nobody := w.run(func(s *runs.Spec) { s.Settings.Interactive, s.InputTimeout = true, 50*time.Millisecond },
		script(`[{"ask":{"message":"Anyone?"}},{"text":"done"}]`))
	if nobody.State != "failed" || errorType(nobody) != "timeout" {
		t.Errorf("unanswered question: %s %s", nobody.State, errorType(nobody))
	}
}

func TestStrictFields(t *testing.T) {
	w := newWorld(t, func(w *world) { w.open = true })
	for field, change := range map[string]func(*runs.Spec){
		"metadata.backend":                 func(s *runs.Spec) { s.Backend = "clippy" },
		"metadata.task_id":                 func(s *runs.Spec) { s.TaskID = "../../etc/passwd" },
		"metadata.cwd":                     func(s *runs.Spec) { s.Dir = "/does/not/exist" },
		"metadata.add_dirs[0]":             func(s *runs.Spec) { s.AddDirs = []string{"relative"} },
		"metadata.permission_mode":         func(s *runs.Spec) { s.Settings.Permission = "ask" },
		"metadata.agent_options.script[1]": script(`[{"text":"x"},{"dance":true}]`),
	} {
		_, _, err := w.m.Start(t.Context(), "me", w.spec(change))
		var fe *backends.FieldError
		if !errors.As(err, &fe) || !strings.HasPrefix(fe.Field, field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if tasks, _, err := w.m.List("me", runs.Query{}); err != nil || len(tasks) != 0 {
		t.Errorf("a refused run left something: %v %v", tasks, err)
	}
}

func TestListPagesNewestFirst(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for i := range 5 {
		task := w.run(inContext(fmt.Sprintf("c%d", i%2)))
		ids = append([]string{task.ID}, ids...)
	}
	var got []string
	q := runs.Query{PageSize: 2}
	for {
		tasks, next, err := w.m.List("me", q)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			got = append(got, task.ID)
		}
		if next == "" {
			break
		}
		q.PageToken = next
	}
	if strings.Join(got, " ") != strings.Join(ids, " ") {
		t.Errorf("got %v, want %v", got, ids)
	}
	if tasks, _, _ := w.m.List("me", runs.Query{ContextID: "c1"}); len(tasks) != 2 {
		t.Errorf("%d runs of c1", len(tasks))
	}
	if tasks, _, _ := w.m.List("somebody else", runs.Query{}); len(tasks) != 0 {
		t.Error("another owner sees the runs")
	}
	if _, _, err := w.m.List("me", runs.Query{PageToken: "x"}); err == nil {
		t.Error("a made-up token passed")
	}
	if err := w.m.Delete("somebody else", ids[0]); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("another owner's delete: %v", err)
	}
	if err := w.m.Delete("me", ids[0]); err != nil {
		t.Error(err)
	}
	if _, err := w.m.Get("me", ids[0]); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("after delete: %v", err)
	}
}

func TestShutdownEndsEveryRun(t *testing.T) {
	w := newWorld(t)
	run := w.begin(script(`[{"text":"x"},{"stall":true}]`))
	until[events.MessageDelta](t, run)
	w.restart()
	back, err := w.m.Get("me", run.ID())
	if err != nil {
		t.Fatal(err)
	}
	if task := w.await(back); task.State != "failed" || errorType(task) != "shutdown" {
		t.Errorf("%s %s", task.State, errorType(task))
	}
}
