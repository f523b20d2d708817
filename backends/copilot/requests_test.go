package copilot_test

import (
	"slices"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

// TestRequestsOutsideARun are refused: nobody could answer them.
func TestRequestsOutsideARun(t *testing.T) {
	f := newFake(t, acts(send("i1"), []act{say("ok")}, stop, []act{
		event(`{"type":"permission.requested","data":{"requestId":"p","permissionRequest":{"kind":"hook","toolName":"bash"}}}`),
		event(`{"type":"external_tool.requested","data":{"requestId":"e","toolName":"one"}}`),
		say("on my own"),
		{Expect: `"kind":"reject"`},
		{Answer: `{}`},
		{Expect: `"resultType":"failure"`},
		{Answer: `{}`},
	})...)
	c := f.open(t, nil)
	if _, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	f.await(t, `"resultType":"failure"`, 1)
	if f.strays.Load() != 1 {
		t.Errorf("%d strays", f.strays.Load())
	}
}

// TestOtherPermission: one that does not come of our hook is asked for too.
func TestOtherPermission(t *testing.T) {
	reply := backendtest.Reply{Kind: events.KindPermission, Answer: events.Answer{Outcome: events.OutcomeDenied, Message: "no"}}
	_, rec, _, err := play(t, backends.Settings{}, backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{reply}}}, acts([]act{
		event(`{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"bash","arguments":{"command":"x"}}}`),
		event(`{"type":"permission.requested","data":{"requestId":"p","permissionRequest":{"kind":"shell","toolCallId":"c","fullCommandText":"x"}}}`),
		{Expect: `"feedback":"no"`},
		{Answer: `{}`},
		event(`{"type":"tool.execution_complete","data":{"toolCallId":"c","success":false,"error":{"message":"denied","code":"denied"}}}`), say("ok"),
	}, stop)...)
	if err != nil || !says(rec, `"tool":"bash"`) {
		t.Errorf("%v\n%s", err, backendtest.Dump(rec.Events()))
	}
}

// TestWithdrawnPermission: one that copilot has settled by itself, with a
// sub-agent that was ended say, is open no longer.
func TestWithdrawnPermission(t *testing.T) {
	later := backendtest.Reply{Kind: events.KindPermission, Tool: "two", After: 50 * time.Millisecond, Answer: events.Answer{Outcome: events.OutcomeAllowed}}
	_, rec, _, err := play(t, backends.Settings{}, backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{later}}}, acts([]act{
		event(`{"type":"subagent.started","agentId":"a","data":{"toolCallId":"t","agentName":"x"}}`),
		event(`{"type":"permission.requested","agentId":"a","data":{"requestId":"p","permissionRequest":{"kind":"hook","toolCallId":"c","toolName":"one","toolArgs":{}}}}`),
		event(`{"type":"permission.completed","agentId":"a","data":{"requestId":"p","result":{"kind":"cancelled"}}}`),
		event(`{"type":"permission.requested","data":{"requestId":"q","permissionRequest":{"kind":"hook","toolCallId":"d","toolName":"two","toolArgs":{}}}}`),
		{Expect: `"approve-once"`},
		{Answer: `{}`},
		say("ok"),
	}, stop)...)
	var order []string
	for _, e := range rec.Events() {
		switch d := e.Data.(type) {
		case events.PermissionResolved:
			order = append(order, d.Outcome)
		case events.Message:
			order = append(order, "said")
		}
	}
	if want := []string{events.OutcomeCanceled, events.OutcomeAllowed, "said"}; err != nil || !slices.Equal(order, want) {
		t.Errorf("%v, %q", err, order)
	}
}
