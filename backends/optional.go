package backends

import (
	"context"
	"time"
)

// Compacter is a Conversation that can shorten its own memory on request.
type Compacter interface {
	// Compact returns when the agent has shortened its memory. It is called
	// while no run is on; what the agent says meanwhile goes to Config.Stray.
	// Failures of the agent or its model are an *Error.
	Compact(context.Context) error
}

// Lively is a Conversation that starts its agent when a run needs it, and again
// where that failed: between two runs it may be without one.
type Lively interface {
	// Lives reports whether the conversation's agent runs. It asks nobody and
	// waits for nothing, and may be called at any time.
	Lives() bool
}

// Sweeper is a Conversation whose agent may leave processes running when a turn
// is over.
type Sweeper interface {
	// Sweep ends what commands of the conversation left running, also what went
	// into a session of its own. It is called after a run in which the agent
	// used tools of its own, and ends in seconds, whatever ctx says.
	Sweep(ctx context.Context)
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

// Forgetter is a Backend that keeps files for its conversations, which agents
// read as long as they may be resumed.
type Forgetter interface {
	// Forget removes what is kept for a conversation that is never opened again.
	Forget(conversation string) error
	// ForgetOld removes what was last written before a time for conversations
	// that are not known.
	ForgetOld(before time.Time, known func(conversation string) bool) error
}
