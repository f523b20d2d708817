package claudecode_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

// What an answer may take here: less than a test wants to wait,
// and more than a healthy fake takes on a machine that has much to do.
const (
	answerLimit = 4 * time.Second
	inputLimit  = 6 * time.Second // that to a turn's input
)

// atOnce is far above what a cancel or a death takes to be told on a busy
// machine, and below callLimit, 30 s, which it would take where nobody noticed.
const atOnce = 25 * time.Second

// TestWedged: a claude that leaves unanswered what takes no model is ended,
// whatever it is; the run says what, and the next one resumes the session in
// another claude.
func TestWedged(t *testing.T) {
	t.Parallel()
	first := []act{{Expect: userLine}, say("one"), {Print: okResult}}
	stuck := func(expect string) []act { return []act{{Expect: expect}, {Hang: true}} }
	for name, c := range map[string]struct {
		acts []act
		set  backends.Settings
		what string
	}{
		"effort":          {stuck("apply_flag_settings"), backends.Settings{Effort: "high"}, "the request to set its reasoning effort"},
		"thinking tokens": {stuck("set_max_thinking_tokens"), backends.Settings{ThinkingTokens: 2000}, "the request to set its thinking tokens"},
		"withdrawn tools": {
			slices.Concat([]act{{Expect: "list_changed"}, {Print: listTools}, {Expect: `"tools":[]`}}, stuck("apply_flag_settings")),
			backends.Settings{Tools: []backends.Tool{}},
			"the request to set its reasoning effort",
		},
		"input": {stuck(userLine), backends.Settings{}, "its input"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := openFake(t, false, "", slices.Concat(first, c.acts)...)
			f.backend.SetCallLimit(answerLimit)
			f.backend.SetInputLimit(inputLimit)
			before := backends.Settings{}
			if c.set.Tools != nil {
				before.Tools = []backends.Tool{tool("lookup")}
			}
			if _, _, err := run(t, f, backendtest.Turn{}, before); err != nil {
				t.Fatal(err)
			}
			keepSession(t, f.home, f.saved[0].ID)
			_, _, err := run(t, f, backendtest.Turn{}, c.set)
			limit := answerLimit
			if name == "input" {
				limit = inputLimit
			}
			if want := "claude did not answer " + c.what + " in " + limit.String(); class(err) != events.ErrBackendCrashed || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want: %s", err, want)
			}
			if lives(f) {
				t.Error("it says that claude lives")
			}
			goesOn(t, f)
		})
	}
}

// listTools is claude's fetching of a changed list.
const listTools = `{"type":"control_request","request_id":"l1","request":{"subtype":"mcp_message","server_name":"host","message":{"jsonrpc":"2.0","id":7,"method":"tools/list"}}}`

// goesOn checks that the next run is answered by another claude, which has
// resumed the session.
func goesOn(t *testing.T, f *faked) {
	t.Helper()
	f.write(t, slices.Concat(ready, []act{{Expect: userLine}, say("well"), {Print: okResult}, {Drain: true}}))
	evs, _, err := run(t, f, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(texts(evs), []string{"well"}) {
		t.Errorf("the next run: %q, %v", texts(evs), err)
	}
	l := f.launches(t)
	if i := slices.Index(l[len(l)-1].Args, "--resume"); len(l) != 2 || i < 0 || l[1].Args[i+1] != f.saved[0].ID {
		t.Errorf("%d launches, the last one with %q", len(l), l[len(l)-1].Args)
	}
}

// TestWedgedCompaction: the same where claude is asked to compact.
func TestWedgedCompaction(t *testing.T) {
	t.Parallel()
	f := openFake(t, false, "", act{Expect: userLine}, say("one"), act{Print: okResult}, act{Expect: "/compact"}, act{Hang: true})
	f.backend.SetCallLimit(answerLimit)
	f.backend.SetInputLimit(inputLimit)
	if _, _, err := run(t, f, backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	keepSession(t, f.home, f.saved[0].ID)
	err := f.Conversation.(backends.Compacter).Compact(t.Context())
	if class(err) != events.ErrBackendCrashed || !strings.Contains(err.Error(), "claude did not answer its input in "+inputLimit.String()) {
		t.Error(err)
	}
	goesOn(t, f)
}

// TestNotWedged: a claude that has said that it has its input may take its time.
func TestNotWedged(t *testing.T) {
	t.Parallel()
	f := openFake(t, false, "", act{Expect: userLine}, say("one"), act{Print: okResult},
		act{Expect: "apply_flag_settings"}, act{Print: answered}, act{Expect: userLine},
		act{Print: `{"type":"command_lifecycle","command_uuid":"{{uuid}}","state":"queued"}`}, act{Sleep: 4000}, say("two"), act{Print: okResult}, act{Drain: true})
	f.backend.SetCallLimit(answerLimit)
	f.backend.SetInputLimit(inputLimit)
	for _, effort := range []string{"", "high"} {
		if _, _, err := run(t, f, backendtest.Turn{}, backends.Settings{Effort: effort}); err != nil {
			t.Fatal(err)
		}
	}
}

const answered = `{"type":"control_response","response":{"subtype":"success","request_id":"{{req}}","response":{}}}`
