package adapter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"innerd/adapter"
	"innerd/backends"
	"innerd/events"
	"innerd/events/journal"
	"innerd/runs"
	"innerd/runs/history"
	"innerd/toolbridge"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(int) { http.DefaultClient.CloseIdleConnections() }))
}

// fake is a domain over a real log; the test plays the agent.
type fake struct {
	store   *journal.Store
	started chan *fakeRun

	mu       sync.Mutex
	runs     map[string]*fakeRun
	specs    []runs.Spec
	startErr error
	onStart  func()
	answers  []any
	err      error // of every other call
	verdict  toolbridge.Verdict
	unknown  map[string]int64 // what the agent said that nobody understood
}

func newFake(t testing.TB) *fake {
	t.Helper()
	store, err := journal.Open(t.TempDir(), &journal.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &fake{store: store, started: make(chan *fakeRun, 16), runs: map[string]*fakeRun{}}
}

func (f *fake) Start(_ context.Context, owner string, spec runs.Spec) (adapter.Run, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.onStart != nil {
		f.onStart()
	}
	if f.startErr != nil {
		return nil, false, f.startErr
	}
	if r := f.runs[spec.TaskID]; r != nil {
		if r.hash != spec.BodyHash {
			return nil, false, runs.ErrConflict
		}
		return r, false, nil
	}
	f.specs = append(f.specs, spec)
	id := spec.TaskID
	if id == "" {
		id = fmt.Sprintf("task-%04d", len(f.specs))
	}
	log, err := f.store.Create(journal.RunMeta{ID: id, Owner: owner, ContextID: spec.ContextID, Backend: "fake", Created: time.Now(), Request: spec.Request})
	if err != nil {
		return nil, false, err
	}
	r := &fakeRun{log: log, hash: spec.BodyHash, began: time.Now(), attached: make(chan int, 1<<16), canceled: make(chan string, 4)}
	f.runs[id] = r
	if _, err := log.Append(events.TaskID{TaskID: id, ContextID: spec.ContextID, Backend: "fake"}); err != nil {
		return nil, false, err
	}
	f.started <- r
	return r, true, nil
}

func (f *fake) Get(owner, id string) (adapter.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[id]
	if r == nil || r.log.Meta().Owner != owner {
		return nil, runs.ErrNotFound
	}
	return r, nil
}

func (f *fake) note(v any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers = append(f.answers, v)
	return f.err
}

func (f *fake) last() any {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.answers) == 0 {
		return nil
	}
	return f.answers[len(f.answers)-1]
}

func (f *fake) spec(t *testing.T) runs.Spec {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.specs) == 0 {
		t.Fatal("nothing was started")
	}
	return f.specs[len(f.specs)-1]
}

func (f *fake) List(owner string, q runs.Query) ([]runs.Task, string, error) {
	if err := f.note(q); err != nil {
		return nil, "", err
	}
	return []runs.Task{{ID: "t1", Owner: owner, State: "completed"}}, "next", nil
}

func (f *fake) Delete(owner, id string) error {
	if _, err := f.Get(owner, id); err != nil {
		return err
	}
	return f.note("delete " + id)
}

func (f *fake) Conversations(owner string) []runs.ConversationInfo {
	return []runs.ConversationInfo{{ID: "conv1", ContextID: "c " + owner, Backend: "fake", State: "idle"}}
}

func (f *fake) CloseConversation(_ context.Context, _, id string) (runs.ConversationInfo, error) {
	if id != "conv1" {
		return runs.ConversationInfo{}, runs.ErrNotFound
	}
	return runs.ConversationInfo{ID: id, State: "cold"}, f.note("close " + id)
}

func (f *fake) CompactConversation(_ context.Context, _, id string) (runs.ConversationInfo, error) {
	if id != "conv1" {
		return runs.ConversationInfo{}, runs.ErrNotFound
	}
	return runs.ConversationInfo{ID: id, State: "idle"}, f.note("compact " + id)
}

func (f *fake) Steer(_ context.Context, _, id string, msgs []history.Message) (adapter.Run, error) {
	return answeredRun{id: id}, f.note(msgs)
}

func (f *fake) Backends(context.Context) []runs.BackendInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []runs.BackendInfo{{Name: "fake", Status: backends.Status{Usable: true, Version: "1", Capabilities: backends.Capabilities{Tools: true}}, Unknown: f.unknown}}
}

func (f *fake) ToolResult(owner, id string, r toolbridge.Result) toolbridge.Verdict {
	_ = f.note([]any{owner, id, r})
	return f.verdict
}

func (f *fake) Answer(_, id, request string, r toolbridge.Reply) (adapter.Run, error) {
	return answeredRun{id: id}, f.note([]any{request, r})
}

func (f *fake) ReplyText(_, id, request, text string, _ json.RawMessage) (adapter.Run, error) {
	return answeredRun{id: id}, f.note([]any{request, text})
}

// answeredRun is a run that took an answer: all that it has is an id.
type answeredRun struct {
	adapter.Run
	id string
}

func (r answeredRun) Weight() int64                              { return 0 }
func (r answeredRun) TaskFor(context.Context) (runs.Task, error) { return runs.Task{ID: r.id}, nil }

type fakeRun struct {
	log      *journal.Log
	hash     string
	began    time.Time
	open     atomic.Bool
	attached chan int // +1, -1
	canceled chan string
	slow     bool // a cancel does not end in time
	taskErr  error
	folds    atomic.Int64
}

func (r *fakeRun) ID() string             { return r.log.ID() }
func (r *fakeRun) Log() *journal.Log      { return r.log }
func (r *fakeRun) OpenToolRequests() bool { return r.open.Load() }
func (r *fakeRun) Done() <-chan struct{}  { return r.log.Done() }
func (r *fakeRun) Started() time.Time     { return r.began }

func (r *fakeRun) Attach() func() {
	r.attached <- 1
	return func() { r.attached <- -1 }
}

func (r *fakeRun) Cancel(_ context.Context, reason string) (bool, error) {
	if _, ended := r.log.Ended(); ended {
		return true, runs.ErrEnded
	}
	r.canceled <- reason
	return !r.slow, nil
}

func (r *fakeRun) Weight() int64 { return r.log.Bytes() }

func (r *fakeRun) TaskFor(ctx context.Context) (runs.Task, error) {
	r.folds.Add(1)
	t := runs.Task{ID: r.ID(), ContextID: r.log.Meta().ContextID, Backend: "fake", State: "working", LastEventID: r.log.Last()}
	for e, err := range r.log.Until(ctx, 0, r.log.Last(), nil) {
		if err != nil {
			return t, err
		}
		switch d := e.Data.(type) {
		case events.Message:
			t.Messages = append(t.Messages, d)
		case events.Error:
			t.Error = &d
		case events.End:
			t.State, t.Reason = d.State, d.Reason
		}
	}
	return t, r.taskErr
}

// say appends events; end ends the run with them.
func (r *fakeRun) say(t testing.TB, list ...events.Data) {
	t.Helper()
	for _, d := range list {
		if _, err := r.log.Append(d); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *fakeRun) end(t testing.TB, list ...events.Data) {
	t.Helper()
	list = append(list, events.Usage{Model: "m"}, events.End{State: events.Completed, Reason: "end_turn"})
	if err := r.log.End(list, journal.RunEnd{State: events.Completed, Ended: time.Now()}); err != nil {
		t.Fatal(err)
	}
}

func delta(s string) events.Data { return events.MessageDelta{Delta: s, MessageID: "m1"} }
