package runs

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"innerd/events"
	"innerd/events/journal"
	"innerd/toolbridge"
)

// States of a task.
const (
	TaskSubmitted     = "submitted"
	TaskWorking       = "working"
	TaskInputRequired = "input_required"
)

// Task is TaskFor somebody who waits for as long as it takes.
func (r *Run) Task() (Task, error) { return r.TaskFor(context.Background()) }

// TaskFor folds the run's log into what GET /tasks/{id} shows. It may take
// several times Weight of memory, and gives up with the cause of ctx: of a large
// one much is left to do for a caller that is not there any more.
func (r *Run) TaskFor(ctx context.Context) (Task, error) {
	t := r.task()
	if ctx.Err() != nil {
		return t, context.Cause(ctx)
	}
	t.History = r.history()
	for e, err := range r.log.Until(ctx, 0, r.log.Last(), folded) {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return t, err
		}
		t.fold(e)
	}
	return t, nil
}

// Weight is about how many bytes the run's task may have, at the most.
func (r *Run) Weight() int64 { return r.log.Bytes() }

// task is what is known of the run without reading its files.
func (r *Run) task() Task {
	meta := r.log.Meta()
	t := Task{
		ID: meta.ID, ContextID: meta.ContextID, Backend: meta.Backend, Owner: meta.Owner,
		State: TaskWorking, Timestamp: meta.Created, LastEventID: r.log.Last(),
	}
	if r.live != nil {
		r.live.fill(&t)
	}
	return t
}

// folded are the types that a task is made of; the many deltas are not.
func folded(t events.Type) bool {
	switch t {
	case events.TypeMessage, events.TypeDiscarded, events.TypeUsage, events.TypeError, events.TypeEnd:
		return true
	}
	return false
}

func (t *Task) fold(e events.Event) {
	switch d := e.Data.(type) {
	case events.Message:
		t.Messages = append(t.Messages, d)
	case events.Discarded:
		t.Messages = slices.DeleteFunc(t.Messages, func(m events.Message) bool { return m.MessageID == d.MessageID })
	case events.Usage:
		t.Usage = &d
	case events.Error:
		t.Error = &d
	case events.End:
		t.State, t.Reason, t.Output, t.Timestamp = d.State, d.Reason, d.Output, time.UnixMilli(e.TS)
		t.Pending, t.Canceling, t.LastEventID = nil, false, e.ID
		if d.Usage != nil {
			t.Usage = d.Usage
		}
	}
}

// fill adds what only a live run knows.
func (l *live) fill(t *Task) {
	l.mu.Lock()
	t.Canceling = l.canceling
	started := l.started
	l.mu.Unlock()
	for _, p := range l.sess.Pending() {
		t.Pending = append(t.Pending, l.rec.redact.pending(pending(p)))
	}
	switch {
	case !started:
		t.State = TaskSubmitted
	case l.asks.Load() > 0:
		t.State = TaskInputRequired
	}
}

func pending(p toolbridge.PendingInfo) Pending {
	return Pending{Kind: p.Kind, ID: p.ID, Tool: p.Tool, Input: p.Input, Message: p.Message, Schema: p.Schema}
}

func (r *Run) history() []HistoryEntry {
	raw, err := r.log.Request()
	if err != nil {
		return nil
	}
	var rec storedRequest
	if json.Unmarshal(raw, &rec) != nil {
		return nil
	}
	return rec.History
}

// state is the run's state without reading its log.
func (m *Manager) stateOf(info journal.Info) string {
	if info.End != nil {
		return info.End.State
	}
	m.mu.Lock()
	run := m.runs[info.ID]
	m.mu.Unlock()
	if run == nil {
		return TaskWorking
	}
	t := Task{State: TaskWorking}
	run.live.fill(&t)
	return t.State
}
