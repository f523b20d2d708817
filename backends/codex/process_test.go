package codex_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/codex"
	"innerd/events"
)

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
	if turn.Permission == "" && set.Options == nil {
		set.Options = backendtest.AutoOptions
	}
	prompt := turn.Prompt
	if prompt == "" {
		prompt = "Go."
	}
	out, err := c.Run(ctx, backends.Input{Parts: []events.Part{events.Text(prompt)}, Set: set}, rec)
	rec.Close()
	for _, f := range rec.Faults() {
		t.Error(f)
	}
	return rec.Events(), out, err
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

const (
	idA = "01AAAAAAAAAAAAAAAAAAAAAAAA"
	idB = "01BBBBBBBBBBBBBBBBBBBBBBBB"
)

func TestLaunch(t *testing.T) {
	t.Setenv("A_SECRET_OF_THE_SERVER", "x")
	st := newStage(t, script{"turn/start": {{accepted, started, said("hello"), finished}}})
	st.addDirs = []string{"/an/added/folder"}
	evs, out, err := run(t, st.open(idA, ""), backendtest.Turn{}, backends.Settings{System: "Be kind.", Tools: []backends.Tool{tool("alpha")}})
	if err != nil || out.Reason != backends.ReasonEndTurn || !out.Stored {
		t.Fatal(out, err)
	}
	if got := texts(evs); !slices.Equal(got, []string{"hello"}) {
		t.Error(got)
	}
	l := st.launches()[0]
	all := strings.Join(append(l.Args, l.Env...), "\n")
	for _, never := range []string{"sk-secret-of-the-test", "A_SECRET_OF_THE_SERVER", "CODEX_HOME=/not/this"} {
		if strings.Contains(all, never) {
			t.Errorf("it was started with %s", never)
		}
	}
	for _, want := range []string{"features.plugins=false", "analytics.enabled=false", "project_doc_max_bytes=0", "features.hooks=false", "CODEX_HOME=" + st.home} {
		if !strings.Contains(all, want) {
			t.Errorf("it was started without %s", want)
		}
	}
	heard := st.heard()
	for _, want := range []string{
		`"approvalPolicy":"untrusted"`, `"sandbox":"danger-full-access"`, `"trust_level":"untrusted"`, `"Be kind.`[1:],
		`"experimental_bearer_token":"sk-secret-of-the-test"`, `"name":"alpha"`, "INNERD_MARK", idA, `"experimentalApi":true`,
		`"runtimeWorkspaceRoots":["` + st.dir + `","/an/added/folder"]`, `"/an/added":{"trust_level":"untrusted"}`,
	} {
		if !strings.Contains(heard, want) {
			t.Errorf("it was not told %s", want)
		}
	}
}

// TestOrderOfTheStart: the turn's start may be told before or after it is accepted.
func TestOrderOfTheStart(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{"turn/start": {
		{started, "!slow " + accepted, said("one"), finished},
		{accepted, said("two"), "!slow " + started, finished},
		{strings.Replace(accepted, "{{turn}}", "odd", 1), started, said("three"), finished},
	}})
	c := st.open(idA, "")
	for _, want := range []string{"one", "two", "three"} {
		evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
		if err != nil || !slices.Equal(texts(evs), []string{want}) {
			t.Errorf("%q, %v", texts(evs), err)
		}
	}
}

// TestEndBeforeDeath: a turn that was finished before the process died was finished.
func TestEndBeforeDeath(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{"turn/start": {{accepted, started, said("last words"), finished, "!exit 3"}}})
	c := st.open(idA, "")
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(texts(evs), []string{"last words"}) {
		t.Errorf("%q, %v", texts(evs), err)
	}
	select {
	case <-c.Done():
	case <-time.After(time.Minute):
		t.Error("Done is not closed")
	}
	if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{}); class(err) != events.ErrBackendCrashed {
		t.Error(err)
	}
}

func TestDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]script{
		"exits":   {"initialize": {{"!stderr it is not well", "!exit 4"}}},
		"refuses": {"initialize": {{`{"id":{{id}},"error":{"code":-32600,"message":"it is not well"}}`}}},
	} {
		st := newStage(t, s)
		c := st.open(idA, "")
		_, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
		if class(err) != events.ErrBackendUnavailable || !strings.Contains(err.Error(), "it is not well") || lives(c) {
			t.Errorf("%s: %v, lives: %v", name, err, lives(c))
		}
	}
}

// lives is what a conversation says of its codex.
func lives(c backends.Conversation) bool { return c.(backends.Lively).Lives() }

