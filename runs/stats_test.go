package runs_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"innerd/backends"
	"innerd/events"
	"innerd/runs"
	"innerd/telemetry"
	"innerd/toolbridge"
)

func TestStatsAndOverview(t *testing.T) {
	goOn := make(chan struct{})
	b := &played{run: func(ctx context.Context, in backends.Input, h backends.Host, a *playedAgent) (backends.Outcome, error) {
		say(h, "m")
		<-goOn
		return says("n")(ctx, in, h, a)
	}}
	w := playing(t, b)
	first := w.begin(by("played"), inContext("c"))
	until[events.MessageDelta](t, first)
	second := w.begin(by("played"), inContext("c"))
	until[events.Status](t, second)
	st := w.m.Stats().Backends["played"]
	if st.Working != 1 || st.Queued != 1 || st.Waiting != 0 || st.Accepted != 2 || st.Conversations[runs.ConversationRunning] != 1 || st.Unknown != 2 || st.FirstDelta.Count != 1 {
		t.Errorf("%+v", st)
	}
	all := w.m.Overview("me")
	if len(all) != 2 || len(w.m.Overview("another")) != 0 {
		t.Errorf("%+v", all)
	}
	for _, r := range all {
		if want := map[string]string{first.ID(): runs.StageWorking, second.ID(): runs.StageQueued}[r.ID]; r.State != want || r.Backend != "played" || r.ConversationID == "" || r.LastEventID < 2 {
			t.Errorf("%+v", r)
		}
	}
	close(goOn)
	w.await(first)
	w.await(second)
	w.stopRuns() // after its end, a run is counted
	got := w.m.Stats()
	st = got.Backends["played"]
	if n := st.Ended[runs.Ending{State: events.Completed}]; n != 2 || st.Working+st.Queued != 0 || st.Run.Count != 2 || st.FirstDelta.Count != 2 {
		t.Errorf("%+v", st)
	}
	// Another history than the agent knows: the second run began a session anew.
	if st.Starts[runs.StartOK] != 2 || st.Start.Count != 2 || got.Starting != 0 {
		t.Errorf("%+v", st)
	}
	w.m = nil
}

// stopRuns shuts the manager down, which can still be asked then.
func (w *world) stopRuns() {
	w.t.Helper()
	if err := w.m.Shutdown(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = w.store.Close() })
}

func TestAStartThatFailsIsSeen(t *testing.T) {
	e := tracetest.NewInMemoryExporter()
	b := &played{open: func(context.Context, backends.Config) error {
		return &backends.Error{Type: events.ErrBackendUnavailable, Message: "no such program"}
	}}
	w := playing(t, b, func(w *world) { w.tracer = telemetry.New(e) })
	w.run(by("played"))
	w.stopRuns()
	st := w.m.Stats().Backends["played"]
	if st.Starts[runs.StartFailed] != 1 || st.Start.Count != 0 || st.Ended[runs.Ending{State: events.Failed, ErrorType: events.ErrBackendUnavailable}] != 1 {
		t.Errorf("%+v", st)
	}
	w.m = nil
	spans := e.GetSpans()
	if len(spans) != 2 || spans[0].Name != "start_agent played" || spans[1].Name != "invoke_agent played" ||
		spans[0].Parent.SpanID() != spans[1].SpanContext.SpanID() {
		t.Fatalf("%+v", spans)
	}
	for _, s := range spans {
		if s.Status.Description != events.ErrBackendUnavailable {
			t.Errorf("%s: %+v", s.Name, s.Status)
		}
	}
}

// TestAnswersAreCounted by what became of them.
func TestAnswersAreCounted(t *testing.T) {
	b := &played{run: func(ctx context.Context, _ backends.Input, h backends.Host, _ *playedAgent) (backends.Outcome, error) {
		for _, q := range []events.Request{
			{Kind: events.KindTool, Tool: "lookup"}, {Kind: events.KindPermission, Tool: "Bash"}, {Kind: events.KindQuestion, Message: "?"},
		} {
			if _, err := h.Request(ctx, q).Wait(); err != nil {
				return backends.Outcome{}, err
			}
		}
		say(h, "m")
		return backends.Outcome{Stored: true}, nil
	}}
	w := playing(t, b)
	run := w.begin(by("played"), func(s *runs.Spec) {
		s.Settings.Permission, s.Settings.Interactive = backends.PermissionAuto, true
	})
	call := until[events.ToolRequest](t, run)
	if st := w.m.Stats().Backends["played"]; st.Waiting != 1 {
		t.Errorf("%+v", st)
	}
	w.m.ToolResult("me", call.ToolCallID, toolbridge.Result{Result: "x"})
	q := until[events.InputRequired](t, run)
	if _, err := w.m.ReplyText("me", run.ID(), q.RequestID, "yes", nil); err != nil {
		t.Fatal(err)
	}
	w.await(run)
	st := w.m.Stats()
	if st.Resolved[runs.Resolution{Kind: events.KindTool, Outcome: events.OutcomeOK}] != 1 ||
		st.Resolved[runs.Resolution{Kind: events.KindQuestion, Outcome: events.OutcomeAnswered}] != 1 || len(st.Resolved) != 2 {
		t.Errorf("%+v", st.Resolved) // nobody was asked for the permission
	}
	if st.Waits[events.KindTool].Count != 1 || st.Waits[events.KindPermission].Count != 0 || st.Waits[events.KindQuestion].Count != 1 {
		t.Errorf("%+v", st.Waits)
	}
}
