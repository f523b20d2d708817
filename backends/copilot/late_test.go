package copilot_test

import (
	"slices"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
)

// TestLateWords: what belongs to a turn that has ended is nobody's, whenever it
// comes: before copilot begins with the next input, after that, from a
// sub-agent; what it asks then is refused.
func TestLateWords(t *testing.T) {
	t.Parallel()
	delta := event(`{"type":"assistant.message_delta","data":{"messageId":"old","deltaContent":"late"}}`)
	below := []act{
		event(`{"type":"assistant.message_delta","agentId":"a1","data":{"messageId":"b1","deltaContent":"late"}}`),
		event(`{"type":"tool.execution_start","agentId":"a1","data":{"toolCallId":"d","toolName":"view","arguments":{"path":"late"}}}`),
		event(`{"type":"permission.requested","agentId":"a1","data":{"requestId":"p1","permissionRequest":{"kind":"hook","toolName":"bash","toolCallId":"d"}}}`),
		event(`{"type":"subagent.completed","agentId":"a1","data":{}}`),
	}
	before := acts([]act{
		event(`{"type":"assistant.turn_start","data":{"turnId":"3"}}`),
		event(`{"type":"assistant.reasoning_delta","data":{"reasoningId":"r-old","deltaContent":"late"}}`),
		delta,
		event(`{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"view","arguments":{"path":"late"}}}`),
		event(`{"type":"permission.requested","data":{"requestId":"p0","permissionRequest":{"kind":"hook","toolName":"bash","toolCallId":"c"}}}`),
		event(`{"type":"external_tool.requested","data":{"requestId":"e0","toolName":"one","toolCallId":"c"}}`),
		event(`{"type":"tool.execution_complete","data":{"toolCallId":"c","success":true,"result":{"content":"late"}}}`),
		event(`{"type":"system.notification","data":{"content":"late"}}`),
		event(`{"type":"user.message","data":{"messageId":"i1","content":"x"}}`),
		event(`{"type":"model.call_failure","data":{"statusCode":400,"errorMessage":"late"}}`),
	}, below)
	f := newFake(t, acts(send("i1"), []act{
		event(`{"type":"subagent.started","agentId":"a1","data":{"toolCallId":"task","agentName":"x"}}`),
		event(`{"type":"assistant.message_delta","data":{"messageId":"old","deltaContent":"one"}}`),
		event(`{"type":"assistant.message","data":{"messageId":"old","content":"one","model":"fake"}}`),
	}, stop,
		[]act{{Expect: `"method":"session.send"`}}, before, []act{{Answer: `{"messageId":"i2"}`}}, before,
		[]act{event(`{"type":"user.message","data":{"messageId":"i2","content":"x"}}`), event(`{"type":"assistant.turn_start","data":{"turnId":"0"}}`)},
		[]act{delta, event(`{"type":"assistant.reasoning_delta","data":{"reasoningId":"r-old","deltaContent":"late"}}`)}, below,
		[]act{say("two")}, stop)...)
	c := f.open(t, nil)
	set := backends.Settings{Tools: []backends.Tool{{Name: "one"}}}
	for _, want := range []string{"one", "two"} {
		rec, _, err := run(t, t.Context(), c, backendtest.Turn{}, set)
		if dump := backendtest.Dump(rec.Events()); err != nil || !slices.Equal(messages(rec), []string{want}) || strings.Contains(dump, "late") || strings.Contains(dump, "request") {
			t.Errorf("%v\n%s", err, dump)
		}
	}
	f.await(t, `"kind":"reject"`, 5)
	f.await(t, `"resultType":"failure"`, 2)
}

// TestLeftAgentIsUsed: a sub-agent that a turn has left is heard again, and may
// ask, once it is given something to do in the next.
func TestLeftAgentIsUsed(t *testing.T) {
	t.Parallel()
	f := newFake(t, acts(send("i1"), []act{
		event(`{"type":"subagent.started","agentId":"a1","data":{"toolCallId":"task","agentName":"x"}}`),
		say("one"),
	}, stop, send("i2"), []act{
		event(`{"type":"assistant.message_delta","agentId":"a1","data":{"messageId":"b1","deltaContent":"late"}}`),
		event(`{"type":"user.message","agentId":"a1","data":{"messageId":"b2","content":"x","source":"agent-1"}}`),
		event(`{"type":"assistant.message_delta","agentId":"a1","data":{"messageId":"b3","deltaContent":"again"}}`),
		event(`{"type":"subagent.completed","agentId":"a1","data":{}}`),
		say("two"),
	}, stop)...)
	c := f.open(t, nil)
	for _, want := range []string{"one", "two"} {
		rec, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{})
		dump := backendtest.Dump(rec.Events())
		if err != nil || !slices.Equal(messages(rec), []string{want}) || strings.Contains(dump, "late") {
			t.Errorf("%v\n%s", err, dump)
		}
		heard := strings.Contains(dump, "again") && strings.Count(dump, "subagent.start") == 1 && strings.Count(dump, "subagent.complete") == 1
		if want == "two" && !heard {
			t.Errorf("the sub-agent is not heard\n%s", dump)
		}
	}
}
