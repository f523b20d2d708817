//go:build linux

package hosts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/host"
	"innerd/test/proxy"
)

// played is a request whose agent is simulated.
func scriptRequest(contextID, steps string) host.Request {
	req := host.Prompt(contextID, "go")
	req.Metadata.Backend = "simulate"
	req.Metadata.AgentOptions = json.RawMessage(`{"script":` + steps + `}`)
	return req
}

// Every call of the library, against the server.
func TestClientCalls(t *testing.T) {
	t.Parallel()
	s := newServer(t, "--discover-allow", "127.0.0.1")
	s.Start()
	c, ctx := newClient(t, s), t.Context()
	if h, err := c.WaitHealthy(ctx); err != nil || h.Version == "" || len(h.Backends) == 0 {
		t.Errorf("%+v %v", h, err)
	}
	if err := c.WaitReady(ctx); err != nil {
		t.Error(err)
	}
	o, err := host.Collect(c.Stream(ctx, scriptRequest("talk", `[{"text":"one"},{"tool":{"name":"shell","input":{"command":"x"},"output":"`+strings.Repeat("long ", 1<<18)+`"}},{"text":"two"}]`)))
	if err != nil || o.Err() != nil || o.Text() != "one\n\ntwo" || o.Final() != "two" || o.Usage == nil {
		t.Fatalf("%+v %v", o, err)
	}
	blob := ""
	for ev, err := range c.Follow(ctx, o.TaskID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		var cut struct{ SHA256 string }
		if _, ok := ev.Data.(events.ToolComplete); ok && json.Unmarshal(ev.Raw, &cut) == nil {
			blob = cut.SHA256
		}
	}
	if raw, err := c.Blob(ctx, o.TaskID, blob); err != nil || !strings.Contains(string(raw), "long long") {
		t.Errorf("blob %q: %d bytes, %v", blob, len(raw), err)
	}
	if sent, err := c.Send(ctx, scriptRequest("talk", `[{"text":"sent"}]`).Request); err != nil || sent.Status.State != api.StateCompleted {
		t.Errorf("%+v %v", sent, err)
	}
	all, err := c.Tasks(ctx, host.TaskQuery{ContextID: "talk", PageSize: 10})
	if err != nil || len(all.Tasks) != 2 {
		t.Errorf("%+v %v", all, err)
	}
	convs, err := c.Conversations(ctx)
	if err != nil || len(convs) != 1 || convs[0].ContextID != "talk" {
		t.Fatalf("%+v %v", convs, err)
	}
	if v, err := c.CompactConversation(ctx, convs[0].ID); err != nil || v.ID != convs[0].ID {
		t.Errorf("%+v %v", v, err)
	}
	if v, err := c.CloseConversation(ctx, convs[0].ID); err != nil || v.State != "cold" {
		t.Errorf("%+v %v", v, err)
	}
	if b, err := c.Backends(ctx); err != nil || len(b) < 2 {
		t.Errorf("%+v %v", b, err)
	}
	if _, err := c.Streams(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Delete(ctx, o.TaskID); err != nil {
		t.Error(err)
	}
	var e *host.Error
	if _, err := c.Task(ctx, o.TaskID); !errors.As(err, &e) || e.Status != http.StatusNotFound || e.ErrorType != api.ErrNotFound {
		t.Errorf("a run that was deleted: %v", err)
	}
}

func TestClientAgents(t *testing.T) {
	t.Parallel()
	s := newServer(t, "--discover-allow", "127.0.0.1")
	s.Start()
	c, ctx := newClient(t, s), t.Context()
	var e *host.Error
	if _, err := c.RouteAgent(ctx, "x"); !errors.As(err, &e) || e.Status != http.StatusServiceUnavailable {
		t.Errorf("no agent: %v", err)
	}
	if a, err := c.RegisterAgent(ctx, host.AgentCard{Name: "cook", URL: "http://192.0.2.7/a2a"}); err != nil || a.Name != "cook" {
		t.Fatalf("%+v %v", a, err)
	}
	if _, err := c.RegisterAgent(ctx, host.AgentCard{Name: "cook"}); !errors.As(err, &e) || e.Status != http.StatusUnprocessableEntity {
		t.Errorf("no URL: %v", err)
	}
	if a, err := c.DiscoverAgent(ctx, s.URL()); err != nil || a.Name == "" || len(a.Raw) < 50 {
		t.Errorf("the server's own card: %+v %v", a, err)
	}
	if all, err := c.Agents(ctx); err != nil || len(all) != 2 {
		t.Errorf("%+v %v", all, err)
	}
	if a, err := c.RouteAgent(ctx, "who is the cook?"); err != nil || a.Name != "cook" {
		t.Errorf("%+v %v", a, err)
	}
	if err := c.RemoveAgent(ctx, "cook"); err != nil {
		t.Error(err)
	}
	if err := c.RemoveAgent(ctx, "cook"); !errors.As(err, &e) || e.Status != http.StatusNotFound {
		t.Errorf("removed twice: %v", err)
	}
}

// Input reaches a turn that runs, and a canceled one ends.
func TestClientSteersAndCancels(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Start()
	c := newClient(t, s)
	req := scriptRequest("", `[{"text":"slowly said text","chunk_bytes":1,"delay_ms":200},{"stall":true}]`)
	steered, canceled := false, false
	o := &host.Outcome{}
	for ev, err := range c.Stream(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		o.Add(ev)
		switch d := ev.Data.(type) {
		case events.MessageDelta:
			if !steered {
				steered = true
				if err := c.Steer(t.Context(), o.TaskID, "look left"); err != nil {
					t.Errorf("steer: %v", err)
				}
			}
		case events.Steered:
			if d.Text != "look left" {
				t.Errorf("%+v", d)
			}
			canceled = true
			if task, err := c.Cancel(t.Context(), o.TaskID, "enough"); err != nil || task.Status.State != api.StateCanceled {
				t.Errorf("%+v %v", task, err)
			}
		}
	}
	if !canceled || o.State != events.Canceled || o.Failure == nil {
		t.Errorf("steered and canceled: %v; %+v", canceled, o)
	}
	var e *host.Error
	if err := c.Steer(t.Context(), o.TaskID, "too late"); !errors.As(err, &e) || e.Status != http.StatusConflict {
		t.Errorf("a run that is over: %v", err)
	}
}

// A server that is killed in the middle of a turn and comes back has closed the
// run: the stream goes on there and ends with what happened.
func TestStreamOverAKilledServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Start()
	c, err := host.NewLazy(func(context.Context) (string, error) { return s.URL(), nil }, &host.Options{Key: s.Key(), MinBackoff: 5 * time.Millisecond, Transport: checked(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdleConnections()
	killed := false
	o := &host.Outcome{}
	last := int64(0)
	for ev, err := range c.Stream(t.Context(), scriptRequest("", `[{"text":"before the end","chunk_bytes":6},{"stall":true}]`)) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.ID != last+1 {
			t.Errorf("event %d after %d", ev.ID, last)
		}
		last = ev.ID
		if o.Add(ev); o.Shown == "before the end" && !killed {
			killed = true
			s.Kill()
			s.Start() // at another port
		}
	}
	if o.State != events.Failed || o.Failure == nil || o.Failure.ErrorType != events.ErrAdapterRestarted || o.Text() != "before the end" {
		t.Errorf("%+v", o)
	}
}

// A stream of the real server, cut a hundred times at random: every event once.
func TestRealStreamCutAHundredTimes(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Start()
	rapid.Check(t, func(rt *rapid.T) {
		limits := rapid.SliceOfN(rapid.Int64Range(0, 900), 100, 100).Draw(rt, "limits")
		cut := proxy.New(t, s.URL, proxy.Cuts(limits...)...)
		c, err := host.New(cut.URL(), &host.Options{Key: s.Key(), MinBackoff: 1, MaxBackoff: time.Millisecond, Transport: checked(t)})
		if err != nil {
			rt.Fatal(err)
		}
		defer c.CloseIdleConnections()
		calls := 0
		req := scriptRequest("", `[{"flood":{"deltas":600,"bytes":30}},{"call":{"tool":"t","arguments":{}}},{"text":"over"}]`)
		req.Tools = []host.ToolDef{host.Tool("t", "", func(context.Context, struct{}) (string, error) { calls++; return "r", nil })}
		o, last := &host.Outcome{}, int64(0)
		for ev, err := range c.Stream(t.Context(), req) {
			if err != nil {
				rt.Fatalf("after event %d: %v", last, err)
			}
			if ev.ID == 0 {
				continue
			}
			if ev.ID != last+1 {
				rt.Fatalf("event %d after %d", ev.ID, last)
			}
			last = ev.ID
			o.Add(ev)
		}
		if o.Err() != nil || o.Final() != "over" || calls != 1 || strings.Join(o.Messages, "") != o.Shown || len(o.Shown) < 600*30 {
			rt.Fatalf("%v; %d bytes, %d calls", o.Err(), len(o.Shown), calls)
		}
	})
}

// The rate of one stream, from the server as it is released.
func BenchmarkRealStream(b *testing.B) {
	s := newServer(b)
	s.Start()
	c := newClient(b, s)
	const n = 1_000_000
	total := 0
	for b.Loop() {
		for ev, err := range c.Stream(b.Context(), scriptRequest("", fmt.Sprintf(`[{"flood":{"deltas":%d,"bytes":40}}]`, n))) {
			if err != nil {
				b.Fatal(err)
			}
			if ev.ID > 0 {
				total++
			}
		}
	}
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "events/s")
}
