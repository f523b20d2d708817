// Package claudecode is Claude Code as a backend: one claude process per
// conversation, driven over stdin and stdout by its stream-json protocol.
//
// The host's tools are an MCP server inside this process, spoken over the
// control channel; every native tool asks for permission first, by a hook that
// answers "ask". What the process prints becomes events in translator; what it
// asks is answered in control. The goroutine that reads stdout makes all
// events of a turn, in order, and never writes: answers go through the
// process's queue.
package claudecode
