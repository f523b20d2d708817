package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/host"
)

func call(id, tool string) events.ToolRequest {
	return events.ToolRequest{ToolCallID: id, ToolName: tool, Arguments: json.RawMessage(`{"n":1}`)}
}

func resolved(id string, r api.ToolResult) events.ToolResolved {
	return events.ToolResolved{ToolCallID: id, Outcome: events.OutcomeOK, Result: r.Result, IsError: r.IsError}
}

func withTools(tools ...host.ToolDef) host.Request {
	req := prompt()
	req.Tools = tools
	return req
}

func tool(name string, run func(context.Context, json.RawMessage) (host.Result, error)) host.ToolDef {
	return host.ToolDef{Name: name, Run: run}
}

// oneCall is a run with one call; its result is the text of the run.
func oneCall(name string) func(*fake) {
	return func(f *fake) {
		f.begin()
		f.say(call("tc_1", name))
		r := f.result("tc_1")
		f.say(resolved("tc_1", r), events.MessageDelta{Delta: r.Result, MessageID: "m"}, events.Message{Content: r.Result, MessageID: "m"})
		f.end()
	}
}

func TestTool(t *testing.T) {
	f := newFake(t, oneCall("add"))
	req := withTools(host.ToolDef{
		Name: "add", Description: "adds", Schema: json.RawMessage(`{"type":"object"}`), Serial: true,
		Run: func(_ context.Context, args json.RawMessage) (host.Result, error) {
			return host.Result{Text: "got " + string(args), Metadata: json.RawMessage(`{"k":1}`)}, nil
		},
	})
	got := collect(t, f.client().Stream(t.Context(), req))
	if textOf(got) != `got {"n":1}` {
		t.Fatalf("%q", textOf(got))
	}
	if r := f.seen().results["tc_1"]; len(r) != 1 || string(r[0].Metadata) != `{"k":1}` {
		t.Fatalf("%+v", r)
	}
	sent := f.seen().request
	if len(sent.Metadata.Tools) != 1 || sent.Metadata.Tools[0].Description != "adds" || !sent.Metadata.Tools[0].Serial {
		t.Fatalf("%+v", sent.Metadata.Tools)
	}
	if !slices.Equal(sent.Metadata.Events, api.Events{api.EventsAll}) || !api.ValidTaskID(sent.Metadata.TaskID) {
		t.Fatalf("%+v", sent.Metadata)
	}
}

func TestToolFailures(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(context.Context, json.RawMessage) (host.Result, error)
		want string
	}{
		"error": {func(context.Context, json.RawMessage) (host.Result, error) {
			return host.Result{}, errors.New("no disk")
		}, "no disk"},
		"panic": {func(context.Context, json.RawMessage) (host.Result, error) { panic("oh") }, "oh"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, oneCall("t"))
			collect(t, f.client().Stream(t.Context(), withTools(tool("t", c.run))))
			r := f.seen().results["tc_1"]
			if len(r) != 1 || !r[0].IsError || !strings.Contains(r[0].Result, c.want) {
				t.Fatalf("%+v", r)
			}
		})
	}
}

// A result whose answer is lost is posted again, the same.
func TestToolResultIsPostedUntilAnswered(t *testing.T) {
	f := newFake(t, func(f *fake) {
		f.begin()
		f.say(call("tc_1", "t"))
		f.waitFor(func() bool { return len(f.results["tc_1"]) == 4 })
		f.say(resolved("tc_1", f.result("tc_1")))
		f.end()
	})
	f.loseAns = 3
	runs := 0
	collect(t, f.client().Stream(t.Context(), withTools(tool("t", func(context.Context, json.RawMessage) (host.Result, error) {
		runs++
		return host.Result{Text: "once"}, nil
	}))))
	r := f.seen().results["tc_1"]
	if runs != 1 || len(r) < 4 || r[0].Result != "once" || r[3].Result != "once" {
		t.Fatalf("%d runs, %+v", runs, r)
	}
}

// Eight calls run at once, and the stream is read on while they do.
func TestToolsRunBesideTheReading(t *testing.T) {
	f := newFake(t, func(f *fake) {
		f.begin()
		for _, id := range strings.Fields("a b c d e f g h") {
			f.say(call(id, "wait"))
		}
		f.say(events.MessageDelta{Delta: "meanwhile", MessageID: "m"}, events.Message{Content: "meanwhile", MessageID: "m"})
		for _, id := range strings.Fields("a b c d e f g h") {
			f.say(resolved(id, f.result(id)))
		}
		f.end()
	})
	f.plan = func(n int) fault { return fault{cut: 900, cuts: n < 2} }
	var started sync.WaitGroup
	started.Add(8)
	read := make(chan struct{})
	req := withTools(tool("wait", func(context.Context, json.RawMessage) (host.Result, error) {
		started.Done()
		started.Wait()
		<-read
		return host.Result{Text: "ok"}, nil
	}))
	for ev, err := range f.client().Stream(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ev.Data.(events.Message); ok {
			close(read)
		}
	}
	for id, r := range f.seen().results {
		if len(r) != 1 {
			t.Errorf("%s: %d results", id, len(r))
		}
	}
}