// TestDiesWithoutAThread: nobody tells a conversation of the end of its process
// where it has no thread in it; it knows, and the next run starts another.
func TestDiesWithoutAThread(t *testing.T) {
	t.Parallel()
	refused := `{"id":{{id}},"error":{"code":-32602,"message":"no"}}`
	st := newStage(t, script{
		"thread/start": {{refused}, {refused, "!exit 3"}},
	})
	c := st.open(idA, "")
	if lives(c) {
		t.Error("it lives before its first run")
	}
	if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{}); class(err) != events.ErrInvalidRequest || !lives(c) {
		t.Errorf("%v, lives: %v", err, lives(c))
	}
	if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{}); err == nil {
		t.Error("the refused thread was begun")
	}
	for end := time.Now().Add(time.Minute); lives(c); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it lives on without a process")
		}
	}
	st.plays(script{"turn/start": {{accepted, started, said("hello"), finished}}})
	if evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{}); err != nil || !slices.Equal(texts(evs), []string{"hello"}) || !lives(c) {
		t.Errorf("%q, %v, lives: %v", texts(evs), err, lives(c))
	}
}

func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	refused := func(data string) [][]string {
		return [][]string{{`{"id":{{id}},"error":{"code":-32602,"message":"no","data":` + data + `}}`}}
	}
	for _, c := range []struct{ method, data, want string }{
		{"thread/start", `{}`, events.ErrInvalidRequest},
		{"turn/start", `{"input_error_code":"input_too_large"}`, events.ErrContextLength},
		{"turn/start", `null`, events.ErrInvalidRequest},
	} {
		st := newStage(t, script{c.method: refused(c.data)})
		if _, _, err := run(t, st.open(idA, ""), backendtest.Turn{}, backends.Settings{}); class(err) != c.want {
			t.Errorf("%s %s: %v", c.method, c.data, err)
		}
	}
}

// TestDoesNotStop: what does not stop when it is asked to is ended, if it is
// nobody else's.
func TestDoesNotStop(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{"turn/start": {{accepted, started, said("one")}}, "turn/interrupt": {{done}}})
	c := st.open(idA, "")
	began := time.Now()
	_, _, err := run(t, c, backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}, backends.Settings{})
	if !errors.Is(err, backends.ErrCanceled) {
		t.Error(err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("it took %v", took)
	}
	<-c.Done()
}

// pair runs a turn that lasts beside one that is canceled and does not stop.
func pair(t *testing.T, st *stage) (c, d backends.Conversation, evs []events.Event, canceled, beside error) {
	t.Helper()
	c, d = st.open(idA, ""), st.open(idB, "")
	var both sync.WaitGroup
	talking := make(chan struct{})
	both.Go(func() {
		turn := backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}
		evs, _, beside = runIn(t.Context(), t, d, turn, backends.Settings{}, func() { close(talking) })
	})
	<-talking
	_, _, canceled = run(t, c, backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}, backends.Settings{})
	both.Wait()
	if n := len(st.launches()); n != 1 {
		t.Errorf("%d processes", n)
	}
	return c, d, evs, canceled, beside
}

// TestGivenUp: in a process that others share, what does not stop is given up,
// and its late words are nobody's.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	const other = `{"method":"item/completed","params":{"threadId":"00000000-0000-7000-8000-000000000001","turnId":"turn-00000000-0000-7000-8000-000000000001-1","item":{"type":"agentMessage","id":"i2","text":"through"}}}`
	const end = `{"method":"turn/completed","params":{"threadId":"00000000-0000-7000-8000-000000000001","turn":{"id":"turn-00000000-0000-7000-8000-000000000001-1","status":"completed"}}}`
	st := newStage(t, script{
		"turn/start": {{accepted, started, said("one")}}, "turn/interrupt": {{done}},
		"thread/loaded/list": {{done, said("too late"), other, end}},
	})
	c, d, evs, canceled, beside := pair(t, st)
	if !errors.Is(canceled, backends.ErrCanceled) || beside != nil {
		t.Error(canceled, beside)
	}
	if got := texts(evs); !slices.Equal(got, []string{"one", "through"}) {
		t.Errorf("beside it: %q", got)
	}
	<-c.Done()
	select {
	case <-d.Done():
		t.Error("the other conversation is gone too")
	default:
	}
}

// TestDeaf: a shared process that answers nothing any more is ended, and with
// it every run in it.
func TestDeaf(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{"turn/start": {{accepted, started, said("one")}}, "turn/interrupt": {{"!deaf"}}})
	c, d, _, canceled, beside := pair(t, st)
	if !errors.Is(canceled, backends.ErrCanceled) || class(beside) != events.ErrBackendCrashed {
		t.Error(canceled, beside)
	}
	<-c.Done()
	<-d.Done()
}

