// Package codex is OpenAI Codex as a backend: `codex app-server` over stdin and
// stdout, one process for all conversations of equal environment and
// credentials, each a thread in it.
//
// The host's tools are the thread's dynamic tools; every native tool that can
// ask asks us, since each thread is "untrusted" in an untrusted project. The
// goroutine that reads a process's stdout makes all events of its turns, in
// order, and never writes: answers go through the process's queue. It does wait
// for the log of the run that an event belongs to: where that waits for its disk,
// every thread of the process is heard later. What cannot be changed in a thread
// (tools, system text) is changed in the file that it is resumed from: see
// rollout.go.
package codex
