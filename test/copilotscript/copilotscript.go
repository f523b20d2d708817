// Package copilotscript has a model say what makes the real Copilot CLI do the
// steps of a conformance case.
package copilotscript

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/test/agentscript"
	"innerd/test/modelstub"
)

// Model is the one that the scripts are for: the tools that a model is offered
// depend on its name.
const Model = "gpt-5.4"

// Script is what the model does during one turn of the agent: text and
// reasoning up to a call are one model turn. Next may be called at the same
// time from several goroutines.
type Script struct {
	t    testing.TB
	kill func() error

	blocks  []modelstub.Block
	usage   *modelstub.Usage
	finish  string
	text    bool   // the last block is text
	below   []Turn // of a sub-agent that the steps start
	unasked bool

	mu    sync.Mutex
	turns []Turn
}

// Turn is one answer of the model; one that lasts answers all that come.
type Turn struct {
	Turn  modelstub.Turn
	Lasts bool
	// For is in the prompt of the agent that it answers: "" is the main agent.
	For string
	// Summary answers the request for a summary of all that was said.
	Summary bool
}

// New translates steps. kill ends the agent's process, where a step says that
// it dies; it is called at most once, from another goroutine.
func New(t testing.TB, steps []backendtest.Step, kill func() error) *Script {
	s := &Script{t: t, kill: kill}
	for _, step := range steps {
		s.step(step)
	}
	s.flush()
	return s
}

const fewer = 8

var over = modelstub.Say(modelstub.Text("(script over)"))

// Unasked reports whether a step is a tool that asks nobody: no host may be
// needed to allow it.
func (s *Script) Unasked() bool { return s.unasked }

// Next answers a request of the agent; give it to modelstub's Scenario.Func.
func (s *Script) Next(r modelstub.Request) modelstub.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	var t modelstub.Turn
	t, s.turns = Take(s.turns, r)
	return t
}

// Take finds the turn that answers a request, and gives what is left.
func Take(turns []Turn, r modelstub.Request) (modelstub.Turn, []Turn) {
	for i, m := range turns {
		if !fits(m, r, turns) {
			continue
		}
		if m.Lasts {
			return m.Turn, turns
		}
		return m.Turn, slices.Delete(slices.Clone(turns), i, i+1)
	}
	return over, turns
}

func fits(m Turn, r modelstub.Request, all []Turn) bool {
	if Summarizes(r) {
		return m.Summary
	}
	asked := ""
	for _, other := range all {
		if other.For != "" && begins(r, other.For) {
			asked = other.For
		}
	}
	return !m.Summary && m.For == asked
}

// Summarizes reports whether a request is for a summary of what was said.
func Summarizes(r modelstub.Request) bool {
	return strings.HasPrefix(lastText(r), "Please create a detailed summary of the conversation so far.")
}

func lastText(r modelstub.Request) string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role != "user" {
			continue
		}
		for _, p := range slices.Backward(m.Parts) {
			if p.Type == "text" {
				return p.Text
			}
		}
	}
	return ""
}

// begins reports whether a request is of an agent whose task this is.
func begins(r modelstub.Request, task string) bool {
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if m.Role == "user" && p.Type == "text" && strings.Contains(p.Text, task) {
				return true
			}
		}
	}
	return false
}

// Turns are the answers that Next has not given yet.
func (s *Script) Turns() []Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.turns)
}

func (s *Script) add(t modelstub.Turn)    { s.turns = append(s.turns, Turn{Turn: t}) }
func (s *Script) always(t modelstub.Turn) { s.turns = append(s.turns, Turn{Turn: t, Lasts: true}) }

// flush ends a model turn.
func (s *Script) flush() {
	if len(s.blocks) == 0 {
		return
	}
	t := modelstub.Say(s.blocks...)
	if s.usage != nil {
		t = t.Uses(*s.usage)
	}
	switch s.finish {
	case "":
	case backends.ReasonRefusal: // what the API itself calls a refusal, copilot does not show
		t = t.Stops("content_filter")
	default:
		t = t.Stops(s.finish)
	}
	s.add(t)
	s.turns = append(s.turns, s.below...)
	if s.finish == backends.ReasonMaxTokens { // copilot asks the model to go on
		s.always(modelstub.Empty().Stops(s.finish))
	}
	s.blocks, s.usage, s.below, s.text = nil, nil, nil, false
}

