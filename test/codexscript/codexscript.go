// Package codexscript has a model say what makes the real Codex do the steps
// of a conformance case.
package codexscript

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/backends/backendtest"
	"innerd/test/agentscript"
	"innerd/test/modelstub"
)

// Model is the one that the scripts are for: it is offered tools outright,
// where newer ones write programs that call them.
const Model = "gpt-5.5"

// Script is what the model does during one turn of the agent: text and
// reasoning up to a call are one model turn. Next may be called at the same
// time from several goroutines.
type Script struct {
	t    testing.TB
	kill func() error

	blocks  []modelstub.Block
	usage   *modelstub.Usage
	finish  string
	below   []Turn // of a sub-agent that the steps start
	unasked bool

	mu    sync.Mutex
	turns []Turn
}

// Turn is one answer of the model; one that lasts answers all that come.
type Turn struct {
	Turn  modelstub.Turn
	Lasts bool
	// For is in the last prompt of the requests that it answers, where other
	// agents ask the same model: "" is the main agent.
	For string
	// Make makes it of the request, where it can't be known before.
	Make func(modelstub.Request) modelstub.Turn
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
		turn := m.Turn
		if m.Make != nil {
			turn = m.Make(r)
		}
		if m.Lasts {
			return turn, turns
		}
		return turn, slices.Delete(slices.Clone(turns), i, i+1)
	}
	return over, turns
}

func fits(m Turn, r modelstub.Request, all []Turn) bool {
	asked := ""
	for _, other := range all {
		if other.For != "" && begins(r, other.For) {
			asked = other.For
		}
	}
	return m.For == asked
}

// begins reports whether a request is of an agent whose task this is.
func begins(r modelstub.Request, task string) bool {
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if m.Role == "user" && p.Type == "text" && p.Text == task {
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
	if s.finish != "" {
		t = t.Stops(s.finish)
	}
	s.add(t)
	s.turns = append(s.turns, s.below...)
	s.blocks, s.usage, s.below = nil, nil, nil
}

func (s *Script) say(b modelstub.Block) { s.blocks = append(s.blocks, b) }

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
		s.say(cut(modelstub.Thinking(step.Reasoning)))
	case len(step.Output) > 0:
		s.say(cut(modelstub.Text(string(step.Output))))
	case step.Flood != nil:
		size := step.Flood.Bytes
		if size == 0 {
			size = 40
		}
		s.say(modelstub.Flood(step.Flood.Deltas, size))
	case step.Usage != nil:
		s.usage = agentscript.Usage(step.Usage)
	case step.Full:
		s.usage = &modelstub.Usage{Input: 250_000, Output: 10}
	case step.SleepMS > 0:
		s.say(modelstub.Control().Sleep(time.Duration(step.SleepMS) * time.Millisecond))
	case step.Finish != "":
		s.finish = step.Finish
	case step.Next:
		s.flush()
	case step.Compact != nil:
		s.flush()
		s.add(modelstub.Say(modelstub.Text(step.Compact.Summary)))
	case step.Noise != "", step.Refused: // not the model's
	case !s.call(step) && !s.work(step) && !s.failure(step):
		s.t.Errorf("codexscript: there is no way to do %+v", step)
	}
}

