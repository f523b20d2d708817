// Package host is the host's side of the host-loop profile: typed calls, a
// stream of events that resumes by itself after any broken connection, and
// Go functions lent to the agent as tools.
//
// It holds no state of a run but what the server's log can give again, so a
// host may die and attach to its run by the same task id.
package host
