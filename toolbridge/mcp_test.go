package toolbridge_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"innerd/events"
	"innerd/toolbridge"
)

// road is a bridge with its MCP server on loopback.
type road struct {
	b   *toolbridge.Bridge
	url string

	mu      sync.Mutex
	session *toolbridge.Session
	tools   []toolbridge.ToolSpec
	rec     *recorder
	opened  chan string // tool calls as they are announced
}

func newRoad(t *testing.T) *road {
	t.Helper()
	b := toolbridge.New(&toolbridge.Options{Ping: 20 * time.Millisecond})
	srv := httptest.NewServer(b.MCPHandler())
	t.Cleanup(srv.Close)
	t.Cleanup(b.Close)
	return &road{b: b, url: srv.URL, opened: make(chan string, 100)}
}

func (r *road) register(t *testing.T, conv string) string {
	t.Helper()
	token := r.b.Register(conv, func() *toolbridge.Session {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.session
	}, func() []toolbridge.ToolSpec {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.tools
	})
	t.Cleanup(func() { r.b.Unregister(conv) })
	return token
}

// run opens the session of a turn.
func (r *road) run(t *testing.T, conv string, tools ...toolbridge.ToolSpec) *toolbridge.Session {
	t.Helper()
	rec := &recorder{}
	c := toolbridge.SessionConfig{RunID: "run-" + conv, Owner: "default", ConversationID: conv, Tools: tools, Interactive: true}
	c.Log = func(d events.Data) {
		rec.log(d)
		switch d := d.(type) {
		case events.ToolRequest:
			r.opened <- d.ToolCallID
		case events.InputRequired:
			r.opened <- d.RequestID
		}
	}
	s := r.b.Open(c)
	r.mu.Lock()
	r.session, r.tools, r.rec = s, tools, rec
	r.mu.Unlock()
	t.Cleanup(func() { s.Close(nil) })
	return s
}

type bearerTransport struct{ token string }

func (b bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

func (r *road) connect(t *testing.T, conv, token string, o *mcp.ClientOptions) (*mcp.ClientSession, error) {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	cs, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: r.url + toolbridge.MCPPath(conv), HTTPClient: &http.Client{Transport: bearerTransport{token}}, MaxRetries: -1,
	}, nil)
	if err == nil {
		t.Cleanup(func() {
			_ = cs.Close()
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		})
	}
	return cs, err
}

var weather = toolbridge.ToolSpec{Name: "weather", Description: "d", Parallel: true, Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}

type called struct {
	res *mcp.CallToolResult
	err error
}

func start(ctx context.Context, cs *mcp.ClientSession, p *mcp.CallToolParams) chan called {
	out := make(chan called, 1)
	go func() {
		res, err := cs.CallTool(ctx, p)
		out <- called{res, err}
	}()
	return out
}

func textOf(t *testing.T, c called) string {
	t.Helper()
	if c.err != nil {
		t.Fatal(c.err)
	}
	var out []string
	for _, p := range c.res.Content {
		switch p := p.(type) {
		case *mcp.TextContent:
			out = append(out, p.Text)
		case *mcp.ImageContent:
			out = append(out, fmt.Sprintf("image %s %d", p.MIMEType, len(p.Data)))
		}
	}
	return strings.Join(out, "|")
}

