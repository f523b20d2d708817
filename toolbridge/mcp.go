package toolbridge

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"strings"
	"sync"
)

// mcpPrefix is where the conversations' MCP servers are.
const mcpPrefix = "/mcp/"

// MCPPath is the path of a conversation's MCP server below MCPHandler.
func MCPPath(conversationID string) string { return mcpPrefix + conversationID }

// mcpRoad is the second road: an MCP server per conversation.
type mcpRoad struct {
	mu     sync.Mutex
	byConv map[string]*endpoint
	ending sync.WaitGroup // endpoints whose sessions are being closed
}

func (m *mcpRoad) get(conversationID string) *endpoint {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byConv[conversationID]
}

// Register opens the MCP server of a conversation and makes its token; one
// that was there before is closed. caller gives the session of the
// conversation's current run, nil between runs. tools gives that run's tools;
// nil leaves the list as it is. Both are called from the server's goroutines,
// without locks of the bridge.
//
// The server lives until Unregister: an agent keeps it over many runs.
func (b *Bridge) Register(conversationID string, caller func() *Session, tools func() []ToolSpec) (token string) {
	raw := make([]byte, 32)
	rand.Read(raw) // never fails
	token = base64.RawURLEncoding.EncodeToString(raw)
	e := newEndpoint(b, conversationID, sha256.Sum256([]byte(token)), caller, tools)
	b.mcp.mu.Lock()
	old := b.mcp.byConv[conversationID]
	b.mcp.byConv[conversationID] = e
	b.mcp.mu.Unlock()
	b.mcp.end(old)
	return token
}

// Unregister closes the MCP server of a conversation, whose token is void at
// once. It does not wait, so that a lock which caller or tools want may be
// held: calls that are open there are canceled on the side. Close waits.
func (b *Bridge) Unregister(conversationID string) {
	b.mcp.mu.Lock()
	e := b.mcp.byConv[conversationID]
	delete(b.mcp.byConv, conversationID)
	b.mcp.mu.Unlock()
	b.mcp.end(e)
}

// Close unregisters all conversations and waits until their MCP servers are
// gone. It comes last: after the runs, whose sessions are theirs to close.
func (b *Bridge) Close() {
	b.mcp.mu.Lock()
	all := b.mcp.byConv
	b.mcp.byConv = map[string]*endpoint{}
	b.mcp.mu.Unlock()
	for _, e := range all {
		b.mcp.end(e)
	}
	b.mcp.ending.Wait()
}

// end closes an endpoint on the side; nil does nothing.
func (m *mcpRoad) end(e *endpoint) {
	if e == nil {
		return
	}
	e.cancel()
	m.ending.Go(e.close) // ends when the endpoint's calls have returned
}

// MCPHandler serves the MCP servers of all conversations, each at MCPPath
// under its own token. Mount it on a loopback listener of its own, on a
// server without a WriteTimeout: a call may take hours. It answers only
// clients on loopback that name a loopback host.
func (b *Bridge) MCPHandler() http.Handler { return http.HandlerFunc(b.serveMCP) }

func (b *Bridge) serveMCP(w http.ResponseWriter, r *http.Request) {
	if !loopback(r.RemoteAddr) || !loopback(r.Host) {
		refuse(w, http.StatusForbidden, `{"detail":"only for this machine","error_type":"unauthorized"}`)
		return
	}
	conversationID, _ := strings.CutPrefix(r.URL.Path, mcpPrefix)
	e := b.mcp.get(strings.TrimSuffix(conversationID, "/"))
	// One path for a wrong token and for no such conversation, so that ids
	// can't be probed.
	var want [32]byte
	if e != nil {
		want = e.token
	}
	token, isBearer := bearer(r)
	got := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(want[:], got[:]) != 1 || !isBearer || e == nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, `{"detail":"wrong token or no such conversation","error_type":"unauthorized"}`)
		return
	}
	e.serve(w, r)
}

func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

func refuse(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the client is gone, then
}

// loopback reports whether host, with or without a port, is this machine.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
