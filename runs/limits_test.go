package runs_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"innerd/backends"
	"innerd/events"
	"innerd/runs"
	"innerd/toolbridge"
)

func lent(names ...string) func(*runs.Spec) {
	return func(s *runs.Spec) {
		for _, n := range names {
			s.Settings.Tools = append(s.Settings.Tools, backends.Tool{Name: n, Schema: json.RawMessage(`{"type":"object"}`), Parallel: true})
		}
	}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// TestToolCallLimitOnBothRoads: native calls, calls by callback and calls over
// MCP count together, and the one above the limit is not made.
func TestToolCallLimitOnBothRoads(t *testing.T) {
	bridge := toolbridge.New(nil)
	t.Cleanup(bridge.Close)
	srv := httptest.NewServer(bridge.MCPHandler())
	t.Cleanup(srv.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	var refused string
	b := &played{name: "played"}
	b.run = func(ctx context.Context, _ backends.Input, h backends.Host, a *playedAgent) (backends.Outcome, error) {
		h.Emit(events.Event{Data: events.ToolCall{ID: "n1", Name: "Bash"}})
		h.Emit(events.Event{Data: events.ToolComplete{ID: "n1", Success: true}})
		if _, err := h.Request(ctx, events.Request{Kind: events.KindTool, Tool: "host", Input: json.RawMessage("{}")}).Wait(); err != nil {
			return backends.Outcome{}, err
		}
		cl := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
		cs, err := cl.Connect(context.WithoutCancel(ctx), &mcp.StreamableClientTransport{
			Endpoint: a.cfg.MCP.URL, HTTPClient: &http.Client{Transport: bearer(a.cfg.MCP.Token)},
		}, nil)
		if err != nil {
			return backends.Outcome{}, err
		}
		defer cs.Close()
		for range 2 {
			res, err := cs.CallTool(context.WithoutCancel(ctx), &mcp.CallToolParams{Name: "host", Arguments: map[string]any{}})
			if err != nil {
				return backends.Outcome{}, err
			}
			if res.IsError {
				refused = res.Content[0].(*mcp.TextContent).Text
			}
		}
		return backends.Outcome{}, context.Cause(ctx)
	}
	w := playing(t, b, func(w *world) { w.bridge, w.mcp = bridge, srv.URL })
	run := w.begin(by("played"), lent("host"), func(s *runs.Spec) { s.ToolCallLimit = 3 })
	answered := 0
	cursor, err := run.Log().Follow(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer cursor.Close()
	for e, err := range cursor.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if q, ok := e.Data.(events.ToolRequest); ok {
			answered++
			w.m.ToolResult("me", q.ToolCallID, toolbridge.Result{Result: "ok"})
		}
	}
	task := w.await(run)
	if task.State != "completed" || task.Reason != backends.ReasonToolCallLimit || answered != 2 || !strings.Contains(refused, "limit") {
		t.Errorf("%s %s, %d requests, refused %q", task.State, task.Reason, answered, refused)
	}
}

// TestMaxCost: the cost of model turns is counted as it comes, and ends the run
// as completed; an agent that can stop by itself is told the limit.
func TestMaxCost(t *testing.T) {
	var told float64
	for name, obeys := range map[string]bool{"the agent goes on": false, "the agent ends first": true} {
		t.Run(name, func(t *testing.T) {
			b := &played{name: "played"}
			b.run = func(ctx context.Context, in backends.Input, h backends.Host, _ *playedAgent) (backends.Outcome, error) {
				told = in.Set.MaxCost
				for i := range 3 {
					cost, n := 0.02, int64(10)
					say(h, strings.Repeat("x", i+1))
					h.Emit(events.Event{Data: events.TurnUsage{Usage: events.Usage{Cost: &cost, InputTokens: &n, Model: "m"}}})
					if ctx.Err() != nil && !obeys {
						return backends.Outcome{}, context.Cause(ctx)
					}
				}
				return backends.Outcome{Reason: backends.ReasonEndTurn, Stored: true}, nil
			}
			w := playing(t, b)
			task := w.run(by("played"), func(s *runs.Spec) { s.MaxCostUSD = 0.04 })
			if task.State != "completed" || task.Reason != backends.ReasonMaxCost || told != 0.04 {
				t.Errorf("%s %s, told %v", task.State, task.Reason, told)
			}
			if u := task.Usage; !obeys && (u.Cost == nil || *u.Cost != 0.04 || *u.InputTokens != 20 || *u.TotalTokens != 20 || u.Model != "m") {
				t.Errorf("usage %+v", u)
			}
			if task := w.run(by("played")); task.Reason != backends.ReasonEndTurn {
				t.Errorf("without a limit: %s", task.Reason)
			}
		})
	}
}

// TestToolChoiceNone: no tool of the host's is offered, on either road, and none
// is lent to ask the user.
func TestToolChoiceNone(t *testing.T) {
	var got backends.Settings
	b := &played{name: "played", can: backends.Capabilities{Tools: true}}
	b.run = func(_ context.Context, in backends.Input, h backends.Host, _ *playedAgent) (backends.Outcome, error) {
		got = in.Set
		say(h, "x")
		return backends.Outcome{}, nil
	}
	w := playing(t, b)
	for choice, want := range map[string]int{`"none"`: 0, `{"type":"none"}`: 0, `"auto"`: 2, `null`: 2, `7`: 2} {
		w.run(by("played"), lent("host"), func(s *runs.Spec) {
			s.Settings.ToolChoice, s.Settings.Interactive = json.RawMessage(choice), true
		})
		if len(got.Tools) != want || string(got.ToolChoice) != choice {
			t.Errorf("%s: %d tools, choice %s", choice, len(got.Tools), got.ToolChoice)
		}
	}
}

// TestReasons: what ended a turn that did not fail is what the agent says.
func TestReasons(t *testing.T) {
	for _, reason := range []string{
		backends.ReasonEndTurn, backends.ReasonMaxTokens, backends.ReasonRefusal, backends.ReasonStopSequence,
		backends.ReasonToolCallLimit, backends.ReasonMaxTurns, backends.ReasonMaxCost,
	} {
		b := &played{name: "played", run: func(_ context.Context, in backends.Input, h backends.Host, _ *playedAgent) (backends.Outcome, error) {
			if in.Set.MaxTurns != 4 {
				t.Errorf("max_turns %d", in.Set.MaxTurns)
			}
			say(h, "x")
			return backends.Outcome{Reason: reason}, nil
		}}
		task := playing(t, b).run(by("played"), func(s *runs.Spec) { s.Settings.MaxTurns, s.Timeout = 4, time.Minute })
		if task.State != "completed" || task.Reason != reason {
			t.Errorf("%s: %s %s", reason, task.State, task.Reason)
		}
	}
}
