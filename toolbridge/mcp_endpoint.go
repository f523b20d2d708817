package toolbridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"innerd/events"
	"innerd/events/mcpjson"
)

const (
	// maxMCPBody is what a call's arguments may be.
	maxMCPBody = 64 << 20
	// maxMCPSessions bounds clients that connect again and again without
	// saying good-bye: the oldest idle one is closed.
	maxMCPSessions = 16
)

var errUnregistered = errors.New("the conversation is closed")

// endpoint is the MCP server of one conversation. Each has a handler of its
// own in the SDK, so that a session id of one is unknown to every other.
type endpoint struct {
	b      *Bridge
	id     string
	token  [32]byte // SHA-256
	caller func() *Session
	tools  func() []ToolSpec

	server  *mcp.Server
	handler http.Handler
	ctx     context.Context // ends with the endpoint
	cancel  context.CancelFunc

	syncMu sync.Mutex // orders changes of the server's tools
	known  map[string]string

	mu       sync.Mutex
	streams  map[string]*stream // by the id put into the request's header
	sessions []*mcpSession      // oldest first
}

type mcpSession struct {
	ss    *mcp.ServerSession
	calls int // running
}

func newEndpoint(b *Bridge, id string, token [32]byte, caller func() *Session, tools func() []ToolSpec) *endpoint {
	e := &endpoint{b: b, id: id, token: token, caller: caller, tools: tools, known: map[string]string{}, streams: map[string]*stream{}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.server = mcp.NewServer(&mcp.Implementation{Name: "innerd", Title: "Tools of the host", Version: "1"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	})
	e.server.AddReceivingMiddleware(e.watchSessions)
	// No SessionTimeout: an agent that thinks for hours between two calls
	// must not lose its tools. Sessions end with the endpoint.
	e.handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		if e.ctx.Err() != nil {
			return nil
		}
		return e.server
	}, &mcp.StreamableHTTPOptions{MaxRequestBodyBytes: maxMCPBody})
	return e
}

// close ends the open calls and the sessions, and waits for them.
func (e *endpoint) close() {
	e.cancel()
	for ss := range e.server.Sessions() {
		_ = ss.Close() // its client may be gone
	}
}

func (e *endpoint) serve(w http.ResponseWriter, r *http.Request) {
	e.refresh()
	s := &stream{w: w, rc: http.NewResponseController(w)}
	id := newULID()
	e.mu.Lock()
	e.streams[id] = s
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.streams, id)
		e.mu.Unlock()
		s.end()
		if e.ctx.Err() != nil { // a session that began while the endpoint ended
			e.close()
		}
	}()
	r.Header.Set(streamHeader, id)
	e.handler.ServeHTTP(s, r)
}

// refresh asks for the tools of the current run.
func (e *endpoint) refresh() {
	defer e.contain("tools")
	if e.tools != nil {
		e.setTools(e.tools())
	}
}

