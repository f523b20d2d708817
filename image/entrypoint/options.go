package entrypoint

import (
	"io/fs"
	"log/slog"
	"os"
	"time"

	"innerd/backends"
)

// Options of Run.
type Options struct {
	// Server is the program that serves, without the variables that Run adds.
	Server Program
	// Agents is whom agents run as; nil: the server starts them itself, as its
	// own user.
	Agents *backends.User
	// Sweeper is a command line that calls backends.SweepMain.
	Sweeper []string
	// Services run beside the server.
	Services []Service
	// Dirs are made, and given to their owners, before anything starts.
	Dirs []Dir
	// Grace is how long the server may take to stop; then it is killed. 0: 10 s.
	Grace time.Duration
	// Logger says what happens to the server; nil: nothing.
	Logger *slog.Logger
	// Started is called when the first server runs; nil: nothing is.
	Started func()
	// Stdout and Stderr are those of the server and of services; nil: this
	// process's.
	Stdout, Stderr *os.File
}

// Program is what to run.
type Program struct {
	Path string
	Args []string // with the name
	Env  []string // all of it
	Dir  string   // "": /
	User *backends.User
}

// Service is a program beside the server.
type Service struct {
	Name    string
	Program Program
	Restart Restart
}

// Restart says when a service that has ended is started again.
type Restart string

// When services are started again.
const (
	RestartAlways    Restart = "always" // also ""
	RestartOnFailure Restart = "on-failure"
	RestartNever     Restart = "never"
)

// Dir is a directory that must be there.
type Dir struct {
	Path  string
	Owner *backends.User // nil: whoever makes it
	Mode  fs.FileMode    // with fs.ModeSetgid, if wanted
}

// Variables of the server's that name what it inherits.
const (
	// StarterVar is the descriptor of the socket that agents are started over.
	StarterVar = "INNERD_STARTER_FD"
	// LateVar is the descriptor of the socket that late configuration is kept over.
	LateVar = "INNERD_LATE_FD"
	// AgentGroupVar is the group of the agents' user, which the server is in.
	AgentGroupVar = "INNERD_AGENT_GROUP"
)
