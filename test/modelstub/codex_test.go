package modelstub_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"innerd/test/modelstub"
)

const patch = "*** Begin Patch\n*** Add File: hello.txt\n+hello \"there\"\n*** End Patch\n"

// The real CLI takes the stub for its provider: reasoning, two tools at once
// that really run (one of them freeform), their results in the next request,
// text, usage.
func TestCodexRunsTools(t *testing.T) {
	t.Parallel()
	use := modelstub.Usage{Input: 50, CacheRead: 1000, CacheWrite: 200, Output: 30, Thinking: 10}
	sc := newStub(t).Scenario(
		modelstub.Say(
			modelstub.Thinking("I had better look, \u0085 of course."), modelstub.Text("One moment 👋🏽.").Phase("commentary"),
			modelstub.Tool("exec_command", map[string]any{"cmd": "echo from-$((6*7))"}), modelstub.Custom("apply_patch", patch),
		).Uses(use),
		modelstub.Say(modelstub.Text("It was about {{prompt}} with {{model}}.")).Uses(use),
	)
	r := codex(t, sc, "the answer", "-c", `model_reasoning_summary="detailed"`)
	said := r.items("agent_message")
	if r.code != 0 || len(said) != 2 || said[0]["text"] != "One moment 👋🏽." || said[1]["text"] != "It was about the answer with gpt-5.5." {
		t.Errorf("code %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
	if got := joined(r.items("reasoning"), "text"); got != "I had better look, \u0085 of course." {
		t.Errorf("reasoning %q", got)
	}
	if c := r.items("command_execution"); len(c) != 1 || c[0]["aggregated_output"] != "from-42\n" {
		t.Errorf("commands %v", c)
	}
	if f := r.items("file_change"); len(f) != 1 || f[0]["status"] != "completed" {
		t.Errorf("file changes %v", f)
	}
	last := r.events[len(r.events)-1]
	usage, _ := last["usage"].(map[string]any)
	for k, want := range map[string]float64{
		"input_tokens": 2500, "cached_input_tokens": 2000, "cache_write_input_tokens": 400, "output_tokens": 60, "reasoning_output_tokens": 20,
	} {
		if usage[k] != want {
			t.Errorf("%s %v, want %v", k, usage[k], want)
		}
	}
	codexAsked(t, sc)
}

func codexAsked(t *testing.T, sc *modelstub.Scenario) {
	t.Helper()
	rs := sc.Requests()
	if len(rs) != 2 || len(sc.Side()) != 0 {
		t.Fatalf("%d requests, side %v", len(rs), sc.Side())
	}
	p, ok := rs[0].Tool("apply_patch")
	if !ok || !p.Custom || rs[0].Prompt() != "the answer" || !strings.Contains(rs[0].System, "You are Codex") || rs[0].Header.Get("Authorization") != "Bearer "+sc.Key() {
		t.Errorf("prompt %q, apply_patch %v, system %.60q", rs[0].Prompt(), p, rs[0].System)
	}
	res := rs[1].ToolResults()
	if len(res) != 2 || !strings.Contains(res[0].Text, "from-42") || res[0].ID != "call_stub_0001" || !strings.Contains(res[1].Text, "hello.txt") {
		t.Errorf("results %v", res)
	}
}

func TestCodexFails(t *testing.T) {
	t.Parallel()
	stub := newStub(t)
	for name, tt := range map[string]struct {
		turn modelstub.Turn
		says string
		n    int
	}{
		"wrong key":        {modelstub.Fail(401), "unexpected status 401", 3},
		"unknown model":    {modelstub.Fail(404), "does not exist", 1},
		"context":          {modelstub.Say(modelstub.Control().Error(*modelstub.ContextTooLong().Fail)), "ran out of room", 1},
		"quota":            {modelstub.NoCredit(), "Quota exceeded", 1},
		"usage limit":      {modelstub.Turn{Fail: &modelstub.Failure{Status: 429, Body: `{"error":{"type":"usage_limit_reached","message":"x","resets_in_seconds":60}}`}}, "hit your usage limit", 1},
		"rate limit":       {modelstub.RateLimited(time.Second), "429", 3},
		"overloaded":       {modelstub.Overloaded(), "at capacity", 2},
		"incomplete":       {modelstub.Say(modelstub.Text("half")).Stops("max_tokens"), "max_output_tokens", 1},
		"error in stream":  {modelstub.Say(modelstub.Text("half").Error(modelstub.Failure{Status: 400})), "Invalid prompt", 1},
		"cut always":       {modelstub.Say(modelstub.Text("half").Cut(modelstub.CutDrop)), "stream disconnected", 3},
		"headers then end": {modelstub.Say(modelstub.Control().Cut(modelstub.CutEOF)), "stream closed before response.completed", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc := stub.Scenario(tt.turn.Forever())
			r := codex(t, sc, "hello")
			last := r.events[len(r.events)-1]
			if r.code != 1 || last["type"] != "turn.failed" || !strings.Contains(r.stdout, tt.says) || sc.Count() != tt.n {
				t.Errorf("code %d, %d requests\n%s", r.code, sc.Count(), r.stdout)
			}
		})
	}
}

// A stream that breaks is asked for again; what was said before is not in the
// end.
func TestCodexRetriesACutStream(t *testing.T) {
	t.Parallel()
	sc := newStub(t).Scenario(
		modelstub.Say(modelstub.Text("This is cut").Cut(modelstub.CutDrop)),
		modelstub.Turn{Fail: &modelstub.Failure{Status: http.StatusInternalServerError}},
		modelstub.Say(modelstub.Text("This is whole.")),
	)
	r := codex(t, sc, "hello")
	if said := r.items("agent_message"); r.code != 0 || len(said) != 1 || said[0]["text"] != "This is whole." || sc.Count() != 3 {
		t.Errorf("code %d, %d requests\n%s", r.code, sc.Count(), r.stdout)
	}
}
