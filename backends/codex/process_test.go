package codex_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
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
