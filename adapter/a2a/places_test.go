package a2a_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"innerd/adapter"
	"innerd/adapter/a2a"
	"innerd/adapter/a2a/extension"
	"innerd/adapter/a2a/spec"
	"innerd/backends"
	"innerd/backends/simulate"
	"innerd/events/journal"
	"innerd/runs"
	"innerd/toolbridge"
)

// places are those of answers that last: how many are taken, and whether none
// is left.
type places struct {
	taken atomic.Int64
	full  atomic.Bool
}

func (p *places) hold(context.Context) (leave func(), err error) {
	if p.full.Load() {
		return nil, errors.New("no place")
	}
	p.taken.Add(1)
	return func() { p.taken.Add(-1) }, nil
}

// served is a server with the simulated agent, in memory.
func served(t *testing.T, p *places, intercept func(context.Context, *spec.SendMessageRequest, *runs.Spec) *spec.Message) *a2a.Server {
	t.Helper()
	return servedIn(t, "", p, intercept)
}

// servedIn is served with its state in a directory.
func servedIn(t *testing.T, dir string, p *places, intercept func(context.Context, *spec.SendMessageRequest, *runs.Spec) *spec.Message) *a2a.Server {
	t.Helper()
	return servedBy(t, simulate.New(&simulate.Options{}), dir, p, intercept)
}

