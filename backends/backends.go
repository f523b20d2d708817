// Package backends is what an agent is to the rest of innerd: a Backend opens
// Conversations, a Conversation runs turns and reports through a Host. Each
// agent is one folder below this one and knows nothing of the others.
package backends

import (
	"context"
	"encoding/json"
	"time"

	"innerd/events"
)

// Backend is one kind of agent. Its methods may be called at the same time.
type Backend interface {
	// Name is the word a host chooses it by: "simulate", "claude-code", "codex", "copilot".
	Name() string
	// Probe says whether the agent can run here. It is cached and cheap.
	Probe(context.Context) Status
	// Open starts a conversation, or resumes cfg.Session. It returns
	// ErrNoSession if that cannot be resumed; nothing was started then. Any
	// other failure is an *Error, or wraps the cause of ctx.
	Open(context.Context, Config) (Conversation, error)
	// Close ends what conversations share, after all of them were closed.
	Close(context.Context) error
}

// Conversation is one memory of an agent. Runs go one after another; Close may
// run beside one.
type Conversation interface {
	// Run puts in into the agent and blocks until everything that was put in
	// is answered, reporting through h. It returns ErrNewSession, before
	// anything was sent, where in.Set can only take effect in a new session.
	// When ctx ends it asks the agent to stop, waits Config.Grace, then ends
	// it; it returns when nothing of the turn is left, wrapping
	// context.Cause(ctx). Failures of the agent or its model are an *Error.
	Run(ctx context.Context, in Input, h Host) (Outcome, error)
	// Done is closed when it can take no further run: its process is gone, or
	// it was given up.
	Done() <-chan struct{}
	// Close ends the agent of this conversation and waits until it is gone.
	Close(context.Context) error
}

// Host is what a run may ask of the outside. Its methods may be called at the
// same time, but the order of the log is the order of the calls, so that one
// goroutine, the one that reads the agent, should make them.
type Host interface {
	// Emit appends to the run's log. It may wait for the disk, never for a
	// reader. After the run's end it does nothing, and counts. An event
	// without data says only that the agent lives, for the stall watchdog.
	Emit(events.Event)
	// Request puts r into the log and returns. The end of ctx, like the end
	// of the run, resolves it as canceled.
	Request(ctx context.Context, r events.Request) Pending
}

// Pending is a request that was made.
type Pending interface {
	// Wait blocks until the request is resolved: it is the only blocking call
	// of a Host, so give it a goroutine of its own. The error is the cause of
	// a cancel; the Answer is whole all the same.
	Wait() (events.Answer, error)
}

// Steerer is a Conversation that takes input while a turn runs.
type Steerer interface {
	// Steer returns when the agent has the input; ErrTooLate if the turn was
	// over first.
	Steer(context.Context, []events.Part) error
}

// Validator is a Backend that can refuse settings before a run exists.
type Validator interface {
	// Validate returns a *FieldError for settings that no turn could use.
	Validate(Settings) error
}

// Input is what one turn puts into the agent.
type Input struct {
	Parts   []events.Part // the prompt: text and attachments (Data or Path; URLs were fetched)
	History string        // a rendered block to tell first; "" when the agent knows all
	Set     Settings      // whole, every time; the backend applies it the cheapest way it has
}

// Permission modes.
const (
	PermissionAuto = "auto"
	PermissionAsk  = "ask"
	PermissionDeny = "deny"
)

// Background policies: what becomes of work that still runs when the turn is over.
const (
	BackgroundEnd  = "end"
	BackgroundWait = "wait"
)

// Settings is how a turn shall run. The zero value of each field is the
// agent's own default.
type Settings struct {
	Model          string
	Effort         string
	ThinkingTokens int
	System         string // appended to the agent's own system text
	Tools          []Tool // the host's, to be bridged
	ToolChoice     json.RawMessage
	Schema         json.RawMessage // JSON Schema of the answer
	Permission     string          // how permissions are answered; the Host does it, backends always ask
	Interactive    bool            // a user is there for questions
	MaxTurns       int
	MaxCost        float64         // USD of this run, for agents that can stop by themselves; 0: no limit
	Background     string          // BackgroundEnd (also ""), BackgroundWait
	Options        json.RawMessage // agent_options: an object whose keys are the backend's own
}

