// Package toolbridge holds the requests of runs that wait for the host: calls
// of the host's own tools, permissions, questions. It knows the run's log and
// the host's answers, but neither agents nor runs nor HTTP bodies.
//
// A request is announced in the log, waits, and is resolved exactly once: by
// the host's answer, by policy, by its time limit, by the end of its context
// or of its session. The resolution is in the log before Wait returns.
//
// Agents that take no callbacks reach the same bridge over MCP on loopback,
// one server with its own token per conversation; see MCPHandler.
package toolbridge
