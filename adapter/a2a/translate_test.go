package a2a

import (
	"encoding/json"
	"slices"
	"testing"

	"innerd/adapter/a2a/extension"
	"innerd/adapter/a2a/spec"
	"innerd/events"
)

// play translates events as a log would have them.
func play(ext bool, list ...events.Data) (out []update, snap *snapshot) {
	t := newTranslator("run", "ctx", "simulate", ext)
	snap = newSnapshot("run", "ctx", nil, stamp(0))
	for i, d := range list {
		for _, u := range t.event(events.Event{ID: int64(i + 1), TS: int64(i), Data: d}) {
			out = append(out, u)
			snap.apply(u)
		}
	}
	return out, snap
}

func kindsOf(list []update) (kinds []string) {
	for _, u := range list {
		if !u.transient {
			continue
		}
		var x extension.Event
		if json.Unmarshal(u.status.Message.Parts[0].Data, &x) == nil {
			kinds = append(kinds, x.Kind)
		}
	}
	return kinds
}

func TestFilesPlansAndSubagents(t *testing.T) {
	list := []events.Data{
		events.TaskID{TaskID: "run"},
		events.Status{State: events.StateWorking},
		events.Plan{Entries: []events.PlanEntry{{Content: "do", Status: "pending"}}},
		events.FileChange{Path: "a.go", Kind: "create", Diff: "+one"},
		events.FileChange{Path: "b.go", Kind: "delete"},
		events.FileChange{Path: "a.go", Kind: "edit", Diff: "+two"},
		events.SubagentStart{ID: "s", Name: "helper"},
		events.SubagentDelta{ID: "s", Text: "hm"},
		events.SubagentComplete{ID: "s", Result: "ok"},
		events.End{State: events.Completed, Reason: "end_turn", Output: json.RawMessage(`{"n":1}`)},
	}
	for _, ext := range []bool{false, true} {
		out, snap := play(ext, list...)
		task := snap.result()
		if len(task.Artifacts) != 3 || len(task.Artifacts[0].Parts) != 2 || *task.Artifacts[0].Parts[1].Text != "+two" || task.Artifacts[0].Parts[0].Filename != "a.go" ||
			task.Artifacts[1].Parts[0].Data == nil || string(task.Artifacts[2].Parts[0].Data) != `{"n":1}` || task.Status.State != spec.StateCompleted {
			t.Errorf("%s", encode(task))
		}
		want := []string{"status", "plan", "fileChange", "fileChange", "fileChange", "subagent", "subagent"}
		if got := kindsOf(out); ext && !slices.Equal(got, want) || !ext && got != nil {
			t.Errorf("ext %v: %v", ext, got)
		}
	}
}

// A permission that its policy decides does not interrupt; one that waits does.
func TestPermissionIsHeldBack(t *testing.T) {
	ask := events.PermissionRequest{RequestID: "r", Tool: "bash", Input: json.RawMessage(`{}`)}
	out, _ := play(false, events.Status{State: events.StateWorking}, ask, events.PermissionResolved{RequestID: "r", Outcome: "allowed", By: "policy"})
	if len(out) != 1 {
		t.Errorf("%+v", out)
	}
	out, snap := play(false, events.Status{State: events.StateWorking}, ask, events.Status{State: events.StateNotice}, events.PermissionResolved{RequestID: "r", Outcome: "allowed", By: "host"})
	if len(out) != 3 || out[1].status.State != spec.StateInputRequired || out[2].status.State != spec.StateWorking || len(snap.result().History) != 1 {
		t.Errorf("%+v", out)
	}
	tr := newTranslator("run", "ctx", "simulate", false)
	tr.event(events.Event{ID: 1, Data: ask})
	if got := tr.settle(func(string) bool { return false }); len(got) != 0 {
		t.Errorf("one that is not open: %+v", got)
	}
	if got := tr.settle(func(string) bool { return true }); len(got) != 1 || got[0].status.State != spec.StateInputRequired {
		t.Errorf("one that is open: %+v", got)
	}
}

// Two questions at once: the task works again when both are answered.
func TestTwoQuestions(t *testing.T) {
	out, _ := play(false, events.Status{State: events.StateWorking},
		events.InputRequired{RequestID: "a", Message: "A?"}, events.InputRequired{RequestID: "b", Message: "B?"},
		events.InputResolved{RequestID: "a"}, events.InputResolved{RequestID: "b"})
	var states []spec.TaskState
	for _, u := range out {
		states = append(states, u.status.State)
	}
	want := []spec.TaskState{spec.StateWorking, spec.StateInputRequired, spec.StateInputRequired, spec.StateInputRequired, spec.StateWorking}
	if !slices.Equal(states, want) || *out[3].status.Message.Parts[0].Text != "B?" {
		t.Errorf("%v", states)
	}
}

func TestEnds(t *testing.T) {
	for _, row := range []struct {
		end   events.End
		fail  string
		state spec.TaskState
		words bool
	}{
		{events.End{State: events.Completed, Reason: "end_turn"}, "", spec.StateCompleted, false},
		{events.End{State: events.Completed, Reason: "max_turns"}, "", spec.StateCompleted, true},
		{events.End{State: events.Completed, Reason: "refusal"}, "", spec.StateRejected, true},
		{events.End{State: events.Failed}, events.ErrInvalidRequest, spec.StateRejected, true},
		{events.End{State: events.Failed}, events.ErrAdapterRestarted, spec.StateFailed, true},
		{events.End{State: events.Failed}, events.ErrAuth, spec.StateFailed, true},
		{events.End{State: events.Canceled}, events.ErrCanceled, spec.StateCanceled, true},
	} {
		var list []events.Data
		if row.fail != "" {
			list = append(list, events.NewError(row.fail, "words"))
		}
		out, _ := play(true, append(list, row.end)...)
		last := out[len(out)-1]
		if last.status.State != row.state || (last.status.Message != nil) != row.words || last.meta == nil {
			t.Errorf("%+v %s: %+v", row.end, row.fail, last.status)
		}
	}
}
