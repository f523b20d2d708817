package copilot_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/copilot"
	"innerd/events"
)

func isDone(c backends.Conversation) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// TestLaunch: the key goes in the session's parameters and nowhere else, and a
// request's environment does not change how copilot is driven.
func TestLaunch(t *testing.T) {
	f := newFake(t, acts(send("i1"), []act{say("hi")}, stop)...)
	c := f.open(t, func(cfg *backends.Config) { cfg.AddDirs = []string{"/an/added/folder"} })
	rec, out, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{Model: "m1", Effort: "high", System: "be brief"})
	if err != nil || out.Reason != backends.ReasonEndTurn || !out.Stored || !slices.Equal(messages(rec), []string{"hi"}) {
		t.Fatalf("%+v, %v, %q", out, err, messages(rec))
	}
	l := f.launches(t)[0]
	if !slices.Contains(l.Args, "--stdio") || !slices.Contains(l.Args, "--no-auto-login") || !slices.Contains(l.Args, "--no-auto-update") {
		t.Errorf("%q", l.Args)
	}
	if strings.Contains(strings.Join(append(l.Args, l.Env...), "\n"), "sk-secret-of-the-test") {
		t.Error("the key is in the arguments or the environment")
	}
	if !slices.Contains(l.Env, "COPILOT_HOME="+filepath.Join(f.home, "copilot")) {
		t.Errorf("%q", l.Env)
	}
	var create string
	for _, m := range f.heard(t) {
		if strings.Contains(m, `"method":"session.create"`) {
			create = m
		} else if strings.Contains(m, "sk-secret-of-the-test") {
			t.Errorf("the key is in %s", m)
		}
	}
	for _, want := range []string{
		`"apiKey":"sk-secret-of-the-test"`, `"model":"m1"`, `"reasoningEffort":"high"`, `be brief`, `"hooks":true`, `"requestPermission":true`,
		`"enableConfigDiscovery":false`, `"skipCustomInstructions":true`, `"enableFileHooks":false`, `"enableSessionTelemetry":false`,
		`"vision":true`, `"builtin:semantic_code_search"`, `"availableTools":null`, `"additionalDirectories":["/an/added/folder"]`,
	} {
		if !strings.Contains(create, want) {
			t.Errorf("no %s in %s", want, create)
		}
	}
	if len(f.saved) != 1 || !strings.Contains(create, f.saved[0].ID) {
		t.Errorf("saved %v", f.saved)
	}
}

// await returns when the fake has read so many messages of a kind.
func (f *faked) await(t *testing.T, part string, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if raw, err := os.ReadFile(f.script + ".in"); err == nil && strings.Count(string(raw), part) >= n {
			return
		}
	}
	t.Fatalf("%s never came %d times", part, n)
}

