// Package claudescript has a model say what makes the real Claude Code do the
// steps of a conformance case.
package claudescript

import (
	"slices"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/test/agentscript"
	"innerd/test/modelstub"
)

// Script is what the model does during one turn of the agent: text and
// reasoning up to a call are one model turn. Next may be called at the same
// time from several goroutines.
type Script struct {
	t    testing.TB
	kill func() error

	blocks  []modelstub.Block
	usage   *modelstub.Usage
	finish  string
	text    bool // the last block is text
	full    bool // the turn says that the context is nearly full
	unasked bool

	mu    sync.Mutex
	turns []Turn
}

// Turn is one answer of the model; one that lasts answers all that come.
type Turn struct {
	Turn  modelstub.Turn
	Lasts bool
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

// Next answers a request of the agent; give it to modelstub's Scenario.Func.
func (s *Script) Next(modelstub.Request) modelstub.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.turns) == 0 {
		return modelstub.Say(modelstub.Text("(script over)"))
	}
	m := s.turns[0]
	if !m.Lasts {
		s.turns = s.turns[1:]
	}
	return m.Turn
}

// Turns are the answers that Next has not given yet.
func (s *Script) Turns() []Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.turns)
}

// Unasked reports whether a step is a tool that asks nobody: no host may be
// needed to allow it.
func (s *Script) Unasked() bool { return s.unasked }

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
	if s.full {
		t = t.Uses(modelstub.Usage{Input: nearlyFull, Output: 10})
	}
	s.add(t)
	switch s.finish { // claude asks the model to go on
	case backends.ReasonMaxTokens:
		s.always(modelstub.Empty().Stops(s.finish))
	case backends.ReasonRefusal:
		s.always(t)
	}
	s.blocks, s.usage, s.text, s.full = nil, nil, false, false
}

// nearlyFull is so many tokens that claude sums up a conversation before it
// asks again: its model's context is a million.
const nearlyFull = 990_000

// say adds text. Two texts in a row would be one message, so that something
// is thought between them.
func (s *Script) say(b modelstub.Block) {
	if s.text {
		s.blocks = append(s.blocks, modelstub.Thinking("And then."))
	}
	s.blocks, s.text = append(s.blocks, b), true
}

func (s *Script) other(b modelstub.Block) { s.blocks, s.text = append(s.blocks, b), false }

func (s *Script) step(step backendtest.Step) {
	delay := time.Duration(step.DelayMS) * time.Millisecond
	switch {
	case step.Text != "":
		b := modelstub.Text(step.Text).Every(delay)
		if step.ChunkBytes > 0 {
			b = b.Chunk(step.ChunkBytes)
		}
		s.say(b)
	case step.Reasoning != "":
		s.other(modelstub.Thinking(step.Reasoning).Every(delay))
	case step.Flood != nil:
		size := step.Flood.Bytes
		if size == 0 {
			size = 40
		}
		s.say(modelstub.Flood(step.Flood.Deltas, size))
	case step.Usage != nil:
		s.usage = agentscript.Usage(step.Usage)
	case step.Full:
		s.full = true
	case step.Next:
		s.flush()
	case step.Compact != nil:
		s.flush()
		s.add(modelstub.Say(modelstub.Text("<summary>" + step.Compact.Summary + "</summary>")))
	case step.SleepMS > 0:
		s.other(modelstub.Control().Sleep(time.Duration(step.SleepMS) * time.Millisecond))
	case step.Finish != "":
		s.finish = step.Finish
	case step.Noise != "", step.Refused: // not the model's: a proxy makes it, a closed port
	case !s.call(step) && !s.own(step) && !s.failure(step):
		s.t.Errorf("claudescript: there is no way to do %+v", step)
	}
}

// call ends a model turn with calls.
func (s *Script) call(step backendtest.Step) bool {
	switch {
	case step.Tool != nil:
		s.unasked = true
		s.blocks = append(s.blocks, modelstub.Tool("Bash", agentscript.Bash(step.Tool.Input)))
	case step.Permission != nil:
		s.blocks = append(s.blocks, modelstub.Tool("Bash", agentscript.Bash(step.Permission.Input)))
	case step.Call != nil:
		s.blocks = append(s.blocks, agentscript.Call("mcp__host__"+step.Call.Tool, step.Call.Arguments))
	case len(step.Calls) > 0:
		for _, c := range step.Calls {
			s.blocks = append(s.blocks, agentscript.Call("mcp__host__"+c.Tool, c.Arguments))
		}
	case step.Ask != nil:
		s.blocks = append(s.blocks, modelstub.Tool("AskUserQuestion", map[string]any{"questions": []any{map[string]any{
			"question": step.Ask.Message, "header": "Question", "multiSelect": false,
			"options": []any{map[string]any{"label": "Red", "description": "r"}, map[string]any{"label": "Blue", "description": "b"}},
		}}}))
	default:
		return false
	}
	s.flush()
	return true
}

// failure is what goes wrong with a model, or with its agent.
func (s *Script) failure(step backendtest.Step) bool {
	switch {
	case step.Retry != nil:
		s.flush()
		s.retry(step.Retry)
	case step.Error != nil:
		s.always(agentscript.Failing(step.Error, 529))
	case step.Cut != nil:
		s.flush()
		s.always(modelstub.Say(modelstub.Text(step.Cut.Text).Sleep(300 * time.Millisecond).Cut(modelstub.CutReset)).CutWhole(modelstub.CutReset))
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

// cut breaks a stream when claude has told what came before.
func cut(b modelstub.Block) modelstub.Block {
	return b.Sleep(agentscript.Told).Cut(modelstub.CutReset)
}

func (s *Script) retry(r *backendtest.Retry) {
	if r.Reasoning != "" {
		s.add(modelstub.Say(cut(modelstub.Thinking(r.Reasoning[:len(r.Reasoning)/2]))))
		s.add(modelstub.Say(modelstub.Thinking(r.Reasoning), modelstub.Text(r.Text)))
		return
	}
	s.add(modelstub.Say(cut(modelstub.Text(r.Text[:len(r.Text)/2]))))
	s.add(modelstub.Say(modelstub.Text(r.Text)))
}

// Heard is all that the model was told in a request, as text: system text,
// messages, results.
func Heard(r modelstub.Request) string { return agentscript.Heard(r) }