// TestCrashBeside: the death of a shared process is each run's own, with how it ended.
func TestCrashBeside(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{"turn/start": {{accepted, started, said("one")}, {accepted, started, "!stderr out of luck", "!exit 5"}}})
	c, d := st.open(idA, ""), st.open(idB, "")
	var first error
	var both sync.WaitGroup
	talking := make(chan struct{})
	both.Go(func() {
		turn := backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}
		_, _, first = runIn(t.Context(), t, c, turn, backends.Settings{}, func() { close(talking) })
	})
	<-talking
	_, _, second := run(t, d, backendtest.Turn{}, backends.Settings{})
	both.Wait()
	for _, err := range []error{first, second} {
		var e *backends.Error
		if !errors.As(err, &e) || e.Type != events.ErrBackendCrashed || e.Exit == nil || e.Exit.Code != 5 || !strings.Contains(e.Message, "out of luck") {
			t.Errorf("%v", err)
		}
	}
	<-c.Done()
	<-d.Done()
	// The next conversation takes another process.
	e := st.open(idA, "")
	_, _, _ = run(t, e, backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}, backends.Settings{})
	if n := len(st.launches()); n != 2 {
		t.Errorf("%d processes", n)
	}
}

// TestUnknownQuestion: codex waits for an answer for ever, so each gets one.
func TestUnknownQuestion(t *testing.T) {
	t.Parallel()
	ask := func(id, method string) string {
		return `{"id":"` + id + `","method":"` + method + `","params":{"threadId":"{{thread}}","turnId":"{{turn}}","itemId":"x"}}`
	}
	st := newStage(t, script{"turn/start": {{
		accepted, started, ask("q1", "tomorrow/asks"), `!wait "id":"q1","error"`,
		ask("q2", "mcpServer/elicitation/request"), `!wait "action":"decline"`,
		ask("q3", "item/permissions/requestApproval"), `!wait "permissions":{}`,
		`{"method":"tomorrow/tells","params":{"threadId":"{{thread}}","turnId":"{{turn}}"}}`,
		`{"method":"item/started","params":{"threadId":"{{thread}}","turnId":"{{turn}}","item":{"type":"hologram","id":"h"}}}`,
		`{"method":"item/completed","params":{"threadId":"{{thread}}","turnId":7,"item":"odd"}}`,
		said("hello"), finished,
	}}})
	evs, _, err := run(t, st.open(idA, ""), backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(texts(evs), []string{"hello"}) {
		t.Errorf("%q, %v", texts(evs), err)
	}
	for _, want := range []string{"tomorrow/asks", "tomorrow/tells"} {
		if st.b.Unknown()[want] != 1 {
			t.Errorf("%s was not counted: %v", want, st.b.Unknown())
		}
	}
}

// TestLate: what comes after the end is nobody's: a tool is not called, nothing
// is permitted, nothing is said in the next run.
func TestLate(t *testing.T) {
	t.Parallel()
	old := strings.NewReplacer("{{turn}}", "turn-{{thread}}-1")
	st := newStage(t, script{"turn/start": {{accepted, started, said("one"), finished}, {
		accepted, started,
		old.Replace(said("too late")),
		old.Replace(`{"id":"p","method":"item/commandExecution/requestApproval","params":{"threadId":"{{thread}}","turnId":"{{turn}}","itemId":"x","command":"true"}}`),
		`!wait "decision":"decline"`,
		old.Replace(`{"id":"c","method":"item/tool/call","params":{"threadId":"{{thread}}","turnId":"{{turn}}","callId":"x","tool":"alpha","arguments":{}}}`),
		`!wait "success":false`,
		said("two"), finished,
	}}})
	c := st.open(idA, "")
	for _, want := range []string{"one", "two"} {
		evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{Tools: []backends.Tool{tool("alpha")}})
		if err != nil || !slices.Equal(texts(evs), []string{want}) {
			t.Errorf("%q, %v", texts(evs), err)
		}
	}
}

const threadX = "01a22024-9828-7ae1-b7cd-54d831201a5f"

// rolled is a thread's file as codex writes it.
func rolled(tools string) string {
	return `{"type":"session_meta","payload":{"id":"` + threadX + `","cli_version":"` + codex.Version + `","dynamic_tools":` + tools + `}}` + "\n" +
		`{"type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"<host_instructions>\nold \"text\"\n</host_instructions>"},{"type":"input_text","text":"more"}]}}` + "\n" +
		`{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<host_instructions>mine</host_instructions>"}]}}` + "\n"
}