// Tool is a tool of the host.
type Tool struct {
	Name        string // the host's name of it
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments, an object
	Parallel    bool            // false: never two calls at once
}

// Config is what a conversation keeps for its life.
type Config struct {
	ID         string // the conversation's ULID, also the mark of its children
	Dir        string // working directory, absolute, exists
	AddDirs    []string
	Env        map[string]string // added to what agents inherit
	Credential *Credential       // nil: the server's own
	Grace      time.Duration     // between asking an agent to stop and ending it
	Session    Session           // zero: new
	// Save stores the session's id; durable when it returns. Call it before
	// the first model request and at every change of id.
	Save func(Session) error
	// MCP is the second road for bridged tools; nil when there is none.
	MCP *MCPEndpoint
	// Traceparent and Tracestate are the place of the conversation's agent in
	// its host's trace, as W3C writes it. They are given where the conversation
	// is one run's own; a process that others use too has none.
	Traceparent, Tracestate string
	// Stray takes what the agent says outside a run.
	Stray func(events.Event)
}

// Session is the agent's own name of a conversation.
type Session struct {
	ID    string          `json:"id,omitempty"`
	State json.RawMessage `json:"state,omitempty"` // what else the backend needs to resume it
}

// Zero reports whether there is no session.
func (s Session) Zero() bool { return s.ID == "" }

// Credential is one way to reach a model. It is never logged or stored.
type Credential struct {
	Key      string
	BaseURL  string
	Model    string
	Provider string
}

// String keeps the key out of logs.
func (c *Credential) String() string { return "[credential]" }

// MarshalJSON keeps the key out of anything stored.
func (c *Credential) MarshalJSON() ([]byte, error) { return []byte(`"[credential]"`), nil }

// MCPEndpoint is a loopback MCP server with the host's tools.
type MCPEndpoint struct {
	URL   string
	Token string // Bearer
}

// Outcome is how a turn ended that the agent finished.
type Outcome struct {
	Reason string          // end_turn, max_tokens, refusal, stop_sequence, tool_call_limit, max_turns, max_cost
	Stored bool            // the agent has this turn on its own disk
	Output json.RawMessage // what Settings.Schema asked for
}

// Reasons of a completed run.
const (
	ReasonEndTurn       = "end_turn"
	ReasonMaxTokens     = "max_tokens"
	ReasonRefusal       = "refusal"
	ReasonStopSequence  = "stop_sequence"
	ReasonToolCallLimit = "tool_call_limit"
	ReasonMaxTurns      = "max_turns"
	ReasonMaxCost       = "max_cost"
)

// Status says whether an agent can run here.
type Status struct {
	Usable       bool         `json:"usable"`
	Version      string       `json:"version,omitempty"`
	Pinned       string       `json:"pinned,omitempty"` // the version this build was tested with
	Login        string       `json:"login,omitempty"`  // how it would authenticate: "key", "login", "none"
	Source       string       `json:"source,omitempty"` // which credential it would use, never its value: Access.Source
	Models       []string     `json:"models,omitempty"`
	Capabilities Capabilities `json:"capabilities"`
	Why          string       `json:"why,omitempty"`  // why not usable
	Hint         string       `json:"hint,omitempty"` // what to do
	// Pending: Why will not last, ask again in some seconds.
	Pending bool `json:"-"`
	// ErrorType of a run that is started all the same: backend_unavailable
	// (no binary) or auth (no key, no login).
	ErrorType string `json:"-"`
}

// Capabilities is what an agent can do; what is false answers 501 or is left out.
type Capabilities struct {
	Resume      bool `json:"resume"`
	Reasoning   bool `json:"reasoning"`
	Tools       bool `json:"tools"` // bridged
	Permissions bool `json:"permissions"`
	Questions   bool `json:"questions"`
	Images      bool `json:"images"`
	Schema      bool `json:"schema"`
	Steer       bool `json:"steer"`   // its Conversations are Steerers
	Compact     bool `json:"compact"` // its Conversations are Compacters
	Shared      bool `json:"shared"`  // conversations share a process
}
