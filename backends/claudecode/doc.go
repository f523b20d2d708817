// Package claudecode is Claude Code as a backend: one claude process per
// conversation, driven over stdin and stdout by its stream-json protocol.
//
// The host's tools are an MCP server inside this process, spoken over the
// control channel; every native tool asks for permission first, by a hook that
// answers "ask". What the process prints becomes events in translator; what it
// asks is answered in control. The goroutine that reads stdout makes all
// events of a turn, in order, and never writes: answers go through the
// process's queue.
//
// A turn is over when every input is answered, the first one and those that
// Steer adds, and no work of claude's runs on in the background: turn.step
// decides that, and nobody else. Before a turn the session is looked at: one
// that another process has is gone on with in a copy (fork).
//
// The room below, internal/changes, knows what claude's tools do to files.
package claudecode
