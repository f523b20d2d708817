package backendtest

import (
	"encoding/json"
	"slices"

	"innerd/backends"
	"innerd/events"
)

// Step is one thing the agent shall do: exactly one of its fields but
// ChunkBytes and DelayMS is set, and Steps with Repeat. Its JSON is a step of
// the simulated agent's script.
//
// Native tools are written for a shell: Name "shell", Input {"command": …}.
// A rig maps them to its agent's own tool, whose real output must then hold
// Output.
type Step struct {
	Text       string        `json:"text,omitempty"`      // a message of its own
	Reasoning  string        `json:"reasoning,omitempty"` // a block of its own
	ChunkBytes int           `json:"chunk_bytes,omitempty"`
	DelayMS    int           `json:"delay_ms,omitempty"` // between pieces
	Tool       *Tool         `json:"tool,omitempty"`
	Call       *Call         `json:"call,omitempty"`
	Calls      []Call        `json:"calls,omitempty"` // all open at once
	Permission *Permission   `json:"permission,omitempty"`
	Ask        *Ask          `json:"ask,omitempty"`
	Usage      *events.Usage `json:"usage,omitempty"` // what the turn used
	SleepMS    int           `json:"sleep_ms,omitempty"`
	Flood      *Flood        `json:"flood,omitempty"`
	Retry      *Retry        `json:"retry,omitempty"`
	Error      *Error        `json:"error,omitempty"`
	Stall      bool          `json:"stall,omitempty"` // the model never answers
	Empty      bool          `json:"empty,omitempty"` // the model answers nothing
	Crash      *Crash        `json:"crash,omitempty"`
	Finish     string        `json:"finish,omitempty"` // the stop reason of the turn
	Repeat     int           `json:"repeat,omitempty"`
	Steps      []Step        `json:"steps,omitempty"`
	Noise      Noise         `json:"noise,omitempty"` // only with NeedLines

	Native     *Native         `json:"native,omitempty"`
	Change     *Change         `json:"change,omitempty"`
	Subagent   *Subagent       `json:"subagent,omitempty"`
	Background *Background     `json:"background,omitempty"`
	Compact    *Compact        `json:"compact,omitempty"`
	Full       bool            `json:"full,omitempty"`   // the next answer of the model says that its context is nearly full
	Next       bool            `json:"next,omitempty"`   // the model's answer ends here: what follows answers its next request
	Output     json.RawMessage `json:"output,omitempty"` // the answer to Settings.Schema, said as its JSON text
	Cut        *Cut            `json:"cut,omitempty"`
	// Refused says that the model's address refuses connections, for the whole
	// case: a seat sees it in its Case, by Case.Uses.
	Refused bool `json:"refused,omitempty"`
}

// Native is a call of one of the agent's own tools under the agent's own name
// of it and with its own input, as Rig.Natives lists them.
type Native struct {
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input,omitempty"`
}

// Change is a change of a file by the agent's own tool for it, in the
// conversation's directory. A rig whose agent has no tool for a Kind says so
// in Rig.Skip.
type Change struct {
	Kind string `json:"kind"`           // create, edit, delete, move
	Path string `json:"path"`           // absolute; the suite has put the directory in
	To   string `json:"to,omitempty"`   // move: the new path
	Text string `json:"text,omitempty"` // create: all of it
	Old  string `json:"old,omitempty"`  // edit: a line that is replaced; also move and delete: what is in the file
	New  string `json:"new,omitempty"`  // edit: by this line
}

// Subagent is a call of the agent's own tool that has another agent do a task
// and waits for it. The sub-agent runs Command, if there is one, and says Text.
type Subagent struct {
	Task    string `json:"task"`
	Command string `json:"command,omitempty"`
	Output  string `json:"output,omitempty"` // part of the command's
	Text    string `json:"text"`
}

// Background is a command of the agent's own shell that runs on while the
// model goes on: the call returns at once. With Done, the agent hears that it
// has ended and its model is asked again; the steps after it are that answer.
type Background struct {
	Command string `json:"command"`
	MS      int    `json:"ms,omitempty"` // how long it runs, for an agent without a shell
	Done    bool   `json:"done,omitempty"`
}

