package backendtest

import (
	"time"

	"innerd/backends"
	"innerd/events"
)

// Case is one thing that every agent must do.
type Case struct {
	Name  string // lower case, with hyphens
	Why   string // what a host loses where it fails
	Needs []Need
	Long  bool // over a minute; only with INNERD_LONG=1
	Turns []Turn
	// Beside is played in a second conversation of the same backend at the
	// same time.
	Beside []Turn
}

// Need is something an agent must have for a case to be possible.
type Need string

// What cases need. The first ones follow from backends.Capabilities; the
// others a rig lacks with a reason.
const (
	NeedReasoning   Need = "reasoning"
	NeedTools       Need = "tools"
	NeedPermissions Need = "permissions"
	NeedQuestions   Need = "questions"
	NeedImages      Need = "images"
	NeedResume      Need = "resume"

	NeedProcess Need = "process" // the agent is a process of its own that can be killed
	NeedLines   Need = "lines"   // it speaks in lines on stdout, and the rig can fake it
)

// Turn is one run.
type Turn struct {
	Before Before
	Steps  []Step
	Prompt string
	Attach []events.Part // after the prompt

	History     string
	System      string
	Permission  string // backends.PermissionAuto …
	Interactive bool

	Host Host
	Want Want
}

// Before is what happens to the agent before a turn.
type Before string

// What may happen. The conversation is then opened again with its session.
const (
	BeforeNothing Before = ""
	BeforeClose   Before = "close"   // the conversation is closed
	BeforeKill    Before = "kill"    // its process is killed with SIGKILL; needs NeedProcess
	BeforeRestart Before = "restart" // the whole backend is closed and made again, as after a restart of the server
)

// Host is how the host behaves during a turn.
type Host struct {
	// Replies answer requests, each one at most; a request takes the first
	// that fits. A request that none fits gets no answer.
	Replies []Reply
	Cancel  Cancel
}

// Reply answers one request.
type Reply struct {
	Kind   events.RequestKind
	Tool   string // "": any
	Answer events.Answer
	After  time.Duration // after the request, and after Together
	// Together holds the answer back until as many requests have been open at
	// the same time.
	Together int
}

// Cancel is when the host cancels the turn, with backends.ErrCanceled. The
// zero value is never.
type Cancel struct {
	On    events.Type // at the first event of this type
	Early bool        // before the agent has said anything: when the model was asked, where that can be seen
}

// On reports whether there is a cancel.
func (c Cancel) some() bool { return c.Early || c.On != "" }

// Want is what must come out of a turn. What is not set is not checked.
type Want struct {
	// Said are whole texts of messages that must stand in this order; others
	// may stand between. A discarded message was not said.
	Said []string
	// Thought are whole blocks of reasoning, likewise.
	Thought []string
	// Tools are the agent's own calls, in order.
	Tools []ToolWant
	// Requests are all requests the host got, in any order.
	Requests []RequestWant
	// Together is how many requests must have been open at the same time.
	Together int
	// Unsaid says that there is no message and no tool that ran.
	Unsaid bool
	// NoTool says that no tool of the agent's own succeeded.
	NoTool bool
	// Discarded is how many messages at least were taken back.
	Discarded int
	// Usage holds counts that must be exactly these; nil ones are not checked.
	Usage *events.Usage
	// Reason is why a completed turn ended; "" is end_turn.
	Reason string
	// Error is the class of the failure; "" is none, but for a cancel.
	Error string
	// OrError is a class that may come instead of an end without an error.
	OrError string
	// Exit says that the failure tells how the process ended.
	Exit bool

	// Heard must be among what the model was told, HeardOnce exactly once,
	// Unheard not at all.
	Heard, HeardOnce, Unheard []string
	// Warm says that the conversation goes on in the same process.
	Warm bool
	// Gone says that the conversation takes no further run.
	Gone bool
}

// ToolWant is a call of the agent's own tool.
type ToolWant struct {
	Output   string // part of its result
	Success  bool
	ExitCode *int // where the agent tells it
	Open     bool // it did not end
}

// RequestWant is a request.
type RequestWant struct {
	Kind    events.RequestKind
	Tool    string // of a bridged call; an agent's own tools have its own names
	Input   string // JSON of a bridged call's arguments; "" is not checked
	Outcome string // "" is not checked
}

// Setup is how a rig brings its agent to do a script in the next turn.
type Setup struct {
	Prompt   string            // said after the turn's own prompt; "" is nothing
	Settings backends.Settings // the suite adds what the case says
}