// say adds text. Two texts in a row would be one message, so that they are
// said by two answers with a call in between that does nothing.
func (s *Script) say(b modelstub.Block) {
	if s.text {
		s.unasked = true
		s.other(modelstub.Tool("list_bash", map[string]any{}))
		s.flush()
	}
	s.blocks, s.text = append(s.blocks, b), true
}

func (s *Script) other(b modelstub.Block) { s.blocks, s.text = append(s.blocks, b), false }

func (s *Script) step(step backendtest.Step) {
	delay := time.Duration(step.DelayMS) * time.Millisecond
	cut := func(b modelstub.Block) modelstub.Block {
		b = b.Every(delay)
		if step.ChunkBytes > 0 {
			b = b.Chunk(step.ChunkBytes)
		}
		return b
	}
	switch {
	case step.Text != "":
		s.say(cut(modelstub.Text(step.Text)))
	case step.Reasoning != "":
		s.other(cut(modelstub.Thinking(step.Reasoning)))
	case len(step.Output) > 0:
		s.say(cut(modelstub.Text(string(step.Output))))
	case step.Flood != nil:
		size := step.Flood.Bytes
		if size == 0 {
			size = 40
		}
		// Copilot takes 0.4 ms of a processor for each piece. It is the bytes that
		// fill pipes, so the same come in fewer pieces.
		s.say(modelstub.Flood(max(step.Flood.Deltas/fewer, 1), size*fewer))
	case step.Usage != nil:
		s.usage = agentscript.Usage(step.Usage)
	case step.Full:
		s.usage = &modelstub.Usage{Input: 126_000, Output: 10}
	case step.SleepMS > 0:
		s.other(modelstub.Control().Sleep(time.Duration(step.SleepMS) * time.Millisecond))
	case step.Finish != "":
		s.finish = step.Finish
	case step.Next:
		s.flush()
	case step.Compact != nil:
		s.flush()
		s.turns = append(s.turns, Turn{Turn: modelstub.Say(modelstub.Text(step.Compact.Summary)), Summary: true})
		if step.Compact.Auto { // beside the turn: the model works meanwhile, and is asked again when it is done
			s.unasked = true
			s.other(modelstub.Tool("bash", map[string]any{"command": "sleep 1", "description": "Wait"}))
			s.flush()
		}
	case step.Noise != "", step.Refused: // not the model's
	case !s.call(step) && !s.work(step) && !s.failure(step):
		s.t.Errorf("copilotscript: there is no way to do %+v", step)
	}
}

// call ends a model turn with calls.
func (s *Script) call(step backendtest.Step) bool {
	switch {
	case step.Tool != nil:
		s.unasked = true
		s.other(modelstub.Tool("bash", agentscript.Bash(step.Tool.Input)))
	case step.Permission != nil:
		s.other(modelstub.Tool("bash", agentscript.Bash(step.Permission.Input)))
	case step.Call != nil:
		s.other(agentscript.Call(step.Call.Tool, step.Call.Arguments))
	case len(step.Calls) > 0:
		for _, c := range step.Calls {
			s.other(agentscript.Call(c.Tool, c.Arguments))
		}
	case step.Ask != nil:
		s.other(modelstub.Tool("ask_user", map[string]any{"question": step.Ask.Message, "choices": []string{"red", "blue"}}))
	default:
		return false
	}
	s.flush()
	return true
}

