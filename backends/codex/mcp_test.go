package codex_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

// mcpServer is the least that codex takes for an MCP server over HTTP.
type mcpServer struct{ url string }

func newMCP(t *testing.T) *mcpServer {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer mcp-secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := map[string]string{
			"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"host","version":"1"}}`,
			"tools/list": `{"tools":[{"name":"lookup","description":"For tests","inputSchema":{"type":"object"}}]}`,
			"tools/call": `{"content":[{"type":"text","text":"from the second road"}],"isError":false}`,
		}[m.Method]
		if result == "" {
			result = "{}"
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`))
	}))
	t.Cleanup(srv.Close)
	return &mcpServer{srv.URL + "/mcp"}
}
