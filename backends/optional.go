package backends

import "context"

// Compacter is a Conversation that can shorten its own memory on request.
type Compacter interface {
	// Compact returns when the agent has shortened its memory. It is called
	// while no run is on; what the agent says meanwhile goes to Config.Stray.
	// Failures of the agent or its model are an *Error.
	Compact(context.Context) error
}

// Loginer is a Backend whose vendor has a login of its own.
type Loginer interface {
	// Login is the vendor's command that logs in on a terminal, into the
	// directory that this backend takes logins from.
	Login() (LoginCommand, error)
}

// LoginCommand is a program to run on a terminal.
type LoginCommand struct {
	Path string
	Args []string
	Env  []string // all of it, as in exec.Cmd
}