// call ends a model turn with calls.
func (s *Script) call(step backendtest.Step) bool {
	switch {
	case step.Tool != nil:
		s.unasked = true
		s.say(modelstub.Tool("exec_command", shell(step.Tool.Input)))
	case step.Permission != nil:
		s.say(modelstub.Tool("exec_command", shell(step.Permission.Input)))
	case step.Call != nil:
		s.say(agentscript.Call(HostName(step.Call.Tool), step.Call.Arguments))
	case len(step.Calls) > 0:
		for _, c := range step.Calls {
			s.say(agentscript.Call(HostName(c.Tool), c.Arguments))
		}
	case step.Ask != nil:
		s.say(modelstub.Tool("request_user_input", map[string]any{"questions": []any{map[string]any{
			"id": "q1", "header": "Question", "question": step.Ask.Message,
			"options": []any{map[string]any{"label": "Red", "description": "r"}, map[string]any{"label": "Blue", "description": "b"}},
		}}}))
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
		s.say(native(*step.Native))
	case step.Change != nil:
		s.unasked = true
		s.say(modelstub.Custom("apply_patch", agentscript.Patch(*step.Change)))
	case step.Background != nil && step.Background.Done:
		s.flush() // the model is asked again
		return true
	case step.Background != nil:
		s.unasked = true
		s.say(modelstub.Tool("exec_command", map[string]any{"cmd": step.Background.Command, "yield_time_ms": 250}))
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
	s.say(modelstub.Tool("spawn_agent", map[string]any{"message": a.Task}).Namespace("multi_agent_v1"))
	if a.Command != "" {
		s.below = append(s.below, Turn{For: a.Task, Turn: modelstub.Say(modelstub.Tool("exec_command", map[string]any{"cmd": a.Command}))})
	}
	s.below = append(s.below, Turn{For: a.Task, Turn: modelstub.Say(modelstub.Text(a.Text))})
	s.flush()
	s.turns = append(s.turns, Turn{Make: waits})
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
	name, namespace := n.Tool, ""
	if ns, tool, ok := strings.Cut(n.Tool, "."); ok {
		name, namespace = tool, ns
	}
	b := modelstub.Tool(name, args)
	if namespace != "" {
		b = b.Namespace(namespace)
	}
	return b
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
		s.say(agentscript.Crash(s.t, s.kill))
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
		s.say(modelstub.Thinking(r.Reasoning))
		if r.Text != "" {
			s.say(modelstub.Text(r.Text))
		}
		return
	}
	s.add(modelstub.Say(modelstub.Text(half(r.Text)).Sleep(agentscript.Told).Cut(modelstub.CutReset)))
	s.say(modelstub.Text(r.Text))
}

// HostName is the name under which the model is offered a tool of the host.
func HostName(tool string) string {
	switch tool {
	case "exec_command", "apply_patch":
		return "host_" + tool
	}
	return tool
}

func shell(in json.RawMessage) map[string]any {
	var m struct {
		Command string `json:"command"`
	}
	_ = json.Unmarshal(in, &m) // what is no object has no command
	return map[string]any{"cmd": m.Command}
}

// Heard is all that the model was told in a request, as text: system text,
// messages, results.
func Heard(r modelstub.Request) string { return agentscript.Heard(r, "system", "developer") }

// waits has the main agent wait for the sub-agent that it was just told of.
func waits(r modelstub.Request) modelstub.Turn {
	var started struct {
		ID string `json:"agent_id"`
	}
	_ = json.Unmarshal([]byte(r.ToolResult()), &started) // what is none makes a wait that fails
	return modelstub.Say(modelstub.Tool("wait_agent", map[string]any{
		"targets": []string{started.ID}, "timeout_ms": 20_000,
	}).Namespace("multi_agent_v1"))
}

// Seen is what a request says beside its messages.
func Seen(r modelstub.Request) backendtest.Seen {
	var body struct {
		Reasoning struct {
			Effort string `json:"effort"`
		} `json:"reasoning"`
	}
	_ = json.Unmarshal(r.Body, &body) // a body that is none has no effort
	seen := backendtest.Seen{Model: r.Model, Effort: body.Reasoning.Effort}
	for _, t := range r.Tools {
		name := t.Name
		if t.Namespace != "" {
			name = t.Namespace + "." + name
		}
		switch {
		case strings.HasPrefix(t.Description, "A tool of the host for tests"):
			seen.Tools = append(seen.Tools, strings.TrimPrefix(name, "host_"))
		default:
			seen.Natives = append(seen.Natives, name)
		}
	}
	return seen
}
