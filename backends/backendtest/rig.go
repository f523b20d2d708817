package backendtest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"innerd/backends"
)

// Rig is one agent under test.
type Rig struct {
	Name string // for the names of tests
	// Backend makes the backend. The suite calls it again where a case restarts
	// it: sessions that one has left, the next one must find.
	Backend func(testing.TB) backends.Backend
	// Seat makes what one conversation of a case needs. Ends with the test.
	Seat func(testing.TB, Case) Seat
	// Lacks says why the agent has no such thing; cases that need it are
	// skipped with the reason.
	Lacks map[Need]string
	// Skip says, by the name of a case, why it is impossible for this agent.
	// A name that is no case fails the suite, so that the list stays true.
	Skip map[string]string
	// But says, by the name of a case that passes, what it is nevertheless not
	// good for: the table tells it.
	But map[string]string
	// Grace is the conversations' time between asking and ending; 0: 3 s.
	Grace time.Duration
	// Turn is how long one turn may take, but for the waiting that its case
	// asks for; 0: 60 s.
	Turn time.Duration
	// Keeps names functions ("(*Supervisor).reap") whose goroutines may outlive
	// a case.
	Keeps []string

	// Parallel is how many cases are played at once; 0 and 1: one after
	// another, each checked for goroutines that it left.
	Parallel int
	// Share says that cases which need no backend of their own share one.
	Share bool
	// Reuse, with Share, says that cases which leave their conversation as it
	// was are played in one, one after another, where the agent's start takes
	// long.
	Reuse bool
	// Models are two models of its vendor, Efforts two words for how much to
	// think, less first.
	Models, Efforts [2]string
	// Natives are the agent's own tools, all that its model is offered: each
	// with an input that would do something harmless. InDir stands for the
	// conversation's directory.
	Natives []NativeTool
	// Clash is the name of one of them, which a tool of the host has too.
	Clash string
	// LoggedOut makes a backend that finds no key and no login.
	LoggedOut func(testing.TB) backends.Backend
	// Copy makes a backend on a copy of the agent home of one that was closed;
	// the session must not be found in the original.
	Copy func(testing.TB, backends.Backend) backends.Backend
	// Table is the file that the results are compared with, testdata/table.json
	// for example; "" is none.
	Table string
}

// NativeTool is one of the agent's own tools.
type NativeTool struct {
	Name  string
	Input json.RawMessage
	// Unasked says why the host is not asked for it; "" is that it is.
	Unasked string
	// Files are there before, as Turn.Files.
	Files map[string]string
}

// Seat is the place of one conversation. The suite uses it from one goroutine.
type Seat interface {
	// Config is how its conversation is opened. The suite adds ID, Dir, Grace,
	// Session and Stray, and a Save that calls the seat's own, if it has one.
	Config() backends.Config
	// Arrange brings the agent to do the steps in its next turn, and forgets
	// what was arranged before.
	Arrange([]Step) Setup
	// Heard is all that the model was told when it was last asked, as text:
	// system text, history, prompts, its own texts, results (data in base64).
	Heard() string
}

// Killer is a Seat whose agent is a process.
type Killer interface {
	// Kill ends the agent's process with SIGKILL and returns when it is dead.
	Kill() error
}

// Starter is a Seat that counts its agent's processes.
type Starter interface {
	// Starts is how many were started so far.
	Starts() int
}

// Viewer is a Seat that can see what its model was asked for.
type Viewer interface {
	// Seen is how the agent's main model was last asked.
	Seen() Seen
}

// Seen is what a request to the model says beside its messages.
type Seen struct {
	Model, Effort string
	Tools         []string // the host's, by the host's names
	Natives       []string // all others
}

// Counter is a Seat that counts the requests to its model.
type Counter interface {
	// Asks is how many came since the last Arrange, of any kind, also ones
	// that were refused, as far as they can be seen.
	Asks() int
}

// Waiter is a Seat that can see when its model is asked.
type Waiter interface {
	// Asked returns when the model was asked since the last Arrange.
	Asked(context.Context) error
}

// capabilities are the needs that a backend says of itself whether it meets.
func capabilities(can backends.Capabilities) map[Need]bool {
	return map[Need]bool{
		NeedReasoning: can.Reasoning, NeedTools: can.Tools, NeedPermissions: can.Permissions,
		NeedQuestions: can.Questions, NeedImages: can.Images, NeedResume: can.Resume,
		NeedSchema: can.Schema, NeedSteer: can.Steer, NeedCompact: can.Compact,
	}
}

// lacks says why a case is impossible for this agent; "" when it is possible.
func (r Rig) lacks(c Case, can backends.Capabilities) string {
	if why := r.Skip[c.Name]; why != "" {
		return why
	}
	has := capabilities(can)
	for _, need := range c.Needs {
		if why := r.Lacks[need]; why != "" {
			return why
		}
		if can, known := has[need]; known && !can {
			return "the backend says that it has no " + string(need)
		}
	}
	return ""
}

func (r Rig) grace() time.Duration {
	if r.Grace > 0 {
		return r.Grace
	}
	return 3 * time.Second
}

// limit is how long a turn may take.
func (r Rig) limit(t Turn) time.Duration {
	limit := r.Turn
	if limit <= 0 {
		limit = 60 * time.Second
	}
	for _, reply := range t.Host.Replies {
		limit += reply.After
	}
	return limit
}