// TestGivenUp: a turn that does not stop in a copilot that lives costs its own
// conversation and no other; what it still says is nobody's.
func TestGivenUp(t *testing.T) {
	f := newFake(t, acts(
		send("i1"), []act{{Expect: `"method":"ping"`}, {Answer: `{}`}, say("too late")},
		send("i2"), []act{say("alive")}, stop)...)
	a, b := f.open(t, nil), f.open(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { // ends with Run
		_, _, err := run(t, ctx, a, backendtest.Turn{}, backends.Settings{})
		done <- err
	}()
	f.await(t, `"method":"session.send"`, 1)
	cancel(backends.ErrDeadline)
	if err := <-done; !errors.Is(err, backends.ErrDeadline) {
		t.Errorf("%v", err)
	}
	<-a.Done()
	rec, _, err := run(t, t.Context(), b, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(messages(rec), []string{"alive"}) || isDone(b) {
		t.Errorf("%v, %q", err, messages(rec))
	}
}

// TestEarlyCancel: an abort that comes before copilot has answered the send
// would be lost. It is sent after that, and again if a turn begins.
func TestEarlyCancel(t *testing.T) {
	f := newFake(t, []act{
		{Expect: `"method":"session.send"`},
		{Event: `{"type":"pending_messages.modified","data":{}}`},
		{Answer: `{"messageId":"i1"}`},
		{Expect: `"method":"session.abort"`},
		{Answer: `{"success":true}`},
		{Event: `{"type":"user.message","data":{"messageId":"i1"}}`},
		{Event: `{"type":"assistant.turn_start","data":{}}`},
		{Expect: `"method":"session.abort"`},
		{Answer: `{"success":true}`},
		{Event: `{"type":"assistant.idle","data":{"aborted":true}}`},
		{Event: `{"type":"session.idle","data":{"aborted":true}}`},
	}...)
	c := f.open(t, func(cfg *backends.Config) { cfg.Grace = 10 * time.Second })
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { // ends when the send was read
		f.await(t, `"method":"session.send"`, 1)
		cancel(backends.ErrCanceled)
	}()
	if _, _, err := run(t, ctx, c, backendtest.Turn{}, backends.Settings{}); !errors.Is(err, backends.ErrCanceled) || isDone(c) {
		t.Errorf("%v", err)
	}
	if n := f.sent(t, `"method":"session.abort"`); n != 2 {
		t.Errorf("%d aborts", n)
	}
}

// TestCloseInARun ends the run.
func TestCloseInARun(t *testing.T) {
	f := newFake(t, acts(send("i1"), []act{
		{Expect: `"method":"session.abort"`},
		{Answer: `{}`},
		{Event: `{"type":"assistant.idle","data":{"aborted":true}}`},
		{Event: `{"type":"session.idle","data":{"aborted":true}}`},
	})...)
	c := f.open(t, nil)
	done := make(chan error, 1)
	go func() { // ends with Run
		_, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{})
		done <- err
	}()
	f.await(t, `"method":"session.send"`, 1)
	if err := c.Close(t.Context()); err != nil || !isDone(c) {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("it completed")
	}
}

// TestShared: conversations of equal environment and credentials share a
// process, others do not; one that nobody uses ends after a while.
func TestShared(t *testing.T) {
	f := newFake(t, acts(send("i1"), []act{say("a")}, stop, send("i2"), []act{say("b")}, stop)...)
	a, b := f.open(t, nil), f.open(t, nil)
	for _, c := range []backends.Conversation{a, b} {
		if _, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.launches(t)); n != 1 {
		t.Errorf("%d processes for two conversations", n)
	}
	other := f.open(t, func(cfg *backends.Config) { cfg.Credential = &backends.Credential{Key: "another"} })
	if _, _, err := run(t, t.Context(), other, backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	if n := len(f.launches(t)); n != 2 {
		t.Errorf("%d processes with another key", n)
	}
}

// TestSettingsChange: the session is resumed for other settings, and not
// touched for the same.
func TestSettingsChange(t *testing.T) {
	var script []act
	for _, id := range []string{"i1", "i2", "i3", "i4", "i5"} {
		script = acts(script, send(id), []act{say("ok")}, stop)
	}
	f := newFake(t, script...)
	c := f.open(t, nil)
	for _, set := range []backends.Settings{{}, {}, {System: "other", Tools: []backends.Tool{{Name: "a.b"}}}, {Effort: "high"}, {}} {
		if _, _, err := run(t, t.Context(), c, backendtest.Turn{}, set); err != nil {
			t.Fatal(err)
		}
	}
	if f.sent(t, "session.create") != 1 || f.sent(t, `"method":"session.resume"`) != 3 || f.sent(t, `"name":"a_b"`) != 1 || len(f.saved) != 1 {
		t.Errorf("%q", f.heard(t))
	}
	// A session keeps its effort unless it is told otherwise.
	if f.sent(t, `"method":"session.model.setReasoningEffort"`) != 1 {
		t.Errorf("%q", f.heard(t))
	}
}

// TestCanceledStart: whoever waits for a start that is canceled begins one.
func TestCanceledStart(t *testing.T) {
	f := newFake(t, act{Hang: true})
	a, b := f.open(t, nil), f.open(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	var both sync.WaitGroup
	both.Go(func() {
		if _, _, err := run(t, ctx, a, backendtest.Turn{}, backends.Settings{}); !errors.Is(err, backends.ErrCanceled) {
			t.Errorf("the canceled one: %v", err)
		}
	})
	f.awaitLaunches(t, 1)
	f.write(t, acts(send("i1"), []act{say("ok")}, stop))
	both.Go(func() {
		if rec, _, err := run(t, t.Context(), b, backendtest.Turn{}, backends.Settings{}); err != nil || !slices.Equal(messages(rec), []string{"ok"}) {
			t.Errorf("the other: %v", err)
		}
	})
	cancel(backends.ErrCanceled)
	both.Wait()
	if n := len(f.launches(t)); n != 2 {
		t.Errorf("%d processes", n)
	}
}

func (f *faked) awaitLaunches(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if raw, err := os.ReadFile(f.script + ".launches"); err == nil && strings.Count(string(raw), "\n") >= n {
			return
		}
	}
	t.Fatalf("not %d launches", n)
}

// TestLinger: a process that nobody uses ends after a while.
func TestLinger(t *testing.T) {
	f := newFake(t, acts(send("i1"), []act{say("a")}, stop)...)
	f.Backend = copilot.New(&copilot.Options{
		Path: fakeBinary(t), Home: f.home, Children: children(t), Linger: -1,
		Getenv: env(map[string]string{"INNERD_COPILOT_API_KEY": "k"}),
	})
	t.Cleanup(func() { _ = f.Close(context.Background()) })
	c := f.open(t, nil)
	if _, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); f.running(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the process lives on")
		}
	}
}

