package a2a_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/adapter"
	"innerd/adapter/a2a/extension"
	"innerd/adapter/a2a/spec"
	"innerd/test/a2a/rig"
)

// One turn with all that an agent does: what baseline clients see, and what
// those see that know the extension.
func TestMapping(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s)
	steps := `[{"reasoning":"let me see"},{"tool":{"name":"bash","input":{"command":"ls"},"output":"a b","exit_code":0,"ms":5}},
		{"text":"first"},{"retry":{"text":"second message","reason":"cut"}},{"usage":{"input_tokens":3,"output_tokens":4}},{"text":"third","chunk_bytes":1,"delay_ms":1}]`
	plain := c.open(http.MethodPost, "/message:stream", message("map", "go", script(steps, nil))).all()
	task := fold(spec.Task{}, plain)
	var texts []string
	for _, a := range task.Artifacts {
		texts = append(texts, text(a))
	}
	if want := []string{"first", "second message", "third"}; !slices.Equal(texts, want) || task.Status.State != spec.StateCompleted {
		t.Errorf("%q %s", texts, task.Status.State)
	}
	if raw := show(plain[1:]); strings.Contains(raw, extension.URI) || strings.Contains(raw, "let me see") {
		t.Errorf("a baseline client sees the extension: %s", raw)
	}
	for _, a := range task.Artifacts {
		if a.Name != "response" {
			t.Errorf("artifact %+v", a)
		}
	}
	if got := c.task(task.ID); len(got.Artifacts) != 3 || text(got.Artifacts[1]) != "second message" || len(got.Artifacts[1].Parts) != 1 {
		t.Errorf("the server's own: %+v", got.Artifacts)
	}

	kinds := map[string]int{}
	var call extension.ToolCall
	thought := ""
	all := c.with(func(c *client) { c.ext = true }).open(http.MethodPost, "/message:stream", message("map", "go", script(steps, nil))).all()
	for _, e := range all {
		x, ok := extended(e)
		if !ok {
			continue
		}
		kinds[x.Kind]++
		switch x.Kind {
		case extension.KindToolCall:
			call = *x.ToolCall
		case extension.KindThought:
			if x.Thought.Done && x.Thought.Text != thought {
				t.Errorf("the thought %q is not the sum %q", x.Thought.Text, thought)
			}
			thought += x.Thought.Text
		}
		if e.StatusUpdate.Status.State == spec.StateInputRequired {
			t.Error("an event of the extension interrupts the task")
		}
	}
	if call.Name != "bash" || call.Status != extension.ToolSucceeded || call.Output != "a b" || string(call.Input) != `{"command":"ls"}` {
		t.Errorf("tool call %+v", call)
	}
	for _, k := range []string{extension.KindThought, extension.KindToolCall, extension.KindUsage, extension.KindStatus} {
		if kinds[k] == 0 {
			t.Errorf("no %s in %v", k, kinds)
		}
	}
	last := all[len(all)-1].StatusUpdate
	var info struct {
		X extension.TaskInfo `json:"urn:innerd:extensions:coding-agent/v1"`
	}
	if err := json.Unmarshal(last.Metadata, &info); err != nil || info.X.Backend != "simulate" || info.X.Usage == nil || *info.X.Usage.InputTokens != 3 {
		t.Errorf("last metadata %s %v", last.Metadata, err)
	}
}