func TestResume(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{
		"turn/start": {{accepted, started, said("again"), finished}},
		"thread/resume": {
			{`{"id":{{id}},"error":{"code":-32600,"message":"thread x already has an active writer"}}`},
			{thread, `{"method":"thread/tokenUsage/updated","params":{"threadId":"{{thread}}","turnId":"before","tokenUsage":{"total":{"totalTokens":9,"inputTokens":8,"outputTokens":1}}}}`},
		},
	})
	path := st.keep(threadX, rolled("[]"))
	evs, _, err := run(t, st.open(idA, threadX), backendtest.Turn{}, backends.Settings{System: "new text", Tools: []backends.Tool{tool("alpha")}})
	if err != nil || !slices.Equal(texts(evs), []string{"again"}) {
		t.Fatal(texts(evs), err)
	}
	raw, _ := os.ReadFile(path)
	for _, want := range []string{`"name":"alpha"`, "new text", "<host_instructions>mine</host_instructions>"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the file has no %s: %s", want, raw)
		}
	}
	if strings.Contains(string(raw), "old") {
		t.Errorf("the old text is still there: %s", raw)
	}
	for _, e := range evs {
		if u, ok := e.Data.(events.Usage); ok && *u.InputTokens != 0 {
			t.Errorf("usage of an earlier run: %d", *u.InputTokens)
		}
	}
}

// TestResumeImpossible: where the past can't be had, the run is told so before
// anything was sent.
func TestResumeImpossible(t *testing.T) {
	t.Parallel()
	refused := map[string]script{
		"another process has it": {"thread/resume": slices.Repeat([][]string{{`{"id":{{id}},"error":{"code":-32600,"message":"thread x already has an active writer"}}`}}, 100)},
		"codex writes no files":  {"fs/writeFile": {{`{"id":{{id}},"error":{"code":-32601,"message":"no such method"}}`}}},
	}
	for name, content := range map[string]string{
		"codex writes no files":  rolled("[]"),
		"another form":           "{}\n{}\n",
		"no line":                "",
		"not our text":           strings.ReplaceAll(rolled("[]"), "host_instructions", "other"),
		"another release":        strings.ReplaceAll(rolled("[]"), codex.Version, "9.9.9"),
		"codex has lost it":      rolled("[]"),
		"another process has it": rolled("[]"),
	} {
		s := script{"thread/resume": {{`{"id":{{id}},"error":{"code":-32600,"message":"no rollout found for thread id"}}`}}}
		if refused[name] != nil {
			s = refused[name]
		}
		st := newStage(t, s)
		st.keep(threadX, content)
		evs, _, err := run(t, st.open(idA, threadX), backendtest.Turn{}, backends.Settings{System: "new"})
		if !errors.Is(err, backends.ErrNewSession) || len(evs) > 0 {
			t.Errorf("%s: %v, %d events", name, err, len(evs))
		}
		if strings.Contains(st.heard(), "turn/start") {
			t.Errorf("%s: a turn was begun", name)
		}
	}
}

// TestSteerTooLate: codex refuses a steer of a turn that is over.
func TestSteerTooLate(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{
		"turn/start": {{accepted, started, said("one")}},
		"turn/steer": {{`{"id":{{id}},"error":{"code":-32600,"message":"no active turn to steer"}}`, finished}},
	})
	c := st.open(idA, "")
	s := c.(backends.Steerer)
	if err := s.Steer(t.Context(), []events.Part{events.Text("x")}); !errors.Is(err, backends.ErrTooLate) {
		t.Error(err)
	}
	var all sync.WaitGroup
	turn := backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}
	_, _, err := runIn(t.Context(), t, c, turn, backends.Settings{}, func() {
		all.Go(func() {
			if err := s.Steer(t.Context(), []events.Part{events.Text("x")}); !errors.Is(err, backends.ErrTooLate) {
				t.Error(err)
			}
		})
	})
	all.Wait()
	if err != nil {
		t.Error(err)
	}
}

// TestLimits: the account's own limits tell when a host may come again.
func TestLimits(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(90 * time.Second).Unix()
	st := newStage(t, script{"turn/start": {{
		accepted, started,
		`{"method":"account/rateLimits/updated","params":{"rateLimits":{"primary":{"usedPercent":100,"resetsAt":` + itoa(at) + `}}}}`,
		turnFailed("no more", `"usageLimitExceeded"`),
	}}})
	_, _, err := run(t, st.open(idA, ""), backendtest.Turn{}, backends.Settings{})
	var e *backends.Error
	if !errors.As(err, &e) || e.Type != events.ErrQuota || e.RetryAfter < 80*time.Second || e.RetryAfter > 90*time.Second {
		t.Errorf("%+v", e)
	}
}

// TestCloseBesideRun: a conversation that is closed ends its run.
func TestCloseBesideRun(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{"turn/start": {{accepted, started, said("one")}}})
	c := st.open(idA, "")
	var all sync.WaitGroup
	turn := backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}
	_, _, err := runIn(t.Context(), t, c, turn, backends.Settings{}, func() {
		all.Go(func() {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
	all.Wait()
	if err == nil || !strings.Contains(err.Error(), "closed") {
		t.Error(err)
	}
}
