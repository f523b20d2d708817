// Package e2e is tests of the whole product from outside: the release binary
// as a process, real agents, readers over HTTP, and what goes wrong between
// them. It has nothing but tests.
package e2e