// setTools makes specs the server's list; clients hear of a change. Nil
// leaves it as it is.
func (e *endpoint) setTools(specs []ToolSpec) {
	if specs == nil {
		return
	}
	e.syncMu.Lock()
	defer e.syncMu.Unlock()
	now := make(map[string]string, len(specs))
	for _, t := range specs {
		parallel := t.Parallel && !saysSerial(t.Schema)
		now[t.Name] = string(mcpjson.Tool(t.Name, t.Description, t.Schema, parallel, nil))
		if e.known[t.Name] != now[t.Name] {
			e.addTool([]byte(now[t.Name]))
		}
	}
	var gone []string
	for name := range e.known {
		if _, ok := now[name]; !ok {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		e.server.RemoveTools(gone...)
	}
	e.known = now
}

// addTool adds one tool. The SDK panics on some schemas; such a tool takes
// any object.
func (e *endpoint) addTool(entry []byte) {
	var t mcp.Tool
	if err := json.Unmarshal(entry, &t); err != nil {
		return
	}
	defer func() {
		if recover() != nil {
			t.InputSchema = json.RawMessage(`{"type":"object"}`)
			e.server.AddTool(&t, e.call)
		}
	}()
	e.server.AddTool(&t, e.call)
}

// call is one tools/call. The SDK runs it on a goroutine of its own and ends
// ctx at notifications/cancelled.
func (e *endpoint) call(ctx context.Context, req *mcp.CallToolRequest) (out *mcp.CallToolResult, _ error) {
	defer func() {
		if v := recover(); v != nil { // the SDK would let it end the process
			e.b.opt.Logger.Error("panic in an MCP call", e.logAttr(), "panic", fmt.Sprint(v))
			out = toMCP(errorAnswer("internal error in the tool bridge"))
		}
	}()
	defer e.begin(req.Session)()
	s := e.caller()
	if s == nil {
		return toMCP(errorAnswer("no turn is running: tools of the host can be called during a turn only")), nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.ctx, func() { cancel(errUnregistered) })()
	p := s.Request(ctx, events.Request{
		Kind: events.KindTool, NativeID: nativeID(req.Params.Meta), Tool: req.Params.Name, Input: req.Params.Arguments,
	})
	e.keepAlive(ctx, p, req)
	a, _ := p.Wait()
	return toMCP(a), nil
}

// keepAlive returns when p is over. Until then clients with time limits see
// that the call lives: headers at once (some wait 60 s for them), comments,
// and progress where they gave a token.
func (e *endpoint) keepAlive(ctx context.Context, p *Pending, req *mcp.CallToolRequest) {
	var st *stream
	if req.Extra != nil {
		e.mu.Lock()
		st = e.streams[req.Extra.Header.Get(streamHeader)]
		e.mu.Unlock()
	}
	tick := time.NewTicker(e.b.opt.Ping)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-p.done:
			return
		default:
		}
		st.ping()
		select {
		case <-p.done:
			return
		case <-tick.C:
			if token := req.Params.GetProgressToken(); token != nil {
				_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
					ProgressToken: token, Progress: float64(n), Message: "waiting for the host",
				}) // a client that is gone gets the call canceled otherwise
			}
		}
	}
}

// nativeID is the agent's own id of the call, where it tells it.
func nativeID(meta mcp.Meta) string {
	id, _ := meta["claudecode/toolUseId"].(string)
	return id
}

func toMCP(a events.Answer) *mcp.CallToolResult {
	var r mcp.CallToolResult
	if err := json.Unmarshal(mcpjson.Result(a), &r); err != nil {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "the result can't be encoded"}}}
	}
	return &r
}

// watchSessions keeps the number of sessions bounded.
func (e *endpoint) watchSessions(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "initialize" {
			if ss, ok := req.GetSession().(*mcp.ServerSession); ok {
				e.admit(ss)
			}
		}
		return next(ctx, method, req)
	}
}

func (e *endpoint) admit(ss *mcp.ServerSession) {
	live := slices.Collect(e.server.Sessions())
	e.mu.Lock()
	e.sessions = slices.DeleteFunc(e.sessions, func(s *mcpSession) bool { return !slices.Contains(live, s.ss) })
	var old *mcp.ServerSession
	if len(e.sessions) >= maxMCPSessions {
		if i := slices.IndexFunc(e.sessions, func(s *mcpSession) bool { return s.calls == 0 }); i >= 0 {
			old = e.sessions[i].ss
			e.sessions = slices.Delete(e.sessions, i, i+1)
		}
	}
	e.sessions = append(e.sessions, &mcpSession{ss: ss})
	e.mu.Unlock()
	if old != nil {
		_ = old.Close() // its client is gone, most likely
	}
}

// begin counts a call of a session; the func it returns ends it.
func (e *endpoint) begin(ss *mcp.ServerSession) func() {
	add := func(n int) {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, s := range e.sessions {
			if s.ss == ss {
				s.calls += n
			}
		}
	}
	add(1)
	return func() { add(-1) }
}

func (e *endpoint) contain(what string) {
	if v := recover(); v != nil {
		e.b.opt.Logger.Error("panic in a callback of the tool bridge", e.logAttr(), "callback", what, "panic", fmt.Sprint(v))
	}
}