// The tools that a client lends: a call keeps the task working, and a result is
// no message to the agent.
func TestHostTools(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s).with(func(c *client) { c.ext = true })
	tools := map[string]any{"native_tool_schemas": []any{map[string]any{
		"name": "lookup", "description": "looks up", "parameters": map[string]any{"type": "object", "properties": map[string]any{"q": map[string]any{"type": "string"}}},
	}}}
	st := c.open(http.MethodPost, "/message:stream", message("tool", "go", script(`[{"call":{"tool":"lookup","arguments":{"q":"x"}}}]`, tools)))
	var call extension.HostTool
	seen := st.until(func(e event) bool {
		x, ok := extended(e)
		if ok && x.Kind == extension.KindHostTool {
			call = *x.HostTool
		}
		return call.ID != ""
	})
	task := seen[0].Task
	if call.Name != "lookup" || string(call.Arguments) != `{"q":"x"}` || call.Status != extension.HostToolRequested || seen[len(seen)-1].StatusUpdate.Status.State != spec.StateWorking {
		t.Fatalf("%+v %s", call, show(seen))
	}
	if got := c.task(task.ID); !strings.Contains(string(got.Metadata), call.ID) {
		t.Errorf("a client that polls does not see the call: %s", got.Metadata)
	}
	result := func(text string) *spec.SendMessageRequest {
		return message("result", "", inTask(task.ID), data(extension.ToolResult{ToolCallID: call.ID, Result: text}))
	}
	c.refused("INVALID_PARAMS", http.MethodPost, "/message:send", message("result", "", inTask(task.ID), data(extension.ToolResult{ToolCallID: "tc_none", Result: "?"})))
	first := result("found it")
	c.send(first) // returns at once: the stream is where the task goes on
	rest := st.all()
	if got := fold(*task, append(seen, rest...)); got.Status.State != spec.StateCompleted || !strings.Contains(text(got.Artifacts[0]), "found it") {
		t.Errorf("%s", show(rest))
	}
	if history := c.task(task.ID).History; len(history) != 1 {
		t.Errorf("a result stands in the history: %+v", history)
	}
}

func TestPermissions(t *testing.T) {
	s := start(t, rig.Options{Keys: []adapter.Key{adapter.NewKey("me", "dummy-me")}})
	plain := newClient(t, s).with(func(c *client) { c.key = "dummy-me" })
	knows := plain.with(func(c *client) { c.ext = true })
	ask := map[string]any{"permission_mode": "ask"}
	steps := `[{"permission":{"tool":"bash","input":{"command":"rm x"},"output":"removed"}},{"text":"over"}]`

	for _, c := range []struct {
		name, words string
		ran         bool
	}{
		{"yes", "Yes.", true}, {"an option", "allow_once", true}, {"no", "no", false}, {"other words", "leave it alone", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			task := plain.send(message("perm", "go", script(steps, ask)))
			if task.Status.State != spec.StateInputRequired || !strings.Contains(*task.Status.Message.Parts[0].Text, "rm x") || len(task.Status.Message.Parts) != 1 {
				t.Fatalf("%+v", task.Status)
			}
			done := plain.send(message("answer", c.words, inTask(task.ID)))
			denied := strings.Contains(text(done.Artifacts[0]), "permission denied")
			if done.Status.State != spec.StateCompleted || denied == c.ran {
				t.Errorf("%+v", done)
			}
			if c.name == "other words" && !strings.Contains(text(done.Artifacts[0]), "leave it alone") {
				t.Errorf("the agent was not told the words: %q", text(done.Artifacts[0]))
			}
		})
	}

	t.Run("data", func(t *testing.T) {
		st := knows.open(http.MethodPost, "/message:stream", message("perm", "go", script(steps, ask)))
		events := st.all() // it ends where the task waits
		last := events[len(events)-1].StatusUpdate
		x, ok := extended(events[len(events)-1])
		if !ok || x.Kind != extension.KindPermission || last.Status.State != spec.StateInputRequired || len(x.Permission.Options) != 3 {
			t.Fatalf("%s", show(events))
		}
		id := events[0].Task.ID
		knows.refused("INVALID_PARAMS", http.MethodPost, "/message:send", message("answer", "", inTask(id), data(extension.Answer{RequestID: "nope", OptionID: "deny"})))
		knows.refused("INVALID_PARAMS", http.MethodPost, "/message:send", message("answer", "", inTask(id), data(extension.Answer{RequestID: x.Permission.RequestID, OptionID: "what"})))
		done := knows.send(message("answer", "", inTask(id), data(extension.Answer{RequestID: x.Permission.RequestID, OptionID: "allow_always"})))
		if done.Status.State != spec.StateCompleted {
			t.Errorf("%+v", done.Status)
		}
		// The same tool and input in the same context is not asked about again.
		again := knows.send(message("perm", "go", script(steps, ask), func(m *spec.Message) { m.ContextID = done.ContextID }))
		if again.Status.State != spec.StateCompleted {
			t.Errorf("asked again: %+v", again.Status)
		}
	})

	t.Run("auto is not shown", func(t *testing.T) {
		events := plain.open(http.MethodPost, "/message:stream", message("perm", "go", script(steps, nil))).all()
		for _, e := range events {
			if e.StatusUpdate != nil && e.StatusUpdate.Status.State == spec.StateInputRequired {
				t.Errorf("a permission that its policy gave interrupts: %s", show(events))
			}
		}
	})
}

