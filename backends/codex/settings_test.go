package codex_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/codexscript"
	"innerd/test/modelstub"
)

// TestSettingsOfTurns: tools and system text change in one process and one
// thread, which keeps its memory; so do model and effort, and back.
func TestSettingsOfTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var saved []backends.Session
	c, s := b.open(t, backends.Config{Save: func(x backends.Session) error { saved = append(saved, x); return nil }},
		text("one"), text("two"), text("three"), text("four"))
	other := tool("alpha")
	other.Description = "another one"
	for _, set := range []backends.Settings{
		{System: "first-text", Effort: "high"},
		{System: "second-text", Tools: []backends.Tool{tool("alpha")}, Effort: "low"},
		{Tools: []backends.Tool{other}},
		{Model: "gpt-5.4"},
	} {
		if _, _, err := run(t, c, backendtest.Turn{}, set); err != nil {
			t.Fatal(err)
		}
	}
	if st := b.last.Probe(t.Context()); !slices.Contains(st.Models, codexscript.Model) {
		t.Errorf("models %q", st.Models)
	}
	rs := s.sc.Requests()
	for i, want := range []struct {
		effort, model, system, tool string
	}{
		{"high", "gpt-5.5", "first-text", ""},
		{"low", "gpt-5.5", "second-text", "For tests: alpha"},
		{"medium", "gpt-5.5", "", "another one"},
		{"medium", "gpt-5.4", "", ""},
	} {
		seen, got := codexscript.Seen(rs[i]), rs[i]
		spec, _ := got.Tool("alpha")
		if seen.Effort != want.effort && i < 3 || seen.Model != want.model || spec.Description != want.tool {
			t.Errorf("turn %d: effort %q, model %q, tool %q", i+1, seen.Effort, seen.Model, spec.Description)
		}
		for _, text := range []string{"first-text", "second-text"} {
			if strings.Contains(string(got.Body), text) != (text == want.system) {
				t.Errorf("turn %d: %s is told, or is not", i+1, text)
			}
		}
		for j, said := range []string{"one", "two", "three"} {
			if j < i && !strings.Contains(codexscript.Heard(got), said) {
				t.Errorf("turn %d does not know turn %d", i+1, j+1)
			}
		}
	}
	if n := len(s.started()); n != 1 || len(saved) != 1 {
		t.Errorf("%d processes, %d sessions", n, len(saved))
	}
}

// TestSettingsOfNewModels: the same for a model that writes programs.
func TestSettingsOfNewModels(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{}, text("one"), text("two"), modelstub.Say(modelstub.Custom("exec", "text(await tools.alpha({}))")), text("three"))
	for _, set := range []backends.Settings{
		{System: "first-text"}, {System: "second-text", Tools: []backends.Tool{tool("beta")}}, {System: "third-text", Tools: []backends.Tool{tool("alpha")}},
	} {
		set.Model = "gpt-6.2-sol"
		turn := backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{{
			Kind: events.KindTool, Tool: "alpha", Answer: events.Answer{Outcome: events.OutcomeOK, Result: "from alpha"},
		}}}}
		if _, _, err := run(t, c, turn, set); err != nil {
			t.Fatal(err)
		}
		r, _ := s.last()
		for _, text := range []string{"first-text", "second-text", "third-text"} {
			if strings.Contains(string(r.Body), text) != (text == set.System) {
				t.Errorf("%s: %s is told, or is not", set.System, text)
			}
		}
	}
	if heard := s.Heard(); !strings.Contains(heard, "from alpha") || !strings.Contains(heard, "two") {
		t.Errorf("the model heard %q", heard)
	}
}

// TestUnaskedToolsAreOff: what codex does without asking is not there where
// permissions are asked for.
func TestUnaskedToolsAreOff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{}, text("one"), text("two"), text("three"))
	for i, set := range []backends.Settings{
		{Permission: backends.PermissionAuto},
		{Permission: backends.PermissionAsk},
		{Permission: backends.PermissionDeny, Options: json.RawMessage(`{"web_search":"cached"}`)},
	} {
		if _, _, err := run(t, c, backendtest.Turn{}, set); err != nil {
			t.Fatal(err)
		}
		seen := codexscript.Seen(s.sc.Requests()[i])
		if got := slices.Contains(seen.Natives, "view_image"); got != (i == 0) {
			t.Errorf("%s: view_image %v", set.Permission, got)
		}
		if got := bytes.Contains(s.sc.Requests()[i].Body, []byte(`"type":"web_search"`)); got != (i != 1) {
			t.Errorf("%s: web_search %v", set.Permission, got)
		}
	}
}

// TestToolChoice: codex leaves its model free; the host's word is kept all the
// same.
func TestToolChoice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{}, text("one"), text("two"), modelstub.Say(shell("touch done")), text("three"), text("four"))
	tools := []backends.Tool{tool("lookup"), tool("exec_command")}
	for _, x := range []struct {
		choice, told string
		offered      []string
	}{
		{`"required"`, "You must call at least one tool", []string{"lookup", "host_exec_command"}},
		{`{"type":"function","function":{"name":"exec_command"}}`, "You must call the tool host_exec_command", []string{"host_exec_command"}},
		{`"none"`, "Call no tool", nil},
		{`7`, "", []string{"lookup", "host_exec_command"}},
	} {
		evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{Tools: tools, ToolChoice: json.RawMessage(x.choice)})
		if err != nil {
			t.Fatal(err)
		}
		r, _ := s.last()
		if x.told != "" && !strings.Contains(codexscript.Heard(r), x.told) {
			t.Errorf("%s: the model was not told %q", x.choice, x.told)
		}
		for _, name := range []string{"lookup", "host_exec_command"} {
			if _, got := r.Tool(name); got != slices.Contains(x.offered, name) {
				t.Errorf("%s: %s offered: %v", x.choice, name, got)
			}
		}
		for _, e := range evs {
			if d, ok := e.Data.(events.ToolComplete); ok && d.Success {
				t.Errorf("%s: %s ran", x.choice, d.Name)
			}
		}
	}
}

// TestWebSearch: a search of the model's own is a call.
func TestWebSearch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, _ := b.open(t, backends.Config{}, modelstub.Say(
		modelstub.Raw(`{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"what is innerd"}}`),
		modelstub.Text("Found."),
	))
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	for _, e := range evs {
		if d, ok := e.Data.(events.ToolCall); ok {
			calls = append(calls, d.Name+" "+string(d.Input))
		}
	}
	if len(calls) != 1 || !strings.HasPrefix(calls[0], "web_search ") || !strings.Contains(calls[0], "what is innerd") {
		t.Errorf("calls %q", calls)
	}
}

// TestContentFilter: a provider that cuts an answer is not one that fails.
func TestContentFilter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	filtered := text("I was about to").Stops("content_filter")
	c, s := b.open(t, backends.Config{}, filtered, filtered, filtered, filtered)
	_, out, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil || out.Reason != backends.ReasonRefusal {
		t.Error(out, err)
	}
	if n := s.sc.Count(); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}
