package runs_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"innerd/backends"
	"innerd/events"
	"innerd/runs"
	"innerd/toolbridge"
)

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
	synctest.Test(t, func(t *testing.T) {
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
	})
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
