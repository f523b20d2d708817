package claudecode_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

const isReady = `{"type":"control_response","response":{"subtype":"success","request_id":"{{req}}","response":{}}}`

// TestFirstInputAtOnce: a new claude has the input before it has said that it
// is ready, and what it says before belongs to no turn.
func TestFirstInputAtOnce(t *testing.T) {
	f := openFake(t, true, "", act{Expect: "initialize"}, act{Expect: userLine}, say("too soon"),
		act{Print: isReady}, say("hello"), act{Print: okResult}, act{Drain: true})
	evs, out, err := run(t, f, backendtest.Turn{}, backends.Settings{})
	if err != nil || out.Reason != backends.ReasonEndTurn || !slices.Equal(texts(evs), []string{"hello"}) {
		t.Errorf("%q %v %v", texts(evs), out, err)
	}
	if n := f.strays.Load(); n != 1 {
		t.Errorf("%d strays", n)
	}
}

// TestSettingsFirst: what can be set only once claude runs is set before it has
// the input.
func TestSettingsFirst(t *testing.T) {
	f := openFake(t, false, "", act{Expect: `"effortLevel":"high"`}, act{Print: isReady},
		act{Expect: `"max_thinking_tokens":7`}, act{Print: isReady}, act{Expect: userLine}, say("hello"), act{Print: okResult}, act{Drain: true})
	evs, _, err := run(t, f, backendtest.Turn{}, backends.Settings{Effort: "high", ThinkingTokens: 7})
	if err != nil || !slices.Equal(texts(evs), []string{"hello"}) {
		t.Errorf("%q %v", texts(evs), err)
	}
}

// TestRefusedSetUp: an input that was sent to a claude that refuses its set-up,
// and with it the hook that has it ask, is never answered. The next try has
// another session.
func TestRefusedSetUp(t *testing.T) {
	f := openFake(t, true, "", act{Expect: "initialize"}, act{Expect: userLine},
		act{Print: `{"type":"control_response","response":{"subtype":"error","request_id":"{{req}}","error":"no such hook"}}`}, say("unasked"), act{Drain: true})
	evs, _, err := run(t, f, backendtest.Turn{}, backends.Settings{})
	if class(err) != events.ErrInvalidRequest || len(evs) > 0 {
		t.Error(err, evs)
	}
	f.write(t, append(append([]act(nil), ready...), act{Expect: userLine}, say("now"), act{Print: okResult}, act{Drain: true}))
	if evs, _, err = run(t, f, backendtest.Turn{}, backends.Settings{}); err != nil || !slices.Equal(texts(evs), []string{"now"}) {
		t.Error(err, texts(evs))
	}
	if len(f.saved) != 2 || f.saved[0].ID == f.saved[1].ID {
		t.Errorf("saved %v", f.saved)
	}
	if l := f.launches(t); !slices.Contains(l[1].Args, f.saved[1].ID) {
		t.Errorf("%q", l[1].Args)
	}
}

// TestSavedBeforeTold: claude starts while the session is noted, and hears
// nothing before that is done.
func TestSavedBeforeTold(t *testing.T) {
	f := openFake(t, false, "", act{Expect: userLine}, say("hello"), act{Print: okResult}, act{Drain: true})
	f.save = func() error {
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if raw, err := os.ReadFile(f.script + ".launches"); err == nil && strings.HasSuffix(string(raw), "\n") {
				return errors.New("the disk is full")
			}
		}
		return errors.New("claude does not start")
	}
	evs, _, err := run(t, f, backendtest.Turn{}, backends.Settings{})
	if class(err) != events.ErrStorage || !strings.Contains(err.Error(), "the disk is full") || len(evs) > 0 {
		t.Error(err, evs)
	}
	if heard, err := os.ReadFile(f.script + ".heard"); err == nil {
		t.Errorf("claude heard %s", heard)
	}
}

// TestServerForTools: claude has no server of the host's before it has a tool.
func TestServerForTools(t *testing.T) {
	list := act{Print: `{"type":"control_request","request_id":"l1","request":{"subtype":"mcp_message","server_name":"host","message":{"jsonrpc":"2.0","id":1,"method":"tools/list"}}}`}
	f := openFake(t, true, "", act{Expect: `"request":{"subtype":"initialize","hooks":`}, act{Print: isReady}, act{Expect: userLine}, say("one"), act{Print: okResult},
		act{Expect: `{"subtype":"mcp_set_servers","servers":{"host":{"type":"sdk","name":"host"}}}`}, list, act{Expect: `"name":"lookup"`}, act{Expect: userLine}, say("two"), act{Print: okResult},
		act{Expect: "tools/list_changed"}, list, act{Expect: `"name":"search"`}, act{Expect: userLine}, say("three"), act{Print: okResult}, act{Drain: true})
	for i, tools := range [][]backends.Tool{nil, {tool("lookup")}, {tool("lookup"), tool("search")}} {
		evs, _, err := run(t, f, backendtest.Turn{}, backends.Settings{Tools: tools})
		if want := []string{"one", "two", "three"}[i : i+1]; err != nil || !slices.Equal(texts(evs), want) {
			t.Fatalf("%q %v", texts(evs), err)
		}
	}
	g := openFake(t, true, "", act{Expect: `"sdkMcpServers":["host"]`}, act{Print: isReady}, act{Expect: userLine}, say("one"), act{Print: okResult}, act{Drain: true})
	if _, _, err := run(t, g, backendtest.Turn{}, backends.Settings{Tools: []backends.Tool{tool("lookup")}}); err != nil {
		t.Error(err)
	}
}
