//go:build linux

package hosts_test

import (
	"testing"
	"time"

	"innerd/events"
	"innerd/test/server"
)

// manual is a host whose tools take as long as the test says.
type manual struct {
	task  chan string
	tool  func() any
	calls int
}

func newManual(tool func() any) *manual { return &manual{task: make(chan string, 1), tool: tool} }

func (m *manual) started(id string) { m.task <- id }
func (m *manual) call(string) any   { m.calls++; return m.tool() }
func (m *manual) question() any     { return nil }

// fieldRequest is what the host in the field sends, to a simulated agent.
func fieldRequest(contextID string, steps string) map[string]any {
	return map[string]any{
		"context_id": contextID, "messages": []any{message("user", "go")},
		"metadata": map[string]any{
			"backend": "simulate", "agent_options": map[string]any{"script": rawJSON(steps)}, "model": nil, "tool_call_limit": nil,
			"native_tool_schemas": []any{map[string]any{"name": "slow", "description": "takes long", "parameters": map[string]any{"type": "object"}}},
		},
	}
}

type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// The host that is in the field has no key, and does not read while it runs a
// tool: for longer than its own time-out of a read, while more comes than a
// socket holds. It then gets all of it.
func TestFieldHostDoesNotReadWhileAToolRuns(t *testing.T) {
	t.Parallel()
	s := newServer(t, "--auth", "off")
	s.Start()
	f := newFieldHost(t, s, "")
	takes := 11 * time.Second
	if long() {
		takes = 5 * time.Minute // longer than any time-out on the way
	}
	m := newManual(func() any { time.Sleep(takes); return map[string]any{"result": "at last"} })
	got, breaker := f.run(order{
		ReadTimeout: 10, // s; a busy machine may be still for longer than a second
		Request:     fieldRequest("c", `[{"calls":[{"tool":"slow","arguments":{"i":1}},{"tool":"slow","arguments":{"i":2}}]},{"flood":{"deltas":40000,"bytes":400}},{"text":"The end."}]`),
	}, m)
	if got.Failed || got.Text != "The end." || m.calls != 2 || len(got.Usage) != 1 || breaker.Failures != 0 {
		t.Errorf("%.300q, failed %v (%s), %d calls, %d usages, breaker %+v", got.Text, got.Failed, got.Why, m.calls, len(got.Usage), breaker)
	}
	check(t, got, logOf(t, s, got.TaskID))
}

// logOf is the whole log of a run that has ended.
func logOf(t testing.TB, s *server.Server, taskID string) (log []events.Event) {
	t.Helper()
	for ev, err := range newClient(t, s).Follow(t.Context(), taskID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.ID > 0 {
			log = append(log, ev)
		}
	}
	return log
}

// Hanging up is its only cancel: the run ends, as disconnected, and the breaker
// knows nothing of it.
func TestFieldHostHangsUp(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Start()
	f := newFieldHost(t, s, s.Key())
	r := fieldRequest("c", `[{"text":"I begin and","chunk_bytes":4},{"stall":true}]`)
	r["metadata"].(map[string]any)["detach_grace_s"] = 0.1
	got, breaker := f.run(order{HangUpAt: "assistant.message_delta", Request: r}, newManual(nil))
	if !got.HungUp || breaker.Failures != 0 || breaker.State != "closed" {
		t.Errorf("%+v, breaker %+v", got, breaker)
	}
	c := newClient(t, s)
	server.Eventually(t, "the run has ended, which who reads its log would keep alive", func() bool {
		task, err := c.Task(t.Context(), got.TaskID)
		return err == nil && task.Status.State == "canceled"
	})
	log := logOf(t, s, got.TaskID)
	end, _ := log[len(log)-1].Data.(events.End)
	if end.State != events.Canceled || end.Reason != "disconnected" {
		t.Errorf("%+v", end)
	}
	got, _ = f.run(order{Request: fieldRequest("c", `[{"text":"I am here."}]`)}, newManual(nil))
	if got.Failed || got.Text != "I am here." {
		t.Errorf("the next run: %+v", got)
	}
}

// A server that is killed is a failure of the connection, also while the host
// runs a tool; five of them open the breaker.
func TestFieldHostAndAKilledServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Start()
	f := newFieldHost(t, s, s.Key())
	m := newManual(func() any { s.Kill(); return nil })
	got, breaker := f.run(order{Request: fieldRequest("c", `[{"text":"I call."},{"call":{"tool":"slow","arguments":{}}}]`)}, m)
	if !got.Failed || got.Text != "I call." || len(got.Usage) != 0 || breaker != (breakerState{"closed", 1, 0}) {
		t.Errorf("%+v, breaker %+v", got, breaker)
	}
	for i := range 4 {
		_, breaker = f.run(order{URL: s.URL(), Request: fieldRequest("c", `[]`)}, m)
		if breaker.Failures != i+2 {
			t.Errorf("breaker %+v", breaker)
		}
	}
	if breaker.State != "open" || breaker.Left < 30 || breaker.Left > 60 {
		t.Errorf("breaker %+v", breaker)
	}
	s.Start()
	f.moved(s.URL())
	if got, _ := f.run(order{Request: fieldRequest("c", `[{"text":"x"}]`)}, m); !got.Refused {
		t.Errorf("the breaker let it through: %+v", got)
	}
	// Another host's works: the server has closed the run, and says so.
	log := logOf(t, s, <-m.task)
	if e, ok := log[len(log)-2].Data.(events.Error); !ok || e.ErrorType != events.ErrAdapterRestarted {
		t.Errorf("the killed run ended with %+v", log[len(log)-2])
	}
	got, breaker = newFieldHost(t, s, s.Key()).run(order{Request: fieldRequest("c", `[{"text":"Back again."}]`)}, newManual(nil))
	if got.Failed || got.Text != "Back again." || breaker.Failures != 0 {
		t.Errorf("%+v, breaker %+v", got, breaker)
	}
}
