package claudecode_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

// TestLateWords: what belongs to a turn that has ended is nobody's, whenever it
// comes: before claude begins with the next input, and a sub-agent's after that
// too. What it asks then is refused.
func TestLateWords(t *testing.T) {
	t.Parallel()
	lifecycle := func(state string) act {
		return act{Print: `{"type":"command_lifecycle","command_uuid":"{{uuid}}","state":"` + state + `"}`}
	}
	n := 0
	refused := func(subtype, word string) []act {
		n++
		return []act{{Print: fmt.Sprintf(`{"type":"control_request","request_id":"q%d","request":{"subtype":%s}}`, n, subtype)}, {Expect: word}}
	}
	below := []act{
		{Print: `{"type":"assistant","parent_tool_use_id":"task","agent_id":"a1","message":{"id":"b","model":"claude-x","content":[{"type":"text","text":"late"}]}}`},
		{Print: `{"type":"assistant","parent_tool_use_id":"task","agent_id":"a1","message":{"id":"b","model":"claude-x","content":[{"type":"tool_use","id":"d","name":"Read","input":{"file_path":"late"}}]}}`},
	}
	late := slices.Concat([]act{
		{Print: `{"type":"stream_event","event":{"type":"message_start","message":{"id":"m0","model":"claude-x"}}}`},
		{Print: `{"type":"stream_event","event":{"type":"content_block_start","content_block":{"type":"text","text":""}}}`},
		{Print: `{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"late"}}}`},
		say("late"),
		{Print: `{"type":"assistant","message":{"id":"m0","model":"claude-x","content":[{"type":"tool_use","id":"c","name":"Bash","input":{"command":"late"}}]}}`},
		{Print: `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":"late"}]}}`},
		{Print: `{"type":"system","subtype":"status","status":"compacting"}`},
		{Print: `{"type":"result","is_error":true,"num_turns":1,"terminal_reason":"aborted_streaming","errors":["late"]}`},
	},
		refused(`"can_use_tool","tool_name":"Bash","tool_use_id":"c","input":{"command":"late"}`, "No run is active"),
		refused(`"mcp_message","server_name":"host","message":{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"one","arguments":{}}}`, "No run is active"),
		below)
	f := openFake(t, false, "", slices.Concat([]act{
		{Expect: `"type":"user"`},
		lifecycle("queued"),
		lifecycle("started"),
		{Print: `{"type":"assistant","message":{"id":"m0","model":"claude-x","content":[{"type":"tool_use","id":"task","name":"Agent","input":{"prompt":"x"}}]}}`},
		{Print: `{"type":"system","subtype":"task_started","task_id":"a1","tool_use_id":"task","task_type":"local_agent","subagent_type":"x"}`},
		say("one"),
		{Print: okResult},
		{Expect: `"type":"user"`},
	}, late, []act{lifecycle("queued")}, late, []act{lifecycle("started")}, below, []act{say("two"), {Print: okResult}, {Drain: true}})...)
	set := backends.Settings{Tools: []backends.Tool{{Name: "one"}}}
	for _, want := range []string{"one", "two"} {
		evs, _, err := run(t, f, backendtest.Turn{}, set)
		if dump := backendtest.Dump(evs); err != nil || !slices.Equal(texts(evs), []string{want}) || strings.Contains(dump, "late") || strings.Contains(dump, "request") {
			t.Errorf("%v\n%s", err, dump)
		}
	}
}

// TestIdleBeforeItsWorkEnded: an interrupted claude may say that it is idle
// before its background work has ended, and nothing after that. It has stopped,
// and is not ended for its silence.
func TestIdleBeforeItsWorkEnded(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := openFakeFor(t, time.Minute, self, false, "",
		act{Expect: `"type":"user"`},
		act{Print: `{"type":"command_lifecycle","command_uuid":"{{uuid}}","state":"started"}`},
		act{Print: `{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b1"}]}`},
		say("one"),
		act{Print: `{"type":"system","subtype":"status","status":"requesting"}`},
		act{Expect: `"interrupt"`},
		act{Expect: `"stop_task"`},
		act{Print: `{"type":"result","is_error":true,"num_turns":1,"terminal_reason":"aborted_streaming","errors":["stopped"]}`},
		act{Print: `{"type":"command_lifecycle","command_uuid":"{{uuid}}","state":"cancelled"}`},
		act{Print: `{"type":"system","subtype":"session_state_changed","state":"idle"}`},
		act{Print: `{"type":"system","subtype":"background_tasks_changed","tasks":[]}`},
		act{Drain: true},
	)
	turn := backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}
	ctx, cancel := context.WithCancelCause(t.Context())
	_, _, err = runIn(ctx, t, f, turn, backends.Settings{Background: backends.BackgroundWait}, func() { cancel(backends.ErrCanceled) })
	if !errors.Is(err, backends.ErrCanceled) {
		t.Error(err)
	}
	select {
	case <-f.Done():
		t.Error("claude was ended")
	default:
	}
}
