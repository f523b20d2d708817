package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"innerd/adapter/api"
	"innerd/events"
)

// ToolDef is a tool of the host: what the agent is told of it, and what a call
// does. Tool makes one of a Go function; one with a schema of one's own is
// written as a literal.
type ToolDef struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments, an object; nil: any object
	Serial      bool            // never two calls at once

	// Run does one call; calls run at the same time unless Serial. Its context
	// ends with the run, with the call's deadline or Timeout, or when the call
	// was resolved otherwise, and it must return then. An error, like a panic,
	// becomes an error result that the agent reads. Trace gives the call's place
	// in the trace that the run was started in.
	Run func(ctx context.Context, arguments json.RawMessage) (Result, error)

	// Timeout bounds Run; the agent then reads that the tool took too long,
	// whether Run has returned or not. 0: the server's deadline of the call.
	Timeout time.Duration

	// Aliases are other names under which a call is this tool's, like the name
	// that an agent gives to its own tool of the kind. They are not offered.
	Aliases []string

	// Sensitive tools are never offered to an agent, and a call of one is
	// refused. They are for the host's native loop alone.
	Sensitive bool

	// Each of these stops a call with a Pause until the host has answered it.
	RequiresConfirmation bool     // somebody agrees
	RequiresInput        []string // these arguments come from the user; the agent is not asked for them
	External             bool     // somebody else runs it and gives the result; Run is not called
}

// Result is what a tool gives back.
type Result struct {
	Text     string
	Content  []events.Part // replaces Text where it is given
	IsError  bool
	Metadata json.RawMessage // for the server's log; the agent does not read it
}

func failed(format string, args ...any) Result {
	return Result{Text: fmt.Sprintf(format, args...), IsError: true}
}

var errToolTimeout = errors.New("the tool took too long")

// Call runs the tool once, as a call of an agent's does but without a Pause,
// for a native loop that has the same tools. Whatever happens in it becomes a
// Result.
func (t *ToolDef) Call(ctx context.Context, arguments json.RawMessage) Result {
	return t.call(ctx, slog.New(slog.DiscardHandler), arguments, func(f func()) { go f() })
}

// call runs the tool. At its Timeout it gives the result and leaves Run, which
// is then waited for by whoever owns spawn.
func (t *ToolDef) call(ctx context.Context, log *slog.Logger, arguments json.RawMessage, spawn func(func())) Result {
	if t.Run == nil {
		return failed("the tool %q can't be run here", t.Name)
	}
	if t.Timeout <= 0 {
		return t.guarded(ctx, log, arguments)
	}
	ctx, stop := context.WithTimeoutCause(ctx, t.Timeout, errToolTimeout)
	defer stop()
	done := make(chan Result, 1)
	spawn(func() { done <- t.guarded(ctx, log, arguments) }) // ends when Run returns
	late := failed("the tool did not finish within %s", t.Timeout)
	select {
	case r := <-done:
		if context.Cause(ctx) == errToolTimeout && r.IsError {
			return late
		}
		return r
	case <-ctx.Done():
		if context.Cause(ctx) == errToolTimeout {
			return late
		}
		return <-done // nobody waits for the result, but for Run
	}
}

// guarded runs the tool; errors and panics become results.
func (t *ToolDef) guarded(ctx context.Context, log *slog.Logger, arguments json.RawMessage) (res Result) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("tool panicked", "tool", t.Name, "panic", p, "stack", string(debug.Stack()))
			res = failed("the tool failed: %v", p)
		}
	}()
	res, err := t.Run(ctx, arguments)
	if err == nil {
		return res
	}
	res.IsError = true
	if res.Text == "" && len(res.Content) == 0 {
		res.Text = err.Error()
	}
	return res
}

// named reports whether a call of that name is the tool's.
func (t *ToolDef) named(name string) bool {
	return t.Name == name || slices.Contains(t.Aliases, name)
}

// offer is the tool as the agent gets it.
func (t *ToolDef) offer() (api.Tool, error) {
	o := api.Tool{Name: t.Name, Description: t.Description, Parameters: t.Schema, Serial: t.Serial}
	if t.Name == "" {
		return o, errors.New("host: a tool has no name")
	}
	if t.Run == nil && !t.External {
		return o, fmt.Errorf("host: the tool %s has no Run, and is not External", t.Name)
	}
	if len(t.RequiresInput) == 0 {
		return o, nil
	}
	var err error
	if o.Parameters, _, err = splitSchema(t.Schema, t.RequiresInput); err != nil {
		return o, fmt.Errorf("host: the tool %s: %w", t.Name, err)
	}
	return o, nil
}

// find is the tool of a call: by its name, else by an alias.
func find(tools []ToolDef, name string) *ToolDef {
	for _, is := range []func(*ToolDef) bool{
		func(t *ToolDef) bool { return t.Name == name },
		func(t *ToolDef) bool { return t.named(name) },
	} {
		for i := range tools {
			if is(&tools[i]) && !tools[i].Sensitive {
				return &tools[i]
			}
		}
	}
	return nil
}

// Decision answers a permission request.
type Decision struct {
	Option   string // id of one of the options
	Message  string // to the agent, why not
	Remember bool
}

// Question is what an agent asks the user.
type Question struct {
	events.InputRequired

	// Refused says why the answer before did not fit the Schema, in the
	// server's words; "" the first time.
	Refused string
}
