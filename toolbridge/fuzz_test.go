package toolbridge_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"innerd/events"
	"innerd/toolbridge"
)

// FuzzMCP: whatever an agent, or what runs in it, sends to the MCP server of its
// conversation is answered below 500, and JSON is JSON.
func FuzzMCP(f *testing.F) {
	rpc := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
	}
	for _, body := range []string{
		"", "{}", "[]", "null", `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		rpc("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`), rpc("initialize", `{"protocolVersion":7}`), rpc("ping", "{}"),
		rpc("tools/list", "{}"), rpc("tools/list", `{"cursor":"x"}`), rpc("tools/call", `{"name":"look","arguments":{}}`), rpc("tools/call", `{"name":"none"}`), rpc("tools/call", `{"name":{}}`),
		rpc("tools/call", `{"name":"look","arguments":[],"_meta":{"progressToken":1}}`), rpc("resources/list", "{}"), rpc("logging/setLevel", `{"level":"debug"}`), rpc("nothing", "[]"),
		"[" + rpc("ping", "{}") + "," + rpc("tools/list", "{}") + "]", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, "\xff\x00",
	} {
		f.Add("POST", "application/json, text/event-stream", "2025-06-18", "", body)
		f.Add("POST", "", "", "x", body)
	}
	f.Add("GET", "text/event-stream", "", "", "")
	f.Add("DELETE", "", "", "none", "")
	b := toolbridge.New(&toolbridge.Options{Ping: 20 * time.Millisecond})
	f.Cleanup(b.Close)
	look := []toolbridge.ToolSpec{{Name: "look", Schema: json.RawMessage(`{"type":"object"}`)}}
	s := b.Open(toolbridge.SessionConfig{RunID: "run", Owner: "default", ConversationID: "conv", Tools: look, Log: func(events.Data) {}})
	f.Cleanup(func() { s.Close(nil) })
	token := b.Register("conv", func() *toolbridge.Session { return s }, func() []toolbridge.ToolSpec { return look })
	h := b.MCPHandler()
	f.Fuzz(func(t *testing.T, method, accept, version, session, body string) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // a call of a tool waits for its host
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1"+toolbridge.MCPPath("conv"), strings.NewReader(body))
		if err != nil {
			return
		}
		r.RemoteAddr = "127.0.0.1:9"
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		for name, v := range map[string]string{"Accept": accept, "Mcp-Protocol-Version": version, "Mcp-Session-Id": session} {
			if v != "" {
				r.Header.Set(name, v)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch {
		case w.Code == http.StatusNotImplemented:
		case w.Code >= 500 && ctx.Err() == nil:
			t.Fatalf("%s %q: %d %.300s", method, body, w.Code, w.Body)
		case strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && !json.Valid(w.Body.Bytes()):
			t.Fatalf("%s %q: %.300s", method, body, w.Body)
		}
	})
}
