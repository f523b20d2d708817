// Package server runs the innerd binary for tests that look from outside: as a
// process with a state, an agents' home and a workspace of its own, called over
// HTTP, ended in any way and started again.
package server