func TestMCPCall(t *testing.T) {
	r := newRoad(t)
	token := r.register(t, "c1")
	r.run(t, "c1", weather)
	cs, err := r.connect(t, "c1", token, nil)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := cs.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "weather" || !tools.Tools[0].Annotations.ReadOnlyHint {
		t.Fatalf("%+v %v", tools, err)
	}
	args := map[string]any{"city": "Köln\u2028"}
	params := &mcp.CallToolParams{Name: "weather", Arguments: args, Meta: mcp.Meta{"claudecode/toolUseId": "toolu_1"}}

	done := start(t.Context(), cs, params)
	id := <-r.opened
	if got := r.rec.events()[0].(events.ToolRequest); got.NativeID != "toolu_1" || got.ToolName != "weather" {
		t.Errorf("%+v", got)
	}
	r.b.ToolResult("default", id, toolbridge.Result{Content: []events.Part{
		events.Text("rain"), {Type: events.PartImage, MimeType: "image/png", Data: "aW1n"}, {Type: "smell"},
	}})
	if got, want := textOf(t, <-done), `rain|image image/png 3|[part 3 of the tool's result can't be used: unknown type "smell"]`; got != want {
		t.Error(cmp.Diff(want, got))
	}

	done = start(t.Context(), cs, params)
	r.b.ToolResult("default", <-r.opened, toolbridge.Result{Result: "no", IsError: true})
	if c := <-done; !c.res.IsError || textOf(t, c) != "no" {
		t.Errorf("%+v", c.res)
	}

	done = start(t.Context(), cs, params)
	r.b.ToolResult("default", <-r.opened, toolbridge.Result{})
	if c := <-done; c.res.IsError || textOf(t, c) != "" {
		t.Errorf("%+v", c.res)
	}

	big := strings.Repeat("x", 4<<20) // above the SDK's own limit for bodies
	done = start(t.Context(), cs, &mcp.CallToolParams{Name: "weather", Arguments: map[string]any{"city": big}})
	r.b.ToolResult("default", <-r.opened, toolbridge.Result{Result: big})
	if got := textOf(t, <-done); got != big {
		t.Errorf("%d bytes", len(got))
	}

	c := <-start(t.Context(), cs, &mcp.CallToolParams{Name: "weather", Arguments: map[string]any{"town": 1}})
	if got := textOf(t, c); !c.res.IsError || !strings.Contains(got, "invalid arguments for weather") || !strings.Contains(got, "city") {
		t.Error(got)
	}
}

func TestMCPParallel(t *testing.T) {
	r := newRoad(t)
	token := r.register(t, "c1")
	r.run(t, "c1", weather)
	cs, err := r.connect(t, "c1", token, nil)
	if err != nil {
		t.Fatal(err)
	}
	var done []chan called
	for i := range 8 {
		done = append(done, start(t.Context(), cs, &mcp.CallToolParams{Name: "weather", Arguments: map[string]any{"city": fmt.Sprint(i)}}))
	}
	for range 8 {
		<-r.opened // all are open at once
	}
	cities := map[string]string{}
	for _, d := range r.rec.events() {
		req := d.(events.ToolRequest)
		var a struct{ City string }
		_ = json.Unmarshal(req.Arguments, &a)
		cities[req.ToolCallID] = a.City
	}
	for id, city := range cities {
		r.b.ToolResult("default", id, toolbridge.Result{Result: "in " + city})
	}
	for i, d := range done {
		if got := textOf(t, <-d); got != fmt.Sprint("in ", i) {
			t.Error(i, got)
		}
	}
}

func TestMCPSlowCallShowsLife(t *testing.T) {
	r := newRoad(t)
	token := r.register(t, "c1")
	r.run(t, "c1", weather)
	progress := make(chan float64, 1000)
	cs, err := r.connect(t, "c1", token, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, p *mcp.ProgressNotificationClientRequest) {
		progress <- p.Params.Progress
	}})
	if err != nil {
		t.Fatal(err)
	}
	params := &mcp.CallToolParams{Name: "weather", Arguments: map[string]any{"city": "x"}, Meta: mcp.Meta{"progressToken": "p1"}}
	done := start(t.Context(), cs, params)
	id := <-r.opened
	if a, b := <-progress, <-progress; a != 1 || b != 2 {
		t.Errorf("progress %v %v", a, b)
	}
	r.b.ToolResult("default", id, toolbridge.Result{Result: "late"})
	if got := textOf(t, <-done); got != "late" {
		t.Error(got)
	}
}

// A client without progress tokens gets headers and comments.
func TestMCPHeadersComeEarly(t *testing.T) {
	r := newRoad(t)
	token := r.register(t, "c1")
	r.run(t, "c1", weather)
	session := ""
	post := func(body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+toolbridge.MCPPath("c1"), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Innerd-Stream", "mine") // not the client's to choose
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close(); http.DefaultClient.CloseIdleConnections() })
		return res
	}
	res := post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	session = res.Header.Get("Mcp-Session-Id")
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	res = post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"weather","arguments":{"city":"x"}}}`) // returns with the headers
	id := <-r.opened
	lines := bufio.NewScanner(res.Body)
	for n := 0; n < 3 && lines.Scan(); {
		if lines.Text() == ": waiting" {
			n++
		}
	}
	r.b.ToolResult("default", id, toolbridge.Result{Result: "ok then"})
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			if !strings.Contains(lines.Text(), "ok then") {
				t.Error(lines.Text())
			}
			return
		}
	}
	t.Error("no answer")
}

// waitFor polls for what has no event of its own in the SDK.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never")
		}
	}
}
