package runs_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"innerd/backends/simulate"
	"innerd/events"
	"innerd/runs"
)

// mind is all that the agent of the only stored conversation was told and has
// said in its session: what its model would be sent.
func (w *world) mind() string {
	w.t.Helper()
	ids, err := w.store.ReadDir("conversations")
	if err != nil || len(ids) != 1 {
		w.t.Fatalf("conversations %v: %v", ids, err)
	}
	raw, err := w.store.ReadFile("conversations/" + ids[0] + "/state.json")
	if err != nil {
		w.t.Fatal(err)
	}
	var st struct {
		Session struct{ ID string }
	}
	if err := json.Unmarshal(raw, &st); err != nil {
		w.t.Fatal(err)
	}
	told, err := simulate.New(&simulate.Options{StateDir: w.home}).Told(st.Session.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range told.Entries {
		b.WriteString(e.Text + "\n")
		for _, p := range e.Parts {
			b.WriteString(p.Text + "\n")
		}
	}
	return b.String()
}

func (w *world) historyMode(id string) string {
	w.t.Helper()
	run, err := w.m.Get("me", id)
	if err != nil {
		w.t.Fatal(err)
	}
	last := ""
	for e := range run.Log().Snapshot(0, nil) {
		if s, ok := e.Data.(events.Status); ok && s.State == events.StateHistory {
			last = s.Mode
		}
	}
	return last
}

// A turn of the tables below: what the host sends, user and assistant in
// turns, the last one the prompt; what the agent answers; the mode that must
// be chosen.
type knownTurn struct {
	sends []string
	says  string
	mode  string
}

var knownCases = map[string][]knownTurn{
	"it goes on": {
		{sends: []string{"ask-1"}, says: "say-1", mode: "new"},
		{sends: []string{"ask-1", "say-1", "ask-2"}, says: "say-2", mode: "continue"},
		{sends: []string{"ask-1", " say-1\n", "ask-2", "say-2", "ask-3"}, says: "say-3", mode: "continue"},
	},
	"a history from elsewhere": {
		{sends: []string{"ask-1", "say-1", "ask-2"}, says: "say-2", mode: "new"},
		{sends: []string{"ask-1", "say-1", "ask-2", "say-2", "ask-3"}, says: "say-3", mode: "continue"},
	},
	"another agent took turns": {
		{sends: []string{"ask-1"}, says: "say-1", mode: "new"},
		{sends: []string{"ask-1", "say-1", "ask-2", "say-2", "ask-3"}, says: "say-3", mode: "tell"},
		{sends: []string{"ask-1", "say-1", "ask-2", "say-2", "ask-3", "say-3", "ask-4"}, says: "say-4", mode: "continue"},
	},
	"an answer the host changed": {
		{sends: []string{"ask-1"}, says: "say-1", mode: "new"},
		{sends: []string{"ask-1", "other-1", "ask-2"}, says: "say-2", mode: "tell"},
		{sends: []string{"ask-1", "other-1", "ask-2", "say-2", "ask-3"}, says: "say-3", mode: "continue"},
	},
	"an edited question": {
		{sends: []string{"wrong-1"}, says: "wrong-2", mode: "new"},
		{sends: []string{"ask-1", "say-1", "ask-2"}, says: "say-2", mode: "new"},
	},
	"the answer again": {
		{sends: []string{"ask-1"}, says: "wrong-1", mode: "new"},
		{sends: []string{"ask-1"}, says: "say-1", mode: "new"},
	},
}

// TestEachTextIsToldOnce is the promise of the history rule: of what the host
// sent and the agent said, each text stands exactly once before the model,
// also when the server or the agent's process ended in between.
func TestEachTextIsToldOnce(t *testing.T) {
	for name, turns := range knownCases {
		for _, between := range []string{"", "restart", "close"} {
			t.Run(name+" "+between, func(t *testing.T) {
				w := newWorld(t)
				for i, turn := range turns {
					task := w.run(inContext("c"), said(turn.sends...), script(fmt.Sprintf(`[{"text":%q}]`, turn.says)))
					if m := w.historyMode(task.ID); m != turn.mode {
						t.Errorf("turn %d: mode %q, want %q", i, m, turn.mode)
					}
					mind := w.mind()
					for _, text := range append(turn.sends, turn.says) {
						if n := strings.Count(mind, strings.TrimSpace(text)); n != 1 {
							t.Errorf("turn %d: %q stands %d times in\n%s", i, text, n, mind)
						}
					}
					if i > 0 && strings.Contains(mind, "wrong") {
						t.Errorf("turn %d: the new session knows of the old one:\n%s", i, mind)
					}
					switch between {
					case "restart":
						w.restart()
					case "close":
						id := w.m.Conversations("me")[0].ID
						if _, err := w.m.CloseConversation(t.Context(), "me", id); err != nil {
							t.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// TestAnUnsureTurnIsToldAgain: what a turn that failed had put in may be
// known, and is labelled so.
func TestAnUnsureTurnIsToldAgain(t *testing.T) {
	w := newWorld(t)
	w.run(inContext("c"), said("ask-1"), script(`[{"text":"say-1"}]`))
	failed := w.run(inContext("c"), said("ask-1", "say-1", "ask-2"), script(`[{"error":{"message":"the model is gone","error_type":"overloaded"}}]`))
	if failed.State != "failed" || errorType(failed) != "overloaded" {
		t.Fatalf("%s %s", failed.State, errorType(failed))
	}
	task := w.run(inContext("c"), said("ask-1", "say-1", "ask-2", "answered elsewhere", "ask-3"), script(`[{"text":"say-3"}]`))
	if m := w.historyMode(task.ID); m != "tell" {
		t.Errorf("mode %s", m)
	}
	if mind := w.mind(); !strings.Contains(mind, "may be known") || strings.Count(mind, "answered elsewhere") != 1 || strings.Count(mind, "say-1") != 1 {
		t.Errorf("mind:\n%s", mind)
	}
}

func TestFreshSessionIsToldEverything(t *testing.T) {
	w := newWorld(t)
	w.run(inContext("c"), said("ask-1"), script(`[{"text":"say-1"}]`))
	task := w.run(inContext("c"), said("ask-1", "say-1", "ask-2"), func(s *runs.Spec) { s.FreshSession = true }, script(`[{"text":"say-2"}]`))
	if m := w.historyMode(task.ID); m != "new" {
		t.Errorf("mode %s", m)
	}
	mind := w.mind()
	for _, text := range []string{"ask-1", "say-1", "ask-2", "say-2"} {
		if strings.Count(mind, text) != 1 {
			t.Errorf("%s in\n%s", text, mind)
		}
	}
}
