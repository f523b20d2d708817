// Package agentscript is what the scripts of all agents have in common: how a
// model speaks, fails and calls so that an agent does the steps of a
// conformance case.
package agentscript

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/modelstub"
)

// Told is how long a stream that is to be cut stands still first: a busy agent
// has told what came before the cut, which is taken back then.
const Told = time.Second

// Failing is a model that fails in the way of a class; busy is the status of
// one that is overloaded.
func Failing(e *backendtest.Error, busy int) modelstub.Turn {
	switch e.Type {
	case events.ErrAuth:
		return modelstub.Fail(401)
	case events.ErrRateLimit:
		return modelstub.RateLimited(time.Duration(e.RetryAfterS * float64(time.Second)))
	case events.ErrQuota:
		return modelstub.NoCredit()
	case events.ErrInvalidRequest:
		return modelstub.Fail(400)
	case events.ErrContextLength:
		return modelstub.ContextTooLong()
	case events.ErrModelUnavailable:
		return modelstub.Fail(404)
	}
	return modelstub.Fail(busy)
}

// Crash is a block at which the agent is killed, when all before it was said.
// kill is called at most once, from another goroutine.
func Crash(t testing.TB, kill func() error) modelstub.Block {
	gate := modelstub.NewGate()
	go func() { // ends with the test at the latest
		select {
		case <-gate.Reached():
			if err := kill(); err != nil {
				t.Errorf("the agent was not killed: %v", err)
			}
		case <-t.Context().Done():
		}
		gate.Release()
	}()
	return modelstub.Control().Hold(gate)
}

// Call is a call of a tool under the name that the model knows it by.
func Call(name string, args json.RawMessage) modelstub.Block {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	return modelstub.Tool(name, args)
}

// Bash is the input of a shell tool that wants a description.
func Bash(in json.RawMessage) map[string]any {
	var m map[string]any
	_ = json.Unmarshal(in, &m) // what is no object has no command
	if m == nil {
		m = map[string]any{}
	}
	m["description"] = "A command"
	return m
}

// Usage is a usage as providers count it: thinking is a part of the output.
func Usage(u *events.Usage) *modelstub.Usage {
	n := func(p *int64) int {
		if p == nil {
			return 0
		}
		return int(*p)
	}
	return &modelstub.Usage{
		Input: n(u.InputTokens), CacheRead: n(u.CacheReadTokens), CacheWrite: n(u.CacheWriteTokens),
		Output: n(u.OutputTokens) + n(u.ReasoningTokens), Thinking: n(u.ReasoningTokens),
	}
}

// Patch is a change in the words of apply_patch.
func Patch(c backendtest.Change) string {
	var b strings.Builder
	b.WriteString("*** Begin Patch\n")
	switch c.Kind {
	case "create":
		b.WriteString("*** Add File: " + c.Path + "\n")
		for line := range strings.Lines(c.Text) {
			b.WriteString("+" + strings.TrimSuffix(line, "\n") + "\n")
		}
	case "edit":
		b.WriteString("*** Update File: " + c.Path + "\n@@\n-" + c.Old + "\n+" + c.New + "\n")
	case "delete":
		b.WriteString("*** Delete File: " + c.Path + "\n")
	case "move":
		b.WriteString("*** Update File: " + c.Path + "\n*** Move to: " + c.To + "\n@@\n")
		for line := range strings.Lines(c.Old) {
			b.WriteString(" " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	b.WriteString("*** End Patch\n")
	return b.String()
}

// Heard is all that the model was told in a request, as text: system text,
// messages, results. Messages of the roles in system are a part of the system
// text already.
func Heard(r modelstub.Request, system ...string) string {
	out := []byte(r.System + "\n")
	for _, m := range r.Messages {
		if !slices.Contains(system, m.Role) {
			out = hear(out, m.Parts)
		}
	}
	return string(out)
}

func hear(out []byte, parts []modelstub.Part) []byte {
	for _, p := range parts {
		if len(p.Parts) > 0 {
			out = hear(out, p.Parts)
			continue
		}
		out = append(out, p.Text+p.Data+"\n"...)
	}
	return out
}
