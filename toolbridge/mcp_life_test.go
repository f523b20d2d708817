package toolbridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"innerd/events"
	"innerd/toolbridge"
)

func TestMCPCancel(t *testing.T) {
	r := newRoad(t)
	token := r.register(t, "c1")
	s := r.run(t, "c1", weather)
	cs, err := r.connect(t, "c1", token, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := start(ctx, cs, &mcp.CallToolParams{Name: "weather", Arguments: map[string]any{"city": "x"}})
	id := <-r.opened
	cancel()
	if c := <-done; !errors.Is(c.err, context.Canceled) {
		t.Errorf("%+v", c)
	}
	waitFor(t, func() bool { return len(s.Pending()) == 0 })
	waitFor(t, func() bool { return r.rec.types() == "tool.execution_request tool.execution_resolved" })
	if got := r.rec.events()[1].(events.ToolResolved); got.Outcome != events.OutcomeCanceled || got.ToolCallID != id {
		t.Errorf("%+v", got)
	}
}

func TestMCPNoTurn(t *testing.T) {
	r := newRoad(t)
	token := r.register(t, "c1")
	r.tools = []toolbridge.ToolSpec{weather}
	cs, err := r.connect(t, "c1", token, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := &mcp.CallToolParams{Name: "weather", Arguments: map[string]any{"city": "x"}}
	if c := <-start(t.Context(), cs, call); !c.res.IsError || !strings.Contains(textOf(t, c), "no turn is running") {
		t.Errorf("%+v", c)
	}
	s := r.run(t, "c1", weather)
	done := start(t.Context(), cs, call)
	<-r.opened
	s.Close(errors.New("over"))
	if c := <-done; !c.res.IsError {
		t.Errorf("%+v", c)
	}
	if c := <-start(t.Context(), cs, call); !c.res.IsError { // the run is over, its session still there
		t.Errorf("%+v", c)
	}
}

func TestMCPToolsChange(t *testing.T) {
	r := newRoad(t)
	token := r.register(t, "c1")
	changed := make(chan struct{}, 100)
	cs, err := r.connect(t, "c1", token, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
	if err != nil {
		t.Fatal(err)
	}
	names := func() string {
		t.Helper()
		res, err := cs.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, x := range res.Tools {
			out = append(out, x.Name)
		}
		return strings.Join(out, " ")
	}
	if got := names(); got != "" {
		t.Error(got)
	}
	// Schemas that MCP does not allow are mended, never a panic.
	odd := toolbridge.ToolSpec{Name: "odd", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"object","x-mcp-header":7}}}`)}
	r.run(t, "c1", weather, toolbridge.ToolSpec{Name: "bare"}, toolbridge.ToolSpec{Name: "list", Schema: json.RawMessage(`{"type":"array"}`)}, odd)
	<-changed
	if got := names(); got != "bare list odd weather" {
		t.Error(got)
	}
	r.run(t, "c1", weather)
	<-changed
	if got := names(); got != "weather" {
		t.Error(got)
	}
	r.run(t, "c1")
	<-changed
	if got := names(); got != "" {
		t.Error(got)
	}
}

func TestMCPAuth(t *testing.T) {
	r := newRoad(t)
	one, two := r.register(t, "c1"), r.register(t, "c2")
	r.run(t, "c1", weather)
	for name, c := range map[string]struct{ conv, token string }{
		"no token": {"c1", ""}, "wrong": {"c1", "x"}, "another conversation's": {"c1", two}, "no conversation": {"c3", one}, "none named": {"", one},
	} {
		if _, err := r.connect(t, c.conv, c.token, nil); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if one == two || len(one) != 43 {
		t.Errorf("tokens %q %q", one, two)
	}
	// A session id of one conversation is nothing to another.
	cs, err := r.connect(t, "c1", one, nil)
	if err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+toolbridge.MCPPath("c2"), strings.NewReader(`{"jsonrpc":"2.0","id":9,"method":"tools/list"}`))
	req.Header.Set("Authorization", "bearer "+two)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Session-Id", cs.ID())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Error(res.Status)
	}
	// Only for this machine.
	for _, c := range []struct{ remote, host string }{{"10.0.0.1:99", "127.0.0.1"}, {"127.0.0.1:99", "evil.example"}} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodPost, toolbridge.MCPPath("c1"), nil)
		req.RemoteAddr, req.Host = c.remote, c.host
		req.Header.Set("Authorization", "Bearer "+one)
		r.b.MCPHandler().ServeHTTP(w, req)
		if w.Code != http.StatusForbidden {
			t.Errorf("%+v: %d", c, w.Code)
		}
	}
}

func TestMCPUnregister(t *testing.T) {
	r := newRoad(t)
	token := r.register(t, "c1")
	r.run(t, "c1", weather)
	cs, err := r.connect(t, "c1", token, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := start(t.Context(), cs, &mcp.CallToolParams{Name: "weather", Arguments: map[string]any{"city": "x"}})
	<-r.opened
	r.mu.Lock() // a caller's lock may be held
	r.b.Unregister("c1")
	r.mu.Unlock()
	<-done
	r.b.Close()
	if got := r.rec.types(); got != "tool.execution_request tool.execution_resolved" {
		t.Error(got)
	}
	if _, err := r.connect(t, "c1", token, nil); err == nil {
		t.Error("still there")
	}
}

func TestMCPSessionsAreBounded(t *testing.T) {
	r := newRoad(t)
	token := r.register(t, "c1")
	r.run(t, "c1", weather)
	first, err := r.connect(t, "c1", token, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := start(t.Context(), first, &mcp.CallToolParams{Name: "weather", Arguments: map[string]any{"city": "x"}})
	id := <-r.opened
	var all []*mcp.ClientSession
	for range 20 {
		cs, err := r.connect(t, "c1", token, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, cs)
	}
	if err := all[0].Ping(t.Context(), nil); err == nil {
		t.Error("the oldest idle session lives on")
	}
	if err := all[19].Ping(t.Context(), nil); err != nil {
		t.Error(err)
	}
	r.b.ToolResult("default", id, toolbridge.Result{Result: "kept"}) // a session with a call is not closed
	if got := textOf(t, <-done); got != "kept" {
		t.Error(got)
	}
}

func TestMCPPanic(t *testing.T) {
	r := newRoad(t)
	token := r.b.Register("c1", func() *toolbridge.Session { panic("boom") }, func() []toolbridge.ToolSpec { return []toolbridge.ToolSpec{weather} })
	t.Cleanup(func() { r.b.Unregister("c1") })
	cs, err := r.connect(t, "c1", token, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c := <-start(t.Context(), cs, &mcp.CallToolParams{Name: "weather"}); c.err != nil || !c.res.IsError {
		t.Errorf("%+v", c)
	}
}

func TestMCPAskUser(t *testing.T) {
	r := newRoad(t)
	token := r.register(t, "c1")
	r.run(t, "c1", toolbridge.AskUser())
	cs, err := r.connect(t, "c1", token, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := start(t.Context(), cs, &mcp.CallToolParams{Name: toolbridge.AskUserName, Arguments: map[string]any{"question": "Which?", "options": []string{"a", "b"}}})
	<-r.opened
	if err := r.b.ReplyText("default", "run-c1", "", "b", nil); err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, <-done); got != "b" {
		t.Error(got)
	}
	if got := r.rec.types(); got != "session.input_required session.input_resolved" {
		t.Error(got)
	}
}