// A call that was resolved otherwise, and the run's end, end the tool.
func TestToolContextEnds(t *testing.T) {
	f := newFake(t, func(f *fake) {
		f.begin()
		f.say(call("timed-out", "t"), call("left", "t"))
		f.say(events.ToolResolved{ToolCallID: "timed-out", Outcome: events.OutcomeTimeout})
		f.end()
	})
	causes := make(chan error, 2)
	collect(t, f.client().Stream(t.Context(), withTools(tool("t", func(ctx context.Context, _ json.RawMessage) (host.Result, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return host.Result{}, ctx.Err()
	}))))
	if len(causes) != 2 {
		t.Fatalf("%d tools ended before the stream did", len(causes))
	}
	if len(f.seen().results) != 0 {
		t.Fatalf("results nobody waits for were posted: %v", f.seen().results)
	}
}

func TestToolResultTooLarge(t *testing.T) {
	f := newFake(t, oneCall("t"))
	f.extra = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/tools/") && r.ContentLength > 1000 {
			writeJSON(w, http.StatusRequestEntityTooLarge, api.Error{Detail: "1000 bytes at most", ErrorType: api.ErrTooLarge})
			return true
		}
		return false
	}
	collect(t, f.client().Stream(t.Context(), withTools(tool("t", func(context.Context, json.RawMessage) (host.Result, error) {
		return host.Result{Text: strings.Repeat("x", 2000)}, nil
	}))))
	if r := f.seen().results["tc_1"]; len(r) != 1 || !r[0].IsError || !strings.Contains(r[0].Result, "1000 bytes at most") {
		t.Fatalf("%+v", r)
	}
}

// A host that comes back to its run runs what is open, not what was.
func TestAttachRunsOnlyOpenCalls(t *testing.T) {
	f := newFake(t, func(*fake) {})
	f.task = "my-task-1"
	f.begin()
	f.say(call("old", "t"), resolved("old", api.ToolResult{}), call("open", "t"))
	f.pending = []api.Pending{{Kind: events.KindTool, ID: "open", Tool: "t"}}
	f.scripts.Go(func() {
		f.result("open")
		f.say(call("new", "t"))
		f.result("new")
		f.end()
	})
	var mu sync.Mutex
	runs := 0
	req := withTools(tool("t", func(context.Context, json.RawMessage) (host.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		runs++
		return host.Result{Text: "x"}, nil
	}))
	req.Metadata.TaskID = f.task
	collect(t, f.client().Stream(t.Context(), req))
	if runs != 2 || len(f.seen().results["old"]) != 0 {
		t.Fatalf("%d runs, results %v", runs, f.seen().results)
	}
}

func TestPermissionAndQuestion(t *testing.T) {
	options := []events.PermissionOption{{ID: "yes", Kind: events.AllowOnce}, {ID: "no", Kind: events.Deny}}
	f := newFake(t, func(f *fake) {
		f.begin()
		f.say(events.PermissionRequest{RequestID: "p1", Tool: "bash", Options: options})
		f.say(events.PermissionRequest{RequestID: "p2", Tool: "rm", Options: options})
		f.say(events.InputRequired{RequestID: "q1", Message: "name?"})
		f.waitFor(func() bool { return len(f.answers) == 3 })
		f.end()
	})
	req := prompt()
	req.Permission = func(_ context.Context, r events.PermissionRequest) (host.Decision, error) {
		if r.Tool == "rm" {
			return host.Decision{}, errors.New("never")
		}
		return host.Decision{Option: "yes", Remember: true}, nil
	}
	req.Question = func(context.Context, host.Question) (json.RawMessage, error) {
		return json.RawMessage(`"Ada"`), nil
	}
	collect(t, f.client().Stream(t.Context(), req))
	if a := f.seen().answers["p1"][0]; a.Option != "yes" || !a.Remember {
		t.Errorf("p1: %+v", a)
	}
	if a := f.seen().answers["p2"][0]; a.Option != "no" || a.Message != "never" {
		t.Errorf("p2: %+v", a)
	}
	if a := f.seen().answers["q1"][0]; string(a.Value) != `"Ada"` {
		t.Errorf("q1: %+v", a)
	}
}
