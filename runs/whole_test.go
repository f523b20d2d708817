package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"innerd/runs"
)

// leaving is a context whose caller leaves when it was asked for so often.
type leaving struct {
	context.Context
	left int
}

// Err implements context.Context.
func (c *leaving) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// A task is not folded on for a caller that has left.
func TestFoldingEndsWithItsCaller(t *testing.T) {
	w := newWorld(t)
	steps := strings.Repeat(`{"text":"said"},{"tool":{"name":"x"}},`, 20)
	id := w.run(func(s *runs.Spec) {
		s.Settings.Options = json.RawMessage(`{"script":[` + steps + `{"text":"end"}]}`)
	}).ID
	run, err := w.m.Get("me", id)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := run.TaskFor(t.Context())
	if err != nil || len(whole.Messages) != 21 {
		t.Fatalf("%d messages, %v", len(whole.Messages), err)
	}
	for _, asked := range []int{0, 1, 5} {
		got, err := run.TaskFor(&leaving{t.Context(), asked})
		if !errors.Is(err, context.Canceled) || len(got.Messages) > 5 {
			t.Errorf("left after %d: %d messages, %v", asked, len(got.Messages), err)
		}
		if asked == 0 && got.History != nil {
			t.Error("the request is read for a caller that has left before")
		}
	}
}

// A task weighs as much as its request and its log.
func TestWeight(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ asked, said int }{{10, 10}, {1 << 20, 10}, {10, 1 << 20}} {
		id := w.run(func(s *runs.Spec) {
			s.Messages[0].Text = strings.Repeat("x", c.asked)
			s.Settings.Options = json.RawMessage(`{"script":[{"text":"` + strings.Repeat("y", c.said) + `"}]}`)
		}).ID
		run, err := w.m.Get("me", id)
		if err != nil {
			t.Fatal(err)
		}
		task, err := run.Task()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(task)
		if n := run.Weight(); err != nil || n < int64(len(raw))-2000 || n > 8*int64(len(raw))+10_000 {
			t.Errorf("%+v: it weighs %d, and has %d bytes, %v", c, n, len(raw), err)
		}
	}
}

// A list reads little of long logs with long events: it is asked for again and
// again.
func TestAListReadsLittle(t *testing.T) {
	w := newWorld(t)
	const long = 8
	for range long {
		w.run(func(s *runs.Spec) {
			s.Settings.Options = json.RawMessage(`{"script":[{"flood":{"deltas":40,"bytes":100000}}]}`)
		})
	}
	list := func() (tasks []runs.Task, took uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		tasks, _, err := w.m.List("me", runs.Query{})
		runtime.ReadMemStats(&after)
		if err != nil || len(tasks) != long {
			t.Fatalf("%d tasks, %v", len(tasks), err)
		}
		return tasks, after.TotalAlloc - before.TotalAlloc
	}
	tasks, took := list()
	for _, task := range tasks {
		if !task.Truncated || task.State != "completed" || task.Usage == nil {
			t.Errorf("%.300s", fmt.Sprintf("%+v", task))
		}
	}
	if took > long<<20 {
		t.Errorf("it took %d MB for %d runs", took>>20, long)
	}
}
