// Package entrypoint is process 1 of a container: it runs the server as one
// user and starts agents as another, reaps orphans, forwards signals, and
// starts a server that crashed again.
//
// It keeps the rights to change users and to signal them, and drops all
// others. The server asks it over a socket to start, signal and sweep agents;
// nothing else can be asked there. It reads nothing from the network.
package entrypoint
