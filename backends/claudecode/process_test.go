package claudecode_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/test/agents"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

const userLine = `"type":"user"`

func run(t *testing.T, c backends.Conversation, turn backendtest.Turn, set backends.Settings) ([]events.Event, backends.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	return runIn(ctx, t, c, turn, set, func() { cancel(backends.ErrCanceled) })
}

func runIn(ctx context.Context, t *testing.T, c backends.Conversation, turn backendtest.Turn, set backends.Settings, onCancel func()) ([]events.Event, backends.Outcome, error) {
	t.Helper()
	rec := backendtest.NewRecorder(turn, nil, onCancel)
	set.Interactive = turn.Interactive
	if turn.Permission == "" {
		set.Options = backendtest.AutoOptions
	}
	out, err := c.Run(ctx, backends.Input{Parts: []events.Part{events.Text(orText(turn.Prompt, "Go."))}, Set: set}, rec)
	rec.Close()
	return rec.Events(), out, err
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// texts are the whole messages.
func texts(evs []events.Event) []string {
	sums := map[string]string{}
	var out []string
	for _, e := range evs {
		switch d := e.Data.(type) {
		case events.MessageDelta:
			sums[d.MessageID] += d.Delta
		case events.Message:
			out = append(out, sums[d.MessageID])
		}
	}
	return out
}

func class(err error) string {
	var e *backends.Error
	if errors.As(err, &e) {
		return e.Type
	}
	return ""
}

func TestLaunch(t *testing.T) {
	t.Setenv("A_SECRET_OF_THE_SERVER", "x")
	f := openFake(t, false, "", act{Expect: userLine}, say("hello"), act{Print: okResult}, act{Drain: true})
	evs, out, err := run(t, f, backendtest.Turn{}, backends.Settings{System: "Be kind.", MaxTurns: 7})
	if err != nil || out.Reason != backends.ReasonEndTurn || !out.Stored {
		t.Fatal(out, err)
	}
	if got := texts(evs); !slices.Equal(got, []string{"hello"}) {
		t.Error(got)
	}
	l := f.launches(t)[0]
	if l.Key != "sk-secret-of-the-test" {
		t.Errorf("the key came as %q", l.Key)
	}
	if s := strings.Join(append(l.Args, l.Env...), "\n"); strings.Contains(s, "sk-secret") || strings.Contains(s, "A_SECRET") {
		t.Errorf("a secret is in the arguments or the environment:\n%s", s)
	}
	for _, want := range [][]string{
		{"--setting-sources", ""},
		{"--strict-mcp-config"},
		{"--permission-prompt-tool", "stdio"},
		{"--system-prompt-snapshot", "off"},
		{"--max-turns", "7"},
		{"--session-id", f.saved[0].ID},
		{"--include-partial-messages"},
		{"--add-dir=/an/added/folder"},
	} {
		if i := slices.Index(l.Args, want[0]); i < 0 || !slices.Equal(l.Args[i:i+len(want)], want) {
			t.Errorf("%q is not among %q", want, l.Args)
		}
	}
	for _, want := range []string{
		"CLAUDE_CONFIG_DIR=" + f.home + "/claude", "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR=3", "ANTHROPIC_BASE_URL=http://127.0.0.1:9",
		"CLAUDE_CODE_MAX_RETRIES=3", "CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST=1", "DISABLE_AUTOUPDATER=1",
	} {
		if !slices.Contains(l.Env, want) {
			t.Errorf("%s is not in the environment", want)
		}
	}
	u := evs[len(evs)-1].Data.(events.Usage)
	if *u.InputTokens != 1 || *u.OutputTokens != 2 || *u.Cost != 0.5 || u.Model != "claude-x" {
		t.Errorf("usage %+v", u)
	}
}

// Who prints without end what does not belong there fills neither the server's
// log nor the run's.
func TestOddOutputWithoutEnd(t *testing.T) {
	const count = 5000
	stray := fmt.Sprintf(said, "nobody asked") + "\n"
	f := openFake(t, false, "", act{Expect: userLine}, act{Raw: strings.Repeat("y\n", count)},
		say("the end"), act{Print: okResult}, act{Raw: strings.Repeat(stray, count)}, act{Drain: true})
	evs, _, err := run(t, f, backendtest.Turn{}, backends.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(t.Context()); err != nil { // all is read then
		t.Fatal(err)
	}
	if got := texts(evs); !slices.Equal(got, []string{"the end"}) {
		t.Errorf("%q", got)
	}
	if n := f.logged.n.Load(); n == 0 || n > 50 {
		t.Errorf("%d lines were logged", n)
	}
	if n := f.strays.Load(); n == 0 || n > 50 {
		t.Errorf("%d strays were told", n)
	}
	if len(evs) > 100 {
		t.Errorf("%d events", len(evs))
	}
}

func TestOddOutput(t *testing.T) {
	f := openFake(t, false, "",
		act{Raw: "\n\xff\xfe not json\n"}, act{Expect: userLine},
		act{Raw: "warning: something\n[1,2]\n"}, act{Print: `{"type":"a_new_type","data":{"x":[1]}}`},
		act{Print: `{"type":"system","subtype":"news","status":{"deep":1}}`},
		act{Slow: `{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"in pieces ü"},{"type":"hologram"}],"novel":7},"extra":{}}`},
		act{Print: `{"type":"control_request","request_id":"x1","request":{"subtype":"dance"}}`},
		act{Expect: `"subtype":"error"`},
		act{Print: `{"type":"control_request","request_id":"x2","request":{"subtype":"hook_callback","input":{"tool_name":"Bash"}}}`},
		act{Expect: `"permissionDecision":"ask"`},
		act{Print: `{"type":"control_request","request_id":"x3","request":{"subtype":"hook_callback","input":{"tool_name":"mcp__host__x"}}}`},
		act{Expect: `"permissionDecision":"allow"`},
		act{Print: `{"type":"result","is_error":false,"origin":{"kind":"task-notification"},"model_usage_since_last_result":{"claude-x":{"inputTokens":5}}}`},
		say("the end"), act{Print: okResult}, act{Drain: true})
	evs, _, err := run(t, f, backendtest.Turn{}, backends.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if got := texts(evs); !slices.Equal(got, []string{"in pieces üthe end"}) {
		t.Errorf("%q", got)
	}
	notices := 0
	for _, e := range evs {
		if s, ok := e.Data.(events.Status); ok && s.State == events.StateNotice {
			notices++
		}
	}
	if notices < 2 || notices > 3 { // the first line may have come before the turn
		t.Errorf("%d notices", notices)
	}
	want := map[string]int64{"a_new_type": 1, "system/news": 1, "control_request/dance": 1}
	if got := f.backend.Unknown(); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if u := evs[len(evs)-1].Data.(events.Usage); *u.InputTokens != 6 {
		t.Errorf("the other result is not counted: %d", *u.InputTokens)
	}
}

// lives is what the conversation says of its claude.
func lives(f *faked) bool { return f.Conversation.(backends.Lively).Lives() }

func TestWithdrawnPermission(t *testing.T) {
	f := openFake(t, false, "", act{Expect: userLine},
		act{Print: `{"type":"control_request","request_id":"p1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"t1"}}`},
		act{Print: `{"type":"control_cancel_request","request_id":"p1"}`},
		say("never mind"), act{Print: okResult}, act{Expect: userLine}, // no answer comes in between
		say("next"), act{Print: okResult}, act{Drain: true})
	evs, _, err := run(t, f, backendtest.Turn{}, backends.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	var outcome string
	for _, e := range evs {
		if r, ok := e.Data.(events.PermissionResolved); ok {
			outcome = r.Outcome
		}
	}
	if outcome != events.OutcomeCanceled {
		t.Errorf("the withdrawn request was %q", outcome)
	}
	if _, _, err := run(t, f, backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Error(err)
	}
}

const (
	tasks  = `{"type":"system","subtype":"background_tasks_changed","tasks":[%s]}`
	state  = `{"type":"system","subtype":"session_state_changed","state":"%s"}`
	byTask = `{"type":"result","is_error":false,"num_turns":1,"stop_reason":"end_turn","origin":{"kind":"task-notification"}}`
)

// live lists one task in the background, or none.
func live(id string) act {
	if id != "" {
		id = fmt.Sprintf(`{"task_id":"%s"}`, id)
	}
	return act{Print: fmt.Sprintf(tasks, id)}
}

func becomes(s string) act { return act{Print: fmt.Sprintf(state, s)} }

// TestBackgroundThatDoesNotEnd: the run is answered all the same, and the next
// one has another claude.
func TestBackgroundThatDoesNotEnd(t *testing.T) {
	f := openFake(t, false, "", act{Expect: userLine}, live("t1"), say("It runs."), act{Print: okResult}, becomes("idle"),
		act{Expect: `"stop_task","task_id":"t1"`}, act{Hang: true})
	f.backend.SetStopLimit(100 * time.Millisecond)
	evs, out, err := run(t, f, backendtest.Turn{}, backends.Settings{})
	if err != nil || out.Reason != backends.ReasonEndTurn || !slices.Equal(texts(evs), []string{"It runs."}) {
		t.Fatal(texts(evs), out, err)
	}
	f.write(t, append(append([]act(nil), ready...), act{Expect: userLine}, say("next"), act{Print: okResult}, act{Drain: true}))
	evs, _, err = run(t, f, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(texts(evs), []string{"next"}) {
		t.Error(texts(evs), err)
	}
}

// TestGoesOnByItself: what ends by itself has claude ask its model once more,
// which may take longer than background work may take to end.
func TestGoesOnByItself(t *testing.T) {
	f := openFake(t, false, "", act{Expect: userLine}, live("t1"), say("It runs."), act{Print: okResult}, becomes("idle"),
		act{Expect: `"stop_task","task_id":"t1"`}, live(""), becomes("running"), act{Sleep: 500},
		act{Print: fmt.Sprintf(strings.Replace(said, `"id":"m"`, `"id":"m2"`, 1), "It is over.")}, act{Print: byTask}, becomes("idle"), act{Drain: true})
	f.backend.SetStopLimit(50 * time.Millisecond)
	evs, out, err := run(t, f, backendtest.Turn{}, backends.Settings{})
	if err != nil || out.Reason != backends.ReasonEndTurn || !slices.Equal(texts(evs), []string{"It runs.", "It is over."}) {
		t.Fatal(texts(evs), out, err)
	}
}

// TestCallInText: a call that comes while text streams closes that message; the
// rest is another one, and nothing is said twice.
func TestCallInText(t *testing.T) {
	stream := func(event string) act {
		return act{Print: `{"type":"stream_event","event":` + event + `}`}
	}
	delta := func(text string) act {
		return stream(fmt.Sprintf(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"%s"}}`, text))
	}
	f := openFake(t, false, "", act{Expect: userLine},
		stream(`{"type":"message_start","message":{"id":"m","model":"claude-x"}}`),
		stream(`{"type":"content_block_start","content_block":{"type":"text","text":""}}`), delta("one "),
		act{Print: `{"type":"control_request","request_id":"c1","request":{"subtype":"mcp_message","server_name":"host","message":{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"lookup","arguments":{}}}}}`},
		act{Expect: `"found"`}, delta("two"), say("one two"), act{Print: okResult}, act{Drain: true})
	turn := backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{
		{Kind: events.KindTool, Tool: "lookup", Answer: events.Answer{Outcome: events.OutcomeOK, Result: "found"}},
	}}}
	evs, _, err := run(t, f, turn, backends.Settings{Tools: []backends.Tool{tool("lookup")}})
	if err != nil || !slices.Equal(texts(evs), []string{"one ", "two"}) {
		t.Errorf("%q %v", texts(evs), err)
	}
}

// TestSweepBehindAScript: a claude behind a script that does not become it stays
// warm when what its commands have left is ended.
func TestSweepBehindAScript(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "claude")
	agents.WriteProgram(t, path, "#!/bin/sh\n"+self+" \"$@\"\nexit $?\n")
	turn := func(text string) []act { return []act{{Expect: `"type":"user"`}, say(text), {Print: okResult}} }
	f := openFakeAt(t, path, false, "", slices.Concat(turn("one"), turn("two"), []act{{Drain: true}})...)
	for _, want := range []string{"one", "two"} {
		evs, _, err := run(t, f, backendtest.Turn{}, backends.Settings{})
		if err != nil || !slices.Equal(texts(evs), []string{want}) {
			t.Fatalf("%v, %q", err, texts(evs))
		}
		f.Conversation.(backends.Sweeper).Sweep(t.Context())
	}
	select {
	case <-f.Done():
		t.Error("the warm claude was ended")
	default:
	}
	if n := len(f.launches(t)); n != 1 {
		t.Errorf("%d launches", n)
	}
}
