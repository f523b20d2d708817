//go:build linux

package parity_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"innerd/backends"
	"innerd/backends/simulate"
	"innerd/test/claudescript"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// talk is one conversation, as a host has it: it sends all that was said with
// every run.
type talk struct {
	*world
	sc        *modelstub.Scenario // nil: simulate
	model     *fake
	contextID string
	messages  []any
	meta      obj // of every run
}

var contexts atomic.Int64

// talk begins a conversation with a model of its own.
func (w *world) talk(meta obj) *talk {
	w.Helper()
	k := &talk{world: w, contextID: fmt.Sprintf("%s-%d", w.Name(), contexts.Add(1)), model: &fake{}, meta: obj{"backend": w.a.name, "events": "all"}}
	if w.a.base != nil {
		stub := modelstub.New()
		w.Cleanup(stub.Close)
		k.sc = stub.Scenario()
		k.sc.Func(k.model.next)
		k.meta["credentials"] = obj{"api_key": k.sc.Key(), "base_url": w.a.base(k.sc)}
		k.meta["model"] = w.a.model
	}
	for key, v := range meta {
		k.meta[key] = v
	}
	return k
}

func message(role, text string) obj { return obj{"role": role, "content": text} }

// tell adds to the history what this agent has not seen.
func (k *talk) tell(role, text string) { k.messages = append(k.messages, message(role, text)) }

// post starts a run that does the steps.
func (k *talk) post(prompt string, meta obj, steps ...step) *server.Tape {
	k.Helper()
	k.tell("user", prompt)
	m := obj{}
	for key, v := range k.meta {
		m[key] = v
	}
	for key, v := range meta {
		m[key] = v
	}
	if k.sc != nil {
		k.model.arrange(steps)
	} else {
		m["agent_options"] = scripted(k, steps)
	}
	return k.s.Post(k, obj{"context_id": k.contextID, "messages": k.messages, "metadata": m})
}

// run is a run that must complete; what it said last is part of the history.
func (k *talk) run(prompt string, meta obj, steps ...step) *server.Tape {
	k.Helper()
	p := k.post(prompt, meta, steps...).Completed()
	k.heardBack(p)
	return p
}

func (k *talk) heardBack(p *server.Tape) {
	text := p.Text()
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	k.tell("assistant", text)
}

// tools lends the host's tools to a run.
func tools(names ...string) obj {
	var list []any
	for _, name := range names {
		list = append(list, obj{"name": name, "description": "A tool of the host for tests.", "parameters": obj{"type": "object"}})
	}
	return obj{"native_tool_schemas": list}
}

func with(metas ...obj) obj {
	out := obj{}
	for _, m := range metas {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// asks is how often the model was asked.
func (k *talk) asks() int {
	if k.sc == nil {
		return 0
	}
	return k.sc.Count() + len(k.sc.Side())
}

// heard is all that the model was told when it was last asked.
func (k *talk) heard() string {
	k.Helper()
	if k.sc == nil {
		return k.simulateHeard()
	}
	all := k.sc.Requests()
	if len(all) == 0 {
		return ""
	}
	r := all[len(all)-1]
	if r.System != "" && len(r.Messages) > 0 && r.Messages[0].Role != "user" { // it is among the messages too
		r.System = ""
	}
	return claudescript.Heard(r)
}

// once fails the row unless each text stands once in what the model was told last.
func (k *talk) once(texts ...string) {
	k.Helper()
	k.times(1, texts...)
}

func (k *talk) times(n int, texts ...string) {
	k.Helper()
	heard := k.heard()
	for _, text := range texts {
		if got := strings.Count(heard, text); got != n {
			k.Errorf("the model was told %q %d times, not %d; the end of it:\n%s", text, got, n, heard[max(0, len(heard)-3000):])
		}
	}
}

// result fails the row unless the model was told a tool's result once. What
// simulate is told it says, too.
func (k *talk) result(text string) {
	k.Helper()
	if k.sc == nil {
		k.times(2, text)
		return
	}
	k.once(text)
}

// simulateHeard reads what simulate was told from its session on disk.
func (k *talk) simulateHeard() string {
	k.Helper()
	files, _ := filepath.Glob(filepath.Join(k.s.State, "conversations", "*", "state.json"))
	for _, path := range files {
		raw, _ := os.ReadFile(path) // it may be gone
		var state struct {
			ContextID string `json:"context_id"`
			Session   struct{ ID string }
		}
		if json.Unmarshal(raw, &state) != nil || state.ContextID != k.contextID {
			continue
		}
		told, err := simulate.New(&simulate.Options{StateDir: filepath.Join(k.s.Agents, "simulate")}).Told(state.Session.ID)
		if errors.Is(err, backends.ErrNoSession) {
			return ""
		} else if err != nil {
			k.Errorf("the session of %s: %v", k.contextID, err)
		}
		heard := []string{told.System}
		for _, e := range told.Entries {
			heard = append(heard, e.Text)
			for _, p := range e.Parts {
				heard = append(heard, p.Text)
			}
		}
		return strings.Join(heard, "\n")
	}
	k.Errorf("conversation %q has no state", k.contextID)
	return ""
}
