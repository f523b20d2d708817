package modelstub_test

import (
	"strings"
	"testing"

	"innerd/test/modelstub"
)

// The real CLI takes the stub for its provider, with each API that it knows.
func TestCopilotRunsTools(t *testing.T) {
	t.Parallel()
	for api, model := range map[string]string{"completions": "gpt-5.4", "responses": "gpt-5.4", "anthropic": "claude-sonnet-4.5"} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			use := modelstub.Usage{Input: 50, CacheRead: 1000, CacheWrite: 200, Output: 30, Thinking: 10}
			first := []modelstub.Block{
				modelstub.Thinking("I had better look, \u0085 of course."), modelstub.Text("One moment 👋🏽."),
				modelstub.Tool("bash", map[string]any{"command": "echo from-$((6*7))", "description": "say it"}),
			}
			if api != "anthropic" {
				first = append(first, modelstub.Custom("apply_patch", patch))
			}
			sc := newStub(t).Scenario(modelstub.Say(first...).Uses(use), modelstub.Say(modelstub.Text("It was about {{prompt}}.")).Uses(use))
			r := copilot(t, sc, api, model, "the answer")
			if r.code != 0 {
				t.Fatalf("code %d\n%s\n%s", r.code, r.stdout, r.stderr)
			}
			if got := joined(r.data("assistant.message"), "content"); got != "One moment 👋🏽.It was about the answer." {
				t.Errorf("said %q", got)
			}
			if got := joined(r.data("assistant.message_delta"), "deltaContent"); got != "One moment 👋🏽.It was about the answer." {
				t.Errorf("deltas %q", got)
			}
			if got := joined(r.data("assistant.reasoning_delta"), "deltaContent"); got != "I had better look, \u0085 of course." {
				t.Errorf("reasoning %q", got)
			}
			copilotAsked(t, sc, len(first)-2)
		})
	}
}

func copilotAsked(t *testing.T, sc *modelstub.Scenario, results int) {
	t.Helper()
	rs := sc.Requests()
	if len(rs) != 2 || len(sc.Side()) != 0 {
		t.Fatalf("%d requests, side %v", len(rs), sc.Side())
	}
	if _, ok := rs[0].Tool("bash"); !ok || rs[0].Prompt() != "the answer" || !strings.Contains(rs[0].System, "Copilot CLI") {
		t.Errorf("prompt %q, system %.60q", rs[0].Prompt(), rs[0].System)
	}
	res := rs[1].ToolResults()
	if len(res) != results || !strings.Contains(res[0].Text, "from-42") || results > 1 && !strings.Contains(res[1].Text, "hello.txt") {
		t.Errorf("results %v", res)
	}
}