// servedBy is servedIn with another agent of that name.
func servedBy(t *testing.T, agent backends.Backend, dir string, p *places, intercept func(context.Context, *spec.SendMessageRequest, *runs.Spec) *spec.Message) *a2a.Server {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := journal.Open(dir, &journal.Options{Logger: log, Closing: runs.Closing})
	if err != nil {
		t.Fatal(err)
	}
	m, err := runs.New(runs.Options{
		Store: store, Bridge: toolbridge.New(&toolbridge.Options{Logger: log}), Default: simulate.Name, OpenServer: true, Logger: log,
		Backends: []backends.Backend{agent},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(m.Shutdown(ctx), store.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := m.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := a2a.New(a2a.Options{Owner: adapter.Owner, Spec: adapter.SpecOf, BaseURL: adapter.BaseURL, Open: true, Logger: log, Hold: p.hold, Intercept: intercept})
	if err != nil {
		t.Fatal(err)
	}
	s.Use(m, store)
	return s
}

// words is a message that has the agent play steps.
func words(t *testing.T, taskID, text, steps string) *spec.SendMessageRequest {
	t.Helper()
	msg := &spec.Message{MessageID: "m", TaskID: taskID, Role: spec.RoleUser, Parts: []spec.Part{spec.Text(text)}}
	if steps != "" {
		raw, err := json.Marshal(map[string]any{extension.URI: map[string]any{"agent_options": map[string]any{"script": json.RawMessage(steps)}}})
		if err != nil {
			t.Fatal(err)
		}
		msg.Metadata = raw
	}
	return &spec.SendMessageRequest{Message: msg}
}

// An answer that has come in is acknowledged, also where nothing that lasts has
// a place any more: who was refused would send it again.
func TestAnswersAreNotRefusedForAPlace(t *testing.T) {
	p := &places{}
	s := served(t, p, nil)
	for name, send := range map[string]func(*spec.SendMessageRequest) (*spec.Task, error){
		"waits": func(req *spec.SendMessageRequest) (*spec.Task, error) {
			r, err := s.SendMessage(t.Context(), a2a.Call{}, req)
			if err != nil {
				return nil, err
			}
			return r.Task, nil
		},
		"streams": func(req *spec.SendMessageRequest) (*spec.Task, error) {
			st, err := s.SendStreamingMessage(t.Context(), a2a.Call{}, req)
			if err != nil {
				return nil, err
			}
			defer st.Close()
			first, err := st.Next(t.Context())
			if err != nil {
				return nil, err
			}
			if more, err := st.Next(t.Context()); !errors.Is(err, io.EOF) {
				t.Errorf("streams: goes on without a place: %+v, %v", more, err)
			}
			return first.Task, nil
		},
	} {
		p.full.Store(false)
		r, err := s.SendMessage(t.Context(), a2a.Call{}, words(t, "", "go", `[{"ask":{"message":"which?"}},{"ask":{"message":"and then?"}}]`))
		if err != nil || r.Task == nil || r.Task.Status.State != spec.StateInputRequired {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		p.full.Store(true)
		got, err := send(words(t, r.Task.ID, "this one", ""))
		if err != nil || got == nil || got.ID != r.Task.ID {
			t.Errorf("%s: an answer that came in: %+v, %v", name, got, err)
		}
		if _, err := send(words(t, "", "another task", "")); err == nil {
			t.Errorf("%s: a new task began without a place", name)
		}
	}
	if n := p.taken.Load(); n != 0 {
		t.Errorf("%d places are still taken", n)
	}
}

// A panic gives the place back.
func TestPanicsKeepNoPlace(t *testing.T) {
	p := &places{}
	s := served(t, p, func(context.Context, *spec.SendMessageRequest, *runs.Spec) *spec.Message { panic("on purpose") })
	for name, send := range map[string]func(){
		"waits":   func() { _, _ = s.SendMessage(t.Context(), a2a.Call{}, words(t, "", "go", "")) },
		"streams": func() { _, _ = s.SendStreamingMessage(t.Context(), a2a.Call{}, words(t, "", "go", "")) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: there was no panic", name)
				}
			}()
			send()
		}()
		if n := p.taken.Load(); n != 0 {
			t.Errorf("%s: %d places are still taken", name, n)
		}
	}
}

// A stream holds a place as long as it is open, whatever it came with: also with
// the result of a tool alone, for which SendMessage does not wait. The result
// comes in where no place is left, and is answered with the task as it is.
func TestStreamsOfResultsHoldAPlace(t *testing.T) {
	for _, full := range []bool{false, true} {
		p := &places{}
		s := served(t, p, nil)
		c := a2a.Call{Ext: true}
		st, err := s.SendStreamingMessage(t.Context(), c, calling(t, `[{"call":{"tool":"lookup","arguments":{}}},{"ask":{"message":"which?"}}]`))
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		task, call := requested(t, st)
		p.full.Store(full)
		req := words(t, task, "", "")
		req.Message.Parts = []spec.Part{{Data: json.RawMessage(`{"toolCallId":"` + call + `","result":"found"}`)}}
		more, err := s.SendStreamingMessage(t.Context(), c, req)
		if err != nil {
			t.Fatal(err)
		}
		want := int64(2)
		if full {
			want = 1
		}
		if n := p.taken.Load(); n != want {
			t.Errorf("full %v: %d places are taken by the two streams", full, n)
		}
		if last := drained(t, more); full == (last == spec.StateInputRequired) {
			t.Errorf("full %v: the stream of the result ended in %s", full, last)
		}
		more.Close()
		if last := drained(t, st); last != spec.StateInputRequired {
			t.Errorf("full %v: the result did not come in: %s", full, last)
		}
		st.Close()
		if n := p.taken.Load(); n != 0 {
			t.Errorf("full %v: %d places are still taken", full, n)
		}
	}
}

// calling is a message that has the agent play steps, with a tool of the client's.
func calling(t *testing.T, steps string) *spec.SendMessageRequest {
	t.Helper()
	raw, err := json.Marshal(map[string]any{extension.URI: map[string]any{
		"agent_options":       map[string]any{"script": json.RawMessage(steps)},
		"native_tool_schemas": []any{map[string]any{"name": "lookup", "description": "looks up", "parameters": map[string]any{"type": "object"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	req := words(t, "", "go", "")
	req.Message.Metadata = raw
	return req
}

// requested reads a stream up to the call of a client's tool.
func requested(t *testing.T, st *a2a.Stream) (task, call string) {
	t.Helper()
	for {
		r, err := st.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Task != nil {
			task = r.Task.ID
		}
		if r.StatusUpdate == nil || r.StatusUpdate.Status.Message == nil {
			continue
		}
		for _, part := range r.StatusUpdate.Status.Message.Parts {
			var e extension.Event
			if json.Unmarshal(part.Data, &e) == nil && e.HostTool != nil {
				return task, e.HostTool.ID
			}
		}
	}
}

// drained reads a stream to its end, and gives the task's last state in it.
func drained(t *testing.T, st *a2a.Stream) (last spec.TaskState) {
	t.Helper()
	for {
		r, err := st.Next(t.Context())
		switch {
		case errors.Is(err, io.EOF):
			return last
		case err != nil:
			t.Fatal(err)
		case r.Task != nil:
			last = r.Task.Status.State
		case r.StatusUpdate != nil:
			last = r.StatusUpdate.Status.State
		}
	}
}
