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
	Long  bool // over a minute; only with INNERD_LONG=1, unless Waits
	Waits bool // it does nothing but wait: those who keep a table play it always
	Turns []Turn
	// Beside is played in a second conversation of the same backend at the
	// same time.
	Beside []Turn

	// LoggedOut says that there is no key and no login: Rig.LoggedOut makes
	// the backend, and the conversation is opened without a credential.
	LoggedOut bool
}

// Uses reports whether a step of a case is as f says.
func (c Case) Uses(f func(Step) bool) bool {
	for _, t := range append(c.Turns, c.Beside...) {
		if uses(t.Steps, f) {
			return true
		}
	}
	return false
}

func uses(steps []Step, f func(Step) bool) bool {
	for _, s := range steps {
		if f(s) || uses(s.Steps, f) {
			return true
		}
	}
	return false
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

	NeedSchema  Need = "schema"
	NeedSteer   Need = "steer"
	NeedCompact Need = "compact"

	NeedFiles      Need = "files"      // own tools that change files
	NeedAddDirs    Need = "add_dirs"   // it works in more than one directory
	NeedSubagents  Need = "subagents"  // its model can start other agents
	NeedBackground Need = "background" // commands that run on while its model goes on
	NeedModels     Need = "models"     // a model can be chosen
	NeedEffort     Need = "effort"
	NeedToolChoice Need = "tool_choice"
	NeedMaxTurns   Need = "max_turns"
	NeedMaxCost    Need = "max_cost" // it can stop by itself
	NeedCost       Need = "cost"     // it knows what a turn costs
	NeedCached     Need = "cached"   // its usage tells cached tokens
	NeedPremium    Need = "premium"  // its vendor counts premium requests
	NeedRequests   Need = "requests" // it has a model that is asked over a network
	NeedLogin      Need = "login"    // it must be logged in, or have a key
	NeedNatives    Need = "natives"  // own tools that its model is offered

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

	Files   map[string]string // written before; paths in the conversation's directory, or absolute
	Compact *Compact          // before the turn the host asks for it; needs NeedCompact
	Tools   []backends.Tool   // of the host, besides those that the steps call
	// Set is the rest of the settings: what is set here stands. System, Tools,
	// Permission and Interactive have their own fields above.
	Set backends.Settings
}

// What the texts of a case may hold: the suite puts in what it stands for.
const (
	InDir        = "{dir}"         // the conversation's directory
	InAdded      = "{added}"       // a directory beside it, which is one of Config.AddDirs then
	InModel      = "{model}"       // Rig.Models[0]
	InOtherModel = "{other-model}" // Rig.Models[1]
	InEffort     = "{effort}"      // Rig.Efforts[0]
	InMoreEffort = "{more-effort}" // Rig.Efforts[1]
	InClash      = "{clash}"       // Rig.Clash
)

// Before is what happens to the agent before a turn.
type Before string

// What may happen. The conversation is then opened again with its session.
const (
	BeforeNothing Before = ""
	BeforeClose   Before = "close"   // the conversation is closed
	BeforeKill    Before = "kill"    // its process is killed with SIGKILL; needs NeedProcess
	BeforeRestart Before = "restart" // the whole backend is closed and made again, as after a restart of the server
	BeforeCopy    Before = "copy"    // the same, from a copy of the agent home; needs Rig.Copy
)

// Host is how the host behaves during a turn.
type Host struct {
	// Replies answer requests, each one at most; a request takes the first
	// that fits. A request that none fits gets no answer.
	Replies []Reply
	Cancel  Cancel
	Steer   Steer
	// Panics has waiting for an answer panic, as a fault of innerd's own would.
	Panics bool
}

// Steer is input to the running turn. Once the turn is over the suite steers
// again, which must be too late. The zero value is never.
type Steer struct {
	On   events.Type // at the first event of this type
	Text string
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
	// Steered holds the answer back until the agent has taken the Steer.
	Steered bool
	// Many says that it answers all requests that it fits.
	Many bool
}

// Cancel is when the host cancels the turn, with backends.ErrCanceled. The
// zero value is never.
type Cancel struct {
	On    events.Type // at the first event of this type
	Early bool        // before the agent has said anything: when the model was asked, where that can be seen
	// Began is a file that a command of On's call makes: the cancel waits until
	// it is there, where the agent's tools are real. A tool that is canceled
	// before it began shows nothing, and one that never began less.
	Began string
	// Stalled says that the watchdog cancels, with backends.ErrStalled.
	Stalled bool
}

// some reports whether there is a cancel.
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

	// Exact says that Said are all messages, and Thought all reasoning if it
	// is not nil.
	Exact bool
	// Never are words that no message holds.
	Never []string
	// HeardFiles are contents of files: the model was told each, or the path
	// of a file that holds it.
	HeardFiles []string
	// Changes are all changes of files that were told, in order.
	Changes []ChangeWant
	// Disk is what files hold after the turn, by paths in the conversation's
	// directory or absolute ones; nil is a file that is not there.
	Disk map[string]*string
	// Subagents are all that were started.
	Subagents []SubagentWant
	// States are states of session.status that were told, also while Compact.
	States []string
	// Model is the model that the usage names, and that was asked where the
	// seat is a Viewer. Effort likewise.
	Model, Effort string
	// Offered are tools of the host that the model was offered, Withheld those
	// that it was not; for seats that are Viewers.
	Offered, Withheld []string
	// Natives are the agent's own tools that the model may have been offered;
	// nil is not checked.
	Natives []string
	// Asked says that a permission was asked for.
	Asked bool
	// SameAsks says that all permissions were asked for with one tool and one
	// input: a host's "always" is kept by both.
	SameAsks bool
	// Output is the structured output, as JSON.
	Output string
	// Counted are names of usage fields that must be there.
	Counted []string
	// Held is how long the model kept its first word back: the time to the first
	// token is not shorter, and the whole duration not shorter than that.
	Held time.Duration
	// MaxRetries is how often the agent may tell at the most that it tries again;
	// 0 is not checked.
	MaxRetries int
	// MaxAsks is how often the model may have been asked in the turn at the
	// most, retries and probes too; 0 is not checked. For seats that are Counters.
	MaxAsks int
	// RetryAfter is when the provider says that it may be asked again.
	RetryAfter time.Duration
	// Dead are words of command lines: soon after the turn no process has one.
	Dead []string
}

// ChangeWant is a change of a file.
type ChangeWant struct {
	Path string // in the conversation's directory
	Kind string
	Diff []string // lines of the unified diff, with their sign; nil: it may be without one
}

// SubagentWant is a sub-agent that was started and ended.
type SubagentWant struct {
	Text   string // part of its deltas or its result
	Output string // part of the result of a tool that it ran; "" is none
}

// ToolWant is a call of the agent's own tool.
type ToolWant struct {
	Input    string // part of a text in its input
	Output   string // part of its result
	Success  bool
	ExitCode *int // nil is not checked
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
