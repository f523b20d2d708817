package codex_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/modelstub"
)

// TestSubagentsOfNewModels: they are told in another way than those of the
// suite's model, and are seen alike.
func TestSubagentsOfNewModels(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{})
	asked := map[string]int{}
	s.sc.Func(func(r modelstub.Request) modelstub.Turn {
		s.mu.Lock()
		defer s.mu.Unlock()
		who := "main"
		if bytes.Contains(r.Body, []byte(`\"agent_name\":\"/root/helper\"`)) {
			who = "helper"
		}
		asked[who]++
		turns := map[string][]modelstub.Turn{
			"main": {
				modelstub.Say(modelstub.Tool("spawn_agent", map[string]any{"task_name": "helper", "message": "Look."}).Namespace("collaboration")),
				modelstub.Say(modelstub.Tool("wait_agent", map[string]any{"timeout_ms": 20_000}).Namespace("collaboration")),
				text("My helper is back."),
			},
			"helper": {
				modelstub.Say(modelstub.Custom("exec", `const r = await tools.exec_command({cmd: "echo below"}); text(r.output)`)),
				text("Nothing there."),
			},
		}[who]
		return turns[min(asked[who], len(turns))-1]
	})
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{Model: "gpt-6.2-sol"})
	if err != nil || !slices.Equal(texts(evs), []string{"My helper is back."}) {
		t.Fatal(texts(evs), err)
	}
	var seen []string
	call := ""
	for _, e := range evs {
		switch d := e.Data.(type) {
		case events.ToolCall:
			if d.Name == "spawn_agent" {
				call = d.ID
			}
		case events.SubagentStart:
			seen = append(seen, "start "+d.Name+" of its call: "+fmt.Sprint(d.ParentID == call && call != ""))
		case events.SubagentDelta:
			seen = append(seen, "says "+d.Text)
		case events.ToolComplete:
			if d.ParentID != "" {
				seen = append(seen, d.Name+" "+d.Result+fmt.Sprint(d.ParentID == call))
			}
		case events.SubagentComplete:
			seen = append(seen, "complete "+d.Result)
		}
	}
	want := []string{
		"start /root/helper of its call: true", "exec_command below\ntrue", "says Nothing ther", "says e.", "complete Nothing there.",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("%q", seen)
	}
}

// TestSubagentIsEnded: a sub-agent that nobody waits for does not outlive its
// turn, nor do its commands.
func TestSubagentIsEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{})
	s.sc.Func(func(r modelstub.Request) modelstub.Turn {
		switch {
		case bytes.Contains(r.Body, []byte(`\"agent_name\":\"/root/helper\"`)):
			return modelstub.Say(modelstub.Custom("exec", `await tools.exec_command({cmd: "sleep 3119"}); text("woken")`))
		case r.ToolResult() == "":
			return modelstub.Say(modelstub.Tool("spawn_agent", map[string]any{"task_name": "helper", "message": "Sleep."}).Namespace("collaboration"))
		}
		for len(sleeping("3119")) == 0 && t.Context().Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		return text("I do not wait.")
	})
	began := time.Now()
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{Model: "gpt-6.2-sol"})
	if err != nil || !slices.Equal(texts(evs), []string{"I do not wait."}) {
		t.Fatal(texts(evs), err)
	}
	ended := 0
	for _, e := range evs {
		switch d := e.Data.(type) {
		case events.SubagentComplete:
			ended++
		case events.ToolComplete:
			if d.ParentID != "" && d.Success {
				t.Errorf("%s of a sub-agent that was ended succeeded", d.Name)
			}
		}
	}
	if left := sleeping("3119"); ended != 1 || len(left) > 0 {
		t.Errorf("%d ends; still there: %v", ended, left)
	}
	t.Logf("it took %v", time.Since(began))
}
