package runs_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/simulate"
	"innerd/events"
	"innerd/runs"
)

// mute is an agent that has no way of its own to ask the user.
type mute struct{ *simulate.Backend }

func (mute) Name() string { return "mute" }

func (m mute) Probe(ctx context.Context) backends.Status {
	s := m.Backend.Probe(ctx)
	s.Capabilities.Questions = false
	return s
}

func TestAskUserIsLentWhereTheAgentCannotAsk(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.other = []backends.Backend{mute{simulate.New(&simulate.Options{StateDir: w.home})}}
	})
	asks := script(`[{"call":{"tool":"ask_user","arguments":{"question":"Which colour?"}}}]`)
	run := w.begin(asks, func(s *runs.Spec) { s.Backend, s.Settings.Interactive = "mute", true })
	if q := until[events.InputRequired](t, run); q.Message != "Which colour?" {
		t.Errorf("asked %q", q.Message)
	}
	if _, err := w.m.ReplyText("me", run.ID(), "", "blue", nil); err != nil {
		t.Fatal(err)
	}
	if task := w.await(run); !strings.Contains(answer(task), "blue") {
		t.Errorf("%s %q", task.State, answer(task))
	}

	own := w.begin(asks, func(s *runs.Spec) {
		s.Backend, s.Settings.Interactive = "mute", true
		s.Settings.Tools = []backends.Tool{{Name: "ask_user", Schema: json.RawMessage(`{"type":"object"}`), Parallel: true}}
	})
	if q := until[events.ToolRequest](t, own); q.ToolName != "ask_user" {
		t.Errorf("the host's own tool: %+v", q)
	}
	if _, err := own.Cancel(t.Context(), ""); err != nil {
		t.Error(err)
	}
}
