// Package copilot is GitHub Copilot CLI as a backend: one copilot process for
// many conversations, driven over stdin and stdout by JSON-RPC in
// Content-Length frames, without the vendor's SDK (docs/decisions says why).
//
// A process serves the conversations of equal environment and credentials; each
// is one session in it. Keys and tokens go into a session over JSON-RPC: not
// into the environment, which the agent's commands see, nor into arguments or
// files. The host's tools are external tools of the session. Every native tool
// asks for permission first, by a hook that answers "ask". The goroutine that
// reads stdout makes all events of a turn, in order, and never waits for the
// process: answers go through its queue. It does wait for the log of the run
// that an event belongs to: where that waits for its disk, every session of the
// process is heard later.
package copilot
