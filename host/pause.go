package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"innerd/events"
)

// TypePause is the type of a *Pause in a stream. It comes from this library,
// never from a server.
const TypePause events.Type = "host.pause"

// Kinds of Pause.
const (
	PauseConfirmation = "confirmation" // answer with Confirm or Deny
	PauseInput        = "input"        // answer with Provide or Deny
	PauseExternal     = "external"     // answer with Resolve or Deny
)

// Pause is an event of a stream: a call of a tool waits for an answer of the
// host. It comes right after the call's tool.execution_request and has no id.
//
// Answer it in the loop or later, from anywhere: the stream is read on
// meanwhile. The first answer counts. A Pause that nobody answers ends with its
// call's deadline, or with the run.
type Pause struct {
	Kind   string             `json:"kind"`
	Call   events.ToolRequest `json:"call"`
	Schema json.RawMessage    `json:"schema,omitempty"` // PauseInput: an object with what is to be given

	mu     sync.Mutex
	closed bool
	answer chan pauseAnswer // of one
	over   chan struct{}
}

type pauseAnswer struct {
	input  map[string]json.RawMessage // to the arguments
	result *Result                    // instead of running the tool
}

// ErrPauseOver says that a Pause was answered before, or that its call is not
// open any more.
var ErrPauseOver = errors.New("host: the pause is over")

// EventType implements events.Data.
func (*Pause) EventType() events.Type { return TypePause }

// pauseOf is the pause that a call of t needs, nil if none.
func pauseOf(t *ToolDef, r events.ToolRequest) *Pause {
	p := &Pause{Call: r, answer: make(chan pauseAnswer, 1), over: make(chan struct{})}
	switch {
	case t == nil:
		return nil
	case t.External:
		p.Kind = PauseExternal
	case len(t.RequiresInput) > 0:
		p.Kind = PauseInput
		_, p.Schema, _ = splitSchema(t.Schema, t.RequiresInput) // it went well when the run started
	case t.RequiresConfirmation:
		p.Kind = PauseConfirmation
	default:
		return nil
	}
	return p
}

// Confirm lets the tool run.
func (p *Pause) Confirm() error { return p.give(PauseConfirmation, pauseAnswer{}) }

// Provide gives the arguments that the user fills in, an object, and lets the
// tool run.
func (p *Pause) Provide(input map[string]any) error {
	a := pauseAnswer{input: map[string]json.RawMessage{}}
	for k, v := range input {
		raw, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("host: %s: %w", k, err)
		}
		a.input[k] = raw
	}
	return p.give(PauseInput, a)
}

// Resolve gives the result of a tool that ran elsewhere.
func (p *Pause) Resolve(r Result) error { return p.give(PauseExternal, pauseAnswer{result: &r}) }

// Deny refuses the call; the agent reads why.
func (p *Pause) Deny(why string) error {
	if why == "" {
		why = "the user declined"
	}
	return p.give("", pauseAnswer{result: &Result{Text: why, IsError: true}})
}

// Done is closed when the call waits no longer, whoever ended it.
func (p *Pause) Done() <-chan struct{} { return p.over }

func (p *Pause) give(kind string, a pauseAnswer) error {
	if kind != "" && kind != p.Kind {
		return fmt.Errorf("host: the call of %s waits for %s, not for %s", p.Call.ToolName, p.Kind, kind)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrPauseOver
	}
	p.closed = true
	p.answer <- a
	return nil
}

// end closes a pause for good.
func (p *Pause) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	select {
	case <-p.over:
	default:
		close(p.over)
	}
}

// merge adds what the user gave to what the agent gave.
func merge(arguments json.RawMessage, input map[string]json.RawMessage) json.RawMessage {
	if len(input) == 0 {
		return arguments
	}
	all := map[string]json.RawMessage{}
	_ = json.Unmarshal(arguments, &all) // a server sends an object
	for k, v := range input {
		all[k] = v
	}
	return must(all)
}
