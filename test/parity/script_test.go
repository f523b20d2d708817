//go:build linux

package parity_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"innerd/test/modelstub"
)

// step is one thing that the agent is brought to do, by what its model says or
// by simulate's script.
type step struct {
	block func(modelstub.Request) modelstub.Block
	ends  bool            // the agent asks its model again
	turn  *modelstub.Turn // in the place of a block: the whole answer, to every request from then on
	sim   []any           // simulate's steps
}

type obj = map[string]any

func fixed(b modelstub.Block) func(modelstub.Request) modelstub.Block {
	return func(modelstub.Request) modelstub.Block { return b }
}

func say(s string) step { return step{block: fixed(modelstub.Text(s)), sim: []any{obj{"text": s}}} }

// shell runs a command with the agent's own tool; simulate does not run it.
func shell(command, output string) step {
	return step{ends: true, block: func(r modelstub.Request) modelstub.Block {
		for _, t := range r.Tools {
			switch t.Name {
			case "Bash", "bash":
				return modelstub.Tool(t.Name, obj{"command": command, "description": "A command"})
			case "exec_command":
				return modelstub.Tool(t.Name, obj{"cmd": command, "yield_time_ms": 30000})
			}
		}
		return modelstub.Text("(no shell is offered)")
	}, sim: []any{obj{"permission": obj{"tool": "shell", "input": obj{"command": command}, "output": output}}}}
}

// call calls a tool of the host, under whatever name it is offered.
func call(tool string, args obj) step {
	return step{ends: true, block: func(r modelstub.Request) modelstub.Block {
		if t, ok := offered(r, tool); ok {
			return modelstub.Tool(t.Name, args).Namespace(t.Namespace)
		}
		return modelstub.Text("(" + tool + " is not offered)")
	}, sim: []any{obj{"call": obj{"tool": tool, "arguments": args}}}}
}

// offered finds a tool of the host in a request to the model.
func offered(r modelstub.Request, tool string) (modelstub.ToolSpec, bool) {
	for _, t := range r.Tools {
		if t.Name == tool || strings.HasSuffix(t.Name, "_"+tool) {
			return t, true
		}
	}
	return modelstub.ToolSpec{}, false
}

// native gives a call an id of the model's own.
func (s step) native(id string) step {
	of := s.block
	s.block = func(r modelstub.Request) modelstub.Block { return of(r).ID(id) }
	return s
}

// hold stops until the gate is released; simulate not at all.
func hold(g *modelstub.Gate) step {
	return step{block: fixed(modelstub.Control().Hold(g))}
}

// always answers every request from now on; sim is what simulate does once.
func always(t modelstub.Turn, sim ...any) step { return step{turn: &t, sim: sim} }

// fake is the model behind one conversation.
type fake struct {
	mu    sync.Mutex
	steps []step
	use   *modelstub.Usage
}

func (f *fake) arrange(steps []step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps = steps
}

// next answers a request.
func (f *fake) next(r modelstub.Request) modelstub.Turn {
	f.mu.Lock()
	defer f.mu.Unlock()
	var blocks []modelstub.Block
	for len(f.steps) > 0 {
		s := f.steps[0]
		if s.turn != nil {
			if len(blocks) > 0 {
				break
			}
			return *s.turn
		}
		f.steps = f.steps[1:]
		blocks = append(blocks, s.block(r))
		if s.ends {
			break
		}
	}
	if len(blocks) == 0 {
		return modelstub.Say(modelstub.Text("(script over)"))
	}
	t := modelstub.Say(blocks...)
	if f.use != nil {
		t = t.Uses(*f.use)
	}
	return t
}

// scripted is the script of simulate for steps.
func scripted(t testing.TB, steps []step) json.RawMessage {
	script := []any{}
	for _, s := range steps {
		script = append(script, s.sim...)
	}
	raw, err := json.Marshal(obj{"script": script})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