// Compact is the model's answer where the agent has its memory summed up: on
// request (Turn.Compact), or by itself, since the model said that its context
// was nearly full (Step.Full in the turn before).
type Compact struct {
	Summary string `json:"summary"`
	Auto    bool   `json:"auto,omitempty"`
}

// Cut is a model stream that breaks each time it is asked for, after Text.
type Cut struct {
	Text string `json:"text"`
}

// Tool is a call of the agent's own tool that asks nobody.
type Tool struct {
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input,omitempty"`
	Output   string          `json:"output,omitempty"`
	ExitCode *int            `json:"exit_code,omitempty"`
	MS       int             `json:"ms,omitempty"` // how long it runs
}

// Permission is a call of the agent's own tool that asks first.
type Permission struct {
	Tool     string          `json:"tool"`
	Input    json.RawMessage `json:"input,omitempty"`
	Output   string          `json:"output,omitempty"`
	ExitCode *int            `json:"exit_code,omitempty"`
}

// Call is a call of the host's tool.
type Call struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Ask is a question to the user.
type Ask struct {
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"schema,omitempty"`
}

// Flood is much text, very fast.
type Flood struct {
	Deltas    int     `json:"deltas"`
	Bytes     int     `json:"bytes,omitempty"` // of each; 0: 40
	PerSecond float64 `json:"per_second,omitempty"`
}

// Retry is a model stream that breaks in the middle of a message, which then
// comes again whole.
type Retry struct {
	Text      string `json:"text,omitempty"`
	Reasoning string `json:"reasoning,omitempty"` // it breaks in a block of reasoning instead; both then come
}

// Error is a failure of the model that is not cured by trying again.
type Error struct {
	Message     string  `json:"message,omitempty"`
	Type        string  `json:"error_type"`
	RetryAfterS float64 `json:"retry_after_s,omitempty"` // what the provider says
}

// Crash is the death of the agent's process. A rig whose agent can't be made
// to exit so may kill it: any end but a clean one will do.
type Crash struct {
	ExitCode int    `json:"exit_code,omitempty"`
	Stderr   string `json:"stderr,omitempty"`
}

// Noise is something on the agent's stdout, between messages, that a careful
// reader survives. Rigs do it with a fake of the agent's program.
type Noise string

// Kinds of noise.
const (
	NoiseHugeLine     Noise = "huge_line"     // a line of 64 MiB and one byte
	NoiseNotJSON      Noise = "not_json"      // lines that are no JSON, among them one with a multi-byte character across byte 200, one that is not UTF-8, and an empty one
	NoiseUnknownEvent Noise = "unknown_event" // well-formed events of types nobody knows, and known ones with unknown fields
	NoiseDeaf         Noise = "deaf"          // the next call's result is not read before 4 MiB more of output were taken
)

// Script is the steps as the simulated agent's options.
func Script(steps []Step) json.RawMessage {
	raw, err := json.Marshal(struct {
		Script []Step `json:"script"`
	}{steps})
	if err != nil {
		panic("backendtest: " + err.Error()) // a case with arguments that are no JSON
	}
	return raw
}

// Tools are the host's tools that the steps call, as the run offers them.
func Tools(steps []Step) []backends.Tool {
	var names []string
	collect(steps, &names)
	slices.Sort(names)
	var out []backends.Tool
	for _, name := range slices.Compact(names) {
		out = append(out, backends.Tool{
			Name: name, Description: "A tool of the host for tests, called " + name + ".",
			Schema: json.RawMessage(`{"type":"object"}`), Parallel: true,
		})
	}
	return out
}

func collect(steps []Step, names *[]string) {
	for _, s := range steps {
		if s.Call != nil {
			*names = append(*names, s.Call.Tool)
		}
		for _, c := range s.Calls {
			*names = append(*names, c.Tool)
		}
		collect(s.Steps, names)
	}
}
