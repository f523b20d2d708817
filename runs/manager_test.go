package runs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"innerd/backends"
	"innerd/events"
	"innerd/runs"
	"innerd/toolbridge"
)

func TestCancel(t *testing.T) {
	for name, steps := range map[string]string{
		"in a stall": `[{"stall":true}]`,
		"in text":    `[{"text":"a long text that goes on and on","chunk_bytes":1,"delay_ms":200}]`,
		"in a flood": `[{"flood":{"deltas":100000000,"per_second":5000}}]`,
		"in a tool":  `[{"tool":{"name":"Bash","input":{"command":"sleep"},"output":"x","ms":60000}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}

func TestHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		if lived := time.Since(run.Started()); lived != 200*time.Millisecond {
			t.Errorf("ended after %s; its last reader went after 150 ms", lived)
		}
		kept := w.begin(mine, func(s *runs.Spec) { s.Detach = true }, script(`[{"sleep_ms":200},{"text":"x"}]`))
		kept.Attach()()
		if task := w.await(kept); task.State != "completed" {
			t.Errorf("a detached run: %s", task.State)
		}
	})
}

func TestDeadlineAndStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
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
	answered, err := w.m.Answer("me", run.ID(), perm.RequestID, toolbridge.Reply{Option: perm.Options[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	if open := answered.Pending(); len(open) > 1 {
		t.Errorf("pending %+v", open)
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
