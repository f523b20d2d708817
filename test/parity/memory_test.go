//go:build linux

package parity_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"innerd/events"
	"innerd/test/modelstub"
	"innerd/test/server"
)

var memoryRows = []row{
	{"history-continue", historyContinue},
	{"history-tell", historyTell},
	{"history-new", historyNew},
	{"queued-follow-up", followUp},
	{"steer", steer},
	{"compact", compact},
}

// mode fails the row unless the run told its history in this way.
func mode(w *world, p *server.Tape, want string) {
	w.Helper()
	var modes []string
	for _, s := range server.Of[events.Status](p) {
		if s.State == events.StateHistory {
			modes = append(modes, s.Mode)
		}
	}
	if !slices.Equal(modes, []string{want}) {
		w.Errorf("the history was told as %q, not %q:\n%s", modes, want, p)
	}
}

func historyContinue(w *world) {
	k := w.talk(nil)
	k.run("ask-marker-1", nil, say("say-marker-1"))
	mode(w, k.run("ask-marker-2", nil, say("say-marker-2")), "continue")
	k.once("ask-marker-1", "say-marker-1", "ask-marker-2")
	mode(w, k.run("ask-marker-3", nil, say("say-marker-3")), "continue")
	k.once("ask-marker-1", "say-marker-1", "ask-marker-2", "say-marker-2", "ask-marker-3")
}

// historyTell: another agent answered a turn in between.
func historyTell(w *world) {
	k := w.talk(nil)
	k.run("ask-marker-1", nil, say("say-marker-1"))
	k.tell("user", "ask-marker-2")
	k.tell("assistant", "say-marker-2")
	mode(w, k.run("ask-marker-3", nil, say("say-marker-3")), "tell")
	k.once("ask-marker-1", "say-marker-1", "ask-marker-2", "say-marker-2", "ask-marker-3")
	mode(w, k.run("ask-marker-4", nil, say("say-marker-4")), "continue")
	k.once("ask-marker-1", "say-marker-1", "ask-marker-2", "say-marker-2", "ask-marker-3", "say-marker-3", "ask-marker-4")
}

// historyNew: the user edited what was said; the agent forgets the first wording.
func historyNew(w *world) {
	k := w.talk(nil)
	k.run("ask-marker-1", nil, say("say-marker-1"))
	k.messages = []any{message("user", "edit-marker-1"), message("assistant", "say-marker-2")}
	mode(w, k.run("ask-marker-3", nil, say("say-marker-3")), "new")
	k.once("edit-marker-1", "say-marker-2", "ask-marker-3")
	k.times(0, "ask-marker-1", "say-marker-1")
}

// followUp: a run that comes while another is on waits for it, and knows it.
func followUp(w *world) {
	k := w.talk(nil)
	gate := modelstub.NewGate()
	w.Cleanup(gate.Release)
	held := hold(gate)
	held.sim = []any{obj{"sleep_ms": 10_000}} // longer than it takes to post the next one
	first := k.post("ask-marker-1", nil, held, say("say-marker-1"))
	if k.sc != nil {
		<-gate.Reached()
	}
	// The first run's model has said all but what it holds back.
	second := k.post("ask-marker-2", nil, say("say-marker-2"))
	server.Until[events.Status](second, 1)
	if s := server.Of[events.Status](second)[0]; s.State != events.StateQueued {
		w.Errorf("the second run is %q first", s.State)
	}
	gate.Release()
	first.Completed()
	second.Completed()
	if !strings.Contains(first.Text(), "say-marker-1") || !strings.Contains(second.Text(), "say-marker-2") {
		w.Errorf("said %q, then %q", first.Text(), second.Text())
	}
	k.once("ask-marker-1", "say-marker-1", "ask-marker-2")
}

// steer: what a host says while a turn is on reaches the model in that turn.
func steer(w *world) {
	k := w.talk(nil)
	flag := filepath.Join(w.TempDir(), "go")
	wait := shell("until [ -e "+flag+" ]; do sleep 0.02; done; echo waited", "waited")
	wait.sim[0].(obj)["permission"].(obj)["ms"] = 10_000 // longer than it takes to tell it something
	p := k.post("ask-marker-1", nil, wait, say("I took it in."))
	server.Until[events.ToolCall](p, 1)
	done := make(chan int, 1)
	go func() { // ends with the call, which the run's end ends
		status, _ := w.s.Call(http.MethodPost, "/tasks/"+p.TaskID()+":steer", obj{"text": "steer-marker"})
		done <- status
	}()
	var status int
	select {
	case status = <-done:
	case <-p.Ended(500): // it may be taken only where the model is asked next
	}
	if err := os.WriteFile(flag, nil, 0o644); err != nil {
		w.Error(err)
	}
	if status == 0 {
		status = <-done
	}
	p.Completed()
	if status != http.StatusOK {
		w.Fatalf("status %d", status)
	}
	if got := server.Of[events.Steered](p); len(got) != 1 || got[0].Text != "steer-marker" {
		w.Errorf("the log says %+v", got)
	}
	k.once("ask-marker-1", "steer-marker")
	k.heardBack(p)
	k.run("ask-marker-2", nil, say("Yes."))
	k.once("ask-marker-1", "steer-marker", "ask-marker-2")
}

// compact: the agent's memory is summed up when the host asks for it.
func compact(w *world) {
	k := w.talk(nil)
	k.run("ask-marker-1", nil, say("say-marker-1"))
	k.run("ask-marker-2", nil, say("say-marker-2"))
	k.model.arrange([]step{say("<summary>summary-marker</summary>")})
	conv, ok := w.s.Conversation(k.contextID)
	if !ok {
		w.Fatal("there is no conversation")
	}
	asked := k.asks()
	w.s.Do(http.MethodPost, "/conversations/"+conv.ID+":compact", nil, nil)
	if k.sc != nil && k.asks() == asked {
		w.Error("the model was not asked for a summary")
	}
	k.run("ask-marker-3", nil, say("say-marker-3"))
	if k.sc != nil { // simulate makes its own summary
		k.once("summary-marker")
	}
	k.once("ask-marker-3")
	k.times(0, "say-marker-1")
}