// work is what the agent does by itself beside its shell.
func (s *Script) work(step backendtest.Step) bool {
	switch {
	case step.Native != nil:
		s.other(native(*step.Native))
	case step.Change != nil:
		s.unasked = true
		s.other(modelstub.Custom("apply_patch", agentscript.Patch(*step.Change)))
	case step.Background != nil && step.Background.Done:
		s.flush() // the agent asks the same model again, by itself
		return true
	case step.Background != nil:
		s.unasked = true
		s.other(modelstub.Tool("bash", map[string]any{"command": step.Background.Command, "description": "Background work", "mode": "async", "shellId": "work"}))
	case step.Subagent != nil:
		s.unasked = true
		s.subagent(*step.Subagent)
		return true
	default:
		return false
	}
	s.flush()
	return true
}

// subagent has a sub-agent started and waited for. Both agents ask the same
// model: the sub-agent's task tells its requests.
func (s *Script) subagent(a backendtest.Subagent) {
	s.other(modelstub.Tool("task", map[string]any{
		"agent_type": "general-purpose", "name": "helper", "description": "A task", "prompt": a.Task, "mode": "sync",
	}))
	if a.Command != "" {
		s.below = append(s.below, Turn{For: a.Task, Turn: modelstub.Say(modelstub.Tool("bash", map[string]any{"command": a.Command, "description": "A command"}))})
	}
	s.below = append(s.below, Turn{For: a.Task, Turn: modelstub.Say(modelstub.Text(a.Text))})
	s.flush()
}

// native is a call of a tool under its own name. One that takes free text has
// it as its input's "input".
func native(n backendtest.Native) modelstub.Block {
	var in struct {
		Input *string `json:"input"`
	}
	if n.Tool == "apply_patch" && json.Unmarshal(n.Input, &in) == nil && in.Input != nil {
		return modelstub.Custom(n.Tool, *in.Input)
	}
	args := n.Input
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	return modelstub.Tool(n.Tool, args)
}

// failure is what goes wrong with a model, or with its agent.
func (s *Script) failure(step backendtest.Step) bool {
	switch {
	case step.Retry != nil:
		s.retry(step.Retry)
	case step.Cut != nil:
		s.flush()
		s.always(modelstub.Say(modelstub.Text(step.Cut.Text).Sleep(100 * time.Millisecond).Cut(modelstub.CutReset)))
	case step.Error != nil:
		s.always(agentscript.Failing(step.Error, 503))
	case step.Stall:
		s.always(modelstub.NoAnswer())
	case step.Empty:
		s.always(modelstub.Empty())
	case step.Crash != nil:
		s.other(agentscript.Crash(s.t, s.kill))
	default:
		return false
	}
	return true
}

// retry breaks a stream in its middle, and says all of it when it is asked again.
func (s *Script) retry(r *backendtest.Retry) {
	s.flush()
	half := func(text string) string { return text[:len(text)/2] }
	if r.Reasoning != "" {
		s.add(modelstub.Say(modelstub.Thinking(half(r.Reasoning)).Sleep(agentscript.Told).Cut(modelstub.CutReset)))
		s.other(modelstub.Thinking(r.Reasoning))
		if r.Text != "" {
			s.say(modelstub.Text(r.Text))
		}
		return
	}
	s.add(modelstub.Say(modelstub.Text(half(r.Text)).Sleep(agentscript.Told).Cut(modelstub.CutReset)))
	s.say(modelstub.Text(r.Text))
}

// Heard is all that the model was told in a request, as text: system text,
// messages, results.
func Heard(r modelstub.Request) string { return agentscript.Heard(r, "system", "developer") }

// Seen is what a request says beside its messages.
func Seen(r modelstub.Request) backendtest.Seen {
	var body struct {
		Effort string `json:"reasoning_effort"`
	}
	_ = json.Unmarshal(r.Body, &body) // a body that is none has no effort
	seen := backendtest.Seen{Model: r.Model, Effort: body.Effort}
	for _, t := range r.Tools {
		if strings.HasPrefix(t.Description, "A tool of the host for tests") {
			seen.Tools = append(seen.Tools, t.Name)
		} else {
			seen.Natives = append(seen.Natives, t.Name)
		}
	}
	return seen
}
