package backendtest

import (
	"context"
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
	// Grace is the conversations' time between asking and ending; 0: 3 s.
	Grace time.Duration
	// Turn is how long one turn may take, but for the waiting that its case
	// asks for; 0: 30 s.
	Turn time.Duration
	// Keeps names functions ("(*Supervisor).reap") whose goroutines may outlive
	// a case.
	Keeps []string
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

// Waiter is a Seat that can see when its model is asked.
type Waiter interface {
	// Asked returns when the model was asked since the last Arrange.
	Asked(context.Context) error
}

// lacks says why a case is impossible for this agent; "" when it is possible.
func (r Rig) lacks(c Case, can backends.Capabilities) string {
	if why := r.Skip[c.Name]; why != "" {
		return why
	}
	has := map[Need]bool{
		NeedReasoning: can.Reasoning, NeedTools: can.Tools, NeedPermissions: can.Permissions,
		NeedQuestions: can.Questions, NeedImages: can.Images, NeedResume: can.Resume,
		NeedProcess: true, NeedLines: true,
	}
	for _, need := range c.Needs {
		if why := r.Lacks[need]; why != "" {
			return string(need) + ": " + why
		}
		if !has[need] {
			return string(need) + ": the backend says that it has none"
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
		limit = 30 * time.Second
	}
	for _, reply := range t.Host.Replies {
		limit += reply.After
	}
	return limit
}
