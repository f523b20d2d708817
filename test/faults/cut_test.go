//go:build linux

package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"innerd/events"
	"innerd/host"
	"innerd/test/ledger"
	"innerd/test/modelstub"
	"innerd/test/proxy"
)

// hosted is a request of our own host client.
func hosted(b map[string]any, tools ...host.ToolDef) (req host.Request, err error) {
	raw, err := json.Marshal(b)
	if err == nil {
		err = json.Unmarshal(raw, &req.Request)
	}
	req.Tools = tools
	return req, err
}

// impatient is a host client that does not wait long between two connections.
func (r *rig) impatient(url string) *host.Client {
	r.T.Helper()
	c, err := host.New(url, &host.Options{Key: r.Key(), MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond})
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(c.CloseIdleConnections)
	return c
}

// line is an event of the host client as its line in the log.
func line(e events.Event) []byte {
	return fmt.Appendf(nil, `{"id":%d,"ts":%d,"type":%q,"data":%s}`, e.ID, e.TS, e.Type(), e.Raw)
}

// listen gives what our host client reads to a reader of a ledger.
func listen(to *ledger.Reader, stream func(func(events.Event, error) bool)) (task string, err error) {
	for e, err := range stream {
		if err != nil {
			return task, err
		}
		if d, ok := e.Data.(events.TaskID); ok {
			task = d.TaskID
		}
		if e.ID > 0 {
			to.Add(e.ID, line(e))
		}
	}
	return task, nil
}

// cuts are connections that break at every kind of place, some closed and some
// reset, in any order.
func cuts() (all []proxy.Fault) {
	for _, name := range slices.Sorted(maps.Keys(inFrame)) {
		for _, reset := range []bool{false, true} {
			all = append(all, cut(untilFrame(1+rand.N(3), inFrame[name]), reset))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(elsewhere)) {
		if !strings.Contains(name, "[DONE]") && !strings.Contains(name, "end") {
			all = append(all, cut(elsewhere[name], rand.N(2) == 0))
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// A run is followed over connections that break at every kind of place.
func TestConnectionIsCutAtEveryPlace(t *testing.T) {
	t.Parallel()
	both(t, cutEverywhere)
}

func cutEverywhere(t *testing.T, c *cast) {
	r := c.rig(t).start()
	p := c.actor(t, r).does(t, nil, think("some thought"), paced(1500, 30, 3000), lists(), say("over"))
	task := p.TaskID()
	l := ledger.New()

	t.Run("by hand", func(t *testing.T) {
		began := time.Now()
		n := newNetwork(t, r, cuts()...)
		to := l.Reader("who comes back").Whole()
		read(t, to, func(ctx context.Context) error { return r.comeBack(ctx, to, task, n.URL) }).clean()
		n.allHappened(t)
		c.result(t, "connection cut at every kind of byte, plain reader", r.compare(l, task), began)
	})
	t.Run("host client", func(t *testing.T) {
		began := time.Now()
		l := ledger.New()
		n := newNetwork(t, r, cuts()...)
		if _, err := listen(l.Reader("the host client").Whole(), r.impatient(n.URL()).Follow(t.Context(), task, 0)); err != nil {
			t.Error(err)
		}
		n.allHappened(t)
		c.result(t, "connection cut at every kind of byte, host client", r.compare(l, task), began)
	})
	t.Run("at the end", func(t *testing.T) {
		p.Whole()
		began := time.Now()
		l := ledger.New()
		for _, name := range slices.Sorted(maps.Keys(elsewhere)) {
			for _, reset := range []bool{false, true} {
				n := newNetwork(t, r, cut(elsewhere[name], reset))
				if _, err := listen(l.Reader(name).Whole(), r.impatient(n.URL()).Follow(t.Context(), task, 0)); err != nil {
					t.Errorf("cut %s: %v", name, err)
				}
				n.allHappened(t)
				n = newNetwork(t, r, cut(elsewhere[name], reset))
				to := l.Reader(name + ", by hand").Whole()
				read(t, to, func(ctx context.Context) error { return r.comeBack(ctx, to, task, n.URL) }).clean()
				n.allHappened(t)
			}
		}
		c.result(t, "connection cut in the head, in [DONE] and in the body's end", r.compare(l, task), began)
	})
}

// The same where our host client starts the run, by a POST, lends it a tool, and
// reads what the agent says over such connections.
func TestConnectionIsCutUnderThePost(t *testing.T) {
	t.Parallel()
	both(t, cutUnderThePost)
}

func cutUnderThePost(t *testing.T, c *cast) {
	began := time.Now()
	r := c.rig(t).start()
	n := newNetwork(t, r, cuts()...)
	b := simulate(fmt.Sprintf(`[{"reasoning":"I should look it up."},{"text":%q,"chunk_bytes":8,"delay_ms":2},{"call":{"tool":"lookup","arguments":{"word":"quincunx"}}},{"text":%q,"chunk_bytes":8,"delay_ms":2}]`,
		"I look it up. "+strings.Repeat("Wait a moment. ", 40), "It is five points. "+strings.Repeat("And so on. ", 60)), nil)
	var sc *modelstub.Scenario
	if c.v != nil {
		sc = c.stub.Scenario(
			modelstub.Say(modelstub.Thinking("I should look it up, slowly and thoroughly."), modelstub.Text("I look it up. "+strings.Repeat("Wait a moment. ", 40)).Every(2*time.Millisecond), modelstub.Tool("mcp__host__lookup", map[string]any{"word": "quincunx"})),
			modelstub.Say(modelstub.Text("It is {{tool_result}}. "+strings.Repeat("And so on. ", 60)).Every(2*time.Millisecond)),
		)
		meta := map[string]any{"model": c.v.model, "credentials": map[string]any{"api_key": sc.Key(), "base_url": c.v.base(sc)}}
		b = body(c.v.backend, "What is a quincunx?", meta)
	}
	var runs atomic.Int64
	req, err := hosted(b, host.ToolDef{
		Name: "lookup", Description: "Looks a word up", Schema: json.RawMessage(`{"type":"object","properties":{"word":{"type":"string"}}}`),
		Run: func(context.Context, json.RawMessage) (host.Result, error) {
			runs.Add(1)
			return host.Result{Text: "five points"}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New()
	task, err := listen(l.Reader("the host client").Whole(), r.impatient(n.URL()).Stream(t.Context(), req))
	if err != nil || task == "" {
		t.Fatalf("run %q: %v", task, err)
	}
	did, _ := n.Happened()
	if did < 12 || runs.Load() != 1 {
		t.Errorf("%d connections were cut, the tool ran %d times", did, runs.Load())
	}
	if sc != nil && sc.Count() != 2 {
		t.Errorf("the model was asked %d times", sc.Count())
	}
	if end := r.Follow(t, task, "0").Completed(); !strings.Contains(end.Text(), "five points") {
		t.Errorf("it says %q", end.Text())
	}
	c.result(t, fmt.Sprintf("POST and what follows it cut %d times at every kind of byte, host client", did), r.compare(l, task), began)
}
