package modelstub_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"innerd/test/agents"
	"innerd/test/modelstub"
	"innerd/test/modelstub/claudecli"
)

const message = "00000000-0000-4000-8000-000000000001"

// claude starts the real CLI against a scenario.
func claude(t *testing.T, sc *modelstub.Scenario, env ...string) *claudecli.CLI {
	t.Helper()
	home := t.TempDir()
	return claudecli.Start(t, claudecli.Options{
		Path: agents.Claude(t).Path, Dir: t.TempDir(), Home: home, ConfigDir: filepath.Join(home, "claude"),
		BaseURL: sc.BaseURL(), Key: sc.Key(), Env: env,
	})
}

type result struct {
	Result   string
	IsError  bool   `json:"is_error"`
	Terminal string `json:"terminal_reason"`
	Status   int    `json:"api_error_status"`
	Usage    struct {
		Input  int `json:"input_tokens"`
		Read   int `json:"cache_read_input_tokens"`
		Write  int `json:"cache_creation_input_tokens"`
		Output int `json:"output_tokens"`
	}
}

func parseResult(t *testing.T, line json.RawMessage) result {
	t.Helper()
	var r result
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// deltas joins what the CLI passed on of one kind: text, thinking, partial_json.
func deltas(t *testing.T, cli *claudecli.CLI, kind string) string {
	t.Helper()
	var sb strings.Builder
	for _, e := range cli.Log() {
		var m struct {
			Event struct{ Delta map[string]any }
		}
		if e.Dir != "out" || json.Unmarshal(e.Line, &m) != nil {
			continue
		}
		s, _ := m.Event.Delta[kind].(string)
		sb.WriteString(s)
	}
	return sb.String()
}

func count(cli *claudecli.CLI, kind string) (n int) {
	for _, e := range cli.Log() {
		for _, k := range claudecli.Kinds(e.Line) {
			if e.Dir == "out" && k == kind {
				n++
			}
		}
	}
	return n
}

// The real CLI takes the stub for its provider: thinking, a tool that really
// runs, its result in the next request, text, usage.
func TestClaudeRunsATool(t *testing.T) {
	t.Parallel()
	use := modelstub.Usage{Input: 5, CacheRead: 1000, CacheWrite: 200, Output: 30}
	sc := newStub(t).Scenario(
		modelstub.Say(
			modelstub.Thinking("I had better look, \u0085 of course."), modelstub.Text("One moment 👋🏽."),
			modelstub.Tool("Bash", map[string]any{"command": "echo from-$((6*7))", "description": "Say it"}),
		).Uses(use),
		modelstub.Say(modelstub.Text("The tool said {{tool_result}} about {{prompt}}")).Uses(use),
	)
	cli := claude(t, sc)
	cli.Say(message, "the answer")
	r := parseResult(t, cli.Await("result"))
	if r.IsError || r.Result != "The tool said from-42 about the answer" || r.Terminal != "completed" {
		t.Errorf("%+v", r)
	}
	if u := r.Usage; u.Input != 10 || u.Read != 2000 || u.Write != 400 || u.Output != 60 {
		t.Errorf("usage %+v", u)
	}
	if got := deltas(t, cli, "thinking"); got != "I had better look, \u0085 of course." {
		t.Errorf("thinking %q", got)
	}
	if got := deltas(t, cli, "text"); got != "One moment 👋🏽."+r.Result {
		t.Errorf("text %q", got)
	}
	if code := cli.Close(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	rs := sc.Requests()
	if len(rs) != 2 || len(sc.Side()) != 0 {
		t.Fatalf("%d requests, side %v", len(rs), sc.Side())
	}
	if _, ok := rs[0].Tool("Bash"); !ok || rs[0].Prompt() != "the answer" || rs[1].ToolResult() != "from-42" || rs[0].Header.Get("X-Api-Key") != sc.Key() {
		t.Errorf("prompt %q, result %q", rs[0].Prompt(), rs[1].ToolResult())
	}
}

func TestClaudeFailsWithoutItsKey(t *testing.T) {
	t.Parallel()
	sc := newStub(t).Scenario(modelstub.Fail(401).Forever())
	cli := claude(t, sc, "CLAUDE_CODE_MAX_RETRIES=0")
	cli.Say(message, "hello")
	if r := parseResult(t, cli.Await("result")); !r.IsError || r.Status != 401 || r.Terminal != "api_error" {
		t.Errorf("%+v", r)
	}
	if code := cli.Close(); code != 1 || count(cli, "system/api_retry") != 0 {
		t.Errorf("exit code %d, %d retries", code, count(cli, "system/api_retry"))
	}
}

func TestClaudeRetriesAnOverload(t *testing.T) {
	t.Parallel()
	sc := newStub(t).Scenario(modelstub.Fail(529), modelstub.Say(modelstub.Text("Here I am.")))
	cli := claude(t, sc)
	cli.Say(message, "hello")
	if r := parseResult(t, cli.Await("result")); r.IsError || r.Result != "Here I am." {
		t.Errorf("%+v", r)
	}
	cli.Close()
	if sc.Count() != 2 || count(cli, "system/api_retry") != 1 {
		t.Errorf("%d requests, %d retries", sc.Count(), count(cli, "system/api_retry"))
	}
}

// A stream that breaks in a text is said again from the start.
func TestClaudeRetriesACutStream(t *testing.T) {
	t.Parallel()
	g := modelstub.NewGate()
	sc := newStub(t).Scenario(
		modelstub.Say(modelstub.Text("This is cut").Hold(g).Cut(modelstub.CutReset)), modelstub.Say(modelstub.Text("This is whole.")),
	)
	cli := claude(t, sc)
	cli.Say(message, "hello")
	cli.Await("stream_event/content_block_delta")
	g.Release()
	if r := parseResult(t, cli.Await("result")); r.IsError || r.Result != "This is whole." {
		t.Errorf("%+v", r)
	}
	cli.Close()
	if sc.Count() != 2 || count(cli, "assistant") != 1 || !strings.HasSuffix(deltas(t, cli, "text"), "This is whole.") {
		t.Errorf("%d requests, text %q", sc.Count(), deltas(t, cli, "text"))
	}
}

// An interrupt hangs up on the model.
func TestClaudeHangsUpWhenInterrupted(t *testing.T) {
	t.Parallel()
	sc := newStub(t).Scenario(modelstub.Say(modelstub.Text("For ever and ever").Hang()))
	cli := claude(t, sc)
	cli.Say(message, "hello")
	cli.Await("stream_event/content_block_delta")
	cli.Interrupt()
	if r := parseResult(t, cli.Await("result")); r.Terminal != "aborted_streaming" {
		t.Errorf("%+v", r)
	}
	if err := sc.AwaitIdle(t.Context()); err != nil {
		t.Error(err)
	}
}
