//go:build linux

package parity_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"innerd/events"
	"innerd/test/modelstub"
	"innerd/test/server"
)

var lifeRows = []row{
	{"crash-in-a-turn", crash},
	{"resume-after-adapter-killed", adapterKilled},
	{"resume-from-copy-of-both", copied},
}

// crash: the agent dies in the middle of a text. The run says so, and the
// conversation goes on with what it knew.
func crash(w *world) {
	w.alone()
	k := w.talk(nil)
	k.run("ask-marker-1", nil, say("say-marker-1"))
	gate := modelstub.NewGate()
	w.Cleanup(gate.Release)
	dies := say("half a ")
	dies.sim = nil
	stop := hold(gate)
	stop.sim = []any{obj{"crash": obj{"exit_code": 3}}}
	p := k.post("ask-marker-2", nil, dies, stop)
	if k.sc != nil {
		server.Until[events.MessageDelta](p, 1)
		if err := w.s.KillAgents(); err != nil {
			w.Error(err)
		}
	}
	p.Whole()
	gate.Release()
	failed(w, p, failing{class: events.ErrBackendCrashed, phrase: "execution failed: "})
	if end := p.End(); end.Signal == "" && end.ExitCode == nil {
		w.Errorf("nothing is said of how it died: %+v", end)
	}
	k.run("ask-marker-3", nil, say("say-marker-3"))
	k.once("ask-marker-1", "say-marker-1", "ask-marker-3")
}

// adapterKilled: the server is killed while the agent runs a command. Nothing
// of the agent is left when the next one is ready, the model is asked no more,
// and the conversation goes on.
func adapterKilled(w *world) {
	w.alone()
	k := w.talk(nil)
	k.run("ask-marker-1", nil, say("say-marker-1"))
	file := filepath.Join(w.s.Dir, "grows")
	loop := shell(fmt.Sprintf(`trap "" TERM INT HUP; while :; do echo x >> %s; sleep 0.02; done`, file), "")
	loop.sim[0].(obj)["permission"].(obj)["ms"] = 600000
	p := k.post("ask-marker-2", obj{"detach": true}, say("say-marker-2"), loop, say("Asked again."))
	server.Until[events.ToolCall](p, 1)
	id := p.TaskID()
	if k.sc != nil {
		server.Eventually(w, "the file grows", func() bool { return size(file) > 4 })
	}
	w.s.Kill()
	p.Broken()
	asked := k.asks()
	w.s.Start()
	if left := w.s.Strays(); len(left) > 0 {
		w.Errorf("a ready server, and what the old one started is there: %s", server.Describe(left))
	}
	grown := size(file)
	after := w.s.Follow(w, id, "0").Whole()
	if e := after.Failure(); e == nil || e.ErrorType != events.ErrAdapterRestarted {
		w.Errorf("the killed run ended with %+v", e)
	}
	k.run("ask-marker-3", nil, say("say-marker-3"))
	if n := k.asks(); k.sc != nil && n != asked+1 {
		w.Errorf("the model was asked %d times after the kill", n-asked)
	}
	if size(file) != grown {
		w.Error("the command still ran")
	}
	k.once("ask-marker-1", "say-marker-1", "ask-marker-3")
	if heard := k.heard(); !strings.Contains(heard, "ask-marker-2") {
		w.Error("the model does not hear of the killed turn")
	}
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// copied: a server on a copy of the state and of the agent home goes on with
// the conversation; the original is gone.
func copied(w *world) {
	w.alone()
	k := w.talk(obj{"cwd": w.folder(nil)})
	p := k.post("ask-marker-1", tools("look"), call("look", obj{}), say("say-marker-1"))
	w.s.Result(server.Until[events.ToolRequest](p, 1).ToolCallID, obj{"result": "result-marker"})
	k.heardBack(p.Completed())
	w.s.Stop()
	next := w.s.Copy()
	for _, dir := range []string{w.s.State, w.s.Agents} {
		if err := os.RemoveAll(dir); err != nil {
			w.Fatal(err)
		}
	}
	w.s = next
	w.s.Start()
	mode(w, k.run("ask-marker-2", tools("look"), say("say-marker-2")), "continue")
	k.result("result-marker")
	k.once("ask-marker-1", "ask-marker-2")
	if !strings.Contains(k.heard(), "say-marker-1") {
		w.Error("it has forgotten what it said")
	}
}