// running reports whether a fake with this script still runs.
func (f *faked) running() bool { return f.processes() > 0 }

// processes is how many of them do.
func (f *faked) processes() (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range files {
		if raw, err := os.ReadFile(name); err == nil && strings.Contains(string(raw), "FAKE_SCRIPT="+f.script+"\x00") {
			n++
		}
	}
	return n
}

// TestToolChoice: what may not be called is not offered, and the rest is told.
func TestToolChoice(t *testing.T) {
	tools := []backends.Tool{{Name: "a.b"}, {Name: "c"}}
	for name, c := range map[string]struct {
		choice        string
		want, without string
	}{
		"none":     {`"none"`, `"availableTools":[]`, `"name":"c"`},
		"required": {`{"type":"any"}`, "You must call at least one tool", `"availableTools":[]`},
		"one":      {`{"type":"function","function":{"name":"a.b"}}`, "You must call the tool a_b", `"name":"c"`},
		"auto":     {`"auto"`, `"name":"c"`, "You must call"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, acts(send("i1"), []act{say("ok")}, stop)...)
			rec, _, err := run(t, t.Context(), f.open(t, nil), backendtest.Turn{}, backends.Settings{Tools: tools, ToolChoice: []byte(c.choice)})
			if err != nil || f.sent(t, c.want) != 1 || f.sent(t, c.without) != 0 || says(rec, "tool_choice") {
				t.Errorf("%v, %q", err, f.heard(t))
			}
		})
	}
	f := newFake(t, acts(send("i1"), []act{say("ok")}, stop)...)
	if rec, _, err := run(t, t.Context(), f.open(t, nil), backendtest.Turn{}, backends.Settings{ToolChoice: []byte(`"sometimes"`)}); err != nil || !says(rec, "tool_choice is not known") {
		t.Errorf("%v", err)
	}
}

// TestAnsweredAfterItGaveUp: a run that was given up for a request that failed
// says so, although another request was answered since.
func TestAnsweredAfterItGaveUp(t *testing.T) {
	f := newFake(t, acts(send("i1"), []act{
		{Event: `{"type":"model.call_failure","data":{"statusCode":404,"errorMessage":"no such model"}}`},
		{Expect: `"method":"session.abort"`},
		{Answer: `{"success":true}`},
		{Event: used},
		{Event: `{"type":"assistant.idle","data":{"aborted":true}}`},
		{Event: `{"type":"session.idle","data":{"aborted":true}}`},
	})...)
	_, _, err := run(t, t.Context(), f.open(t, nil), backendtest.Turn{}, backends.Settings{})
	if class(err) != events.ErrModelUnavailable || !strings.Contains(err.Error(), "no such model") {
		t.Error(err)
	}
}
