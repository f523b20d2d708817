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
	log := slog.New(slog.DiscardHandler)
	store, err := journal.Open("", &journal.Options{Logger: log, Closing: runs.Closing})
	if err != nil {
		t.Fatal(err)
	}
	m, err := runs.New(runs.Options{
		Store: store, Bridge: toolbridge.New(&toolbridge.Options{Logger: log}), Default: simulate.Name, OpenServer: true, Logger: log,
		Backends: []backends.Backend{simulate.New(&simulate.Options{})},
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