func TestQuestionsWithData(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s)
	steps := `[{"ask":{"message":"How many?","schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}}]`
	task := c.send(message("ask", "go", script(steps, nil)))
	c.refused("INVALID_PARAMS", http.MethodPost, "/message:send", message("answer", "", inTask(task.ID), data(map[string]any{"n": "three"})))
	done := c.send(message("answer", "", inTask(task.ID), data(map[string]any{"n": 3})))
	if done.Status.State != spec.StateCompleted || !strings.Contains(text(done.Artifacts[0]), "3") {
		t.Errorf("%+v", done)
	}
}

// A message to an agent that is at work, until it is canceled, and can take it.
// Its sender waits for the end.
func TestSteering(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s)
	task := c.begin(message("steer", "go", script(`[{"text":"begin"},{"repeat":60000,"steps":[{"sleep_ms":10}]}]`, nil)))
	c.eventually(task.ID, func(t *spec.Task) bool { return len(t.Artifacts) > 0 })
	steered := make(chan *spec.Task, 1)
	go func() { // ends with the task
		defer close(steered)
		steered <- c.send(message("more", "another thing", inTask(task.ID)))
	}()
	c.eventually(task.ID, func(t *spec.Task) bool { return len(t.History) == 2 })
	if len(steered) > 0 {
		t.Error("it does not wait for the end")
	}
	c.raw(http.MethodPost, "/tasks/"+task.ID+":cancel", nil)
	if done := <-steered; done == nil || !done.Status.State.Terminal() || len(done.History) != 2 || *done.History[1].Parts[0].Text != "another thing" {
		t.Errorf("%+v", done)
	}
}

// The next message of a context reaches the agent that knows the first, which
// is told nothing twice.
func TestContextGoesOn(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s)
	first := c.send(message("one", "MARK-ONE", script(`[{"text":"said one"}]`, nil)))
	second := c.send(message("two", "MARK-TWO", script(`[{"told":true}]`, nil), func(m *spec.Message) { m.ContextID = first.ContextID }))
	told := text(second.Artifacts[0])
	if second.ContextID != first.ContextID || strings.Count(told, "MARK-ONE") != 1 || strings.Count(told, "MARK-TWO") != 1 || strings.Count(told, "said one") != 1 {
		t.Errorf("the agent was told %s", told)
	}
}

// Text comes at most 25 times a second, the first piece at once.
func TestCoalescing(t *testing.T) {
	s := start(t, rig.Options{})
	c := newClient(t, s)
	// Counted from before the first frame can have been sent to after the last
	// one came: on a busy machine the first may come late, several at once.
	begun := time.Now()
	var pieces []string
	for _, e := range c.open(http.MethodPost, "/message:stream", message("flood", "go", script(`[{"text":"`+strings.Repeat("word ", 300)+`","delay_ms":5}]`, nil))).all() {
		if e.ArtifactUpdate != nil {
			pieces = append(pieces, text(e.ArtifactUpdate.Artifact))
		}
	}
	took := time.Since(begun)
	if total := strings.Join(pieces, ""); total != strings.Repeat("word ", 300) {
		t.Fatalf("the text is not whole: %d bytes", len(total))
	}
	if most := int(took/(40*time.Millisecond)) + 2; len(pieces) > most || len(pieces) < 5 {
		t.Errorf("%d frames in %v, want at most %d", len(pieces), took, most)
	}
	if strings.TrimSpace(pieces[0]) != "word" {
		t.Errorf("the first piece waited for what came after it: %q", pieces[0])
	}
}
