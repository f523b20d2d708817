package copilot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

func event(s string) act { return act{Event: s} }

// play plays one turn of a fake.
func play(t *testing.T, set backends.Settings, turn backendtest.Turn, script ...act) (*faked, *backendtest.Recorder, backends.Outcome, error) {
	t.Helper()
	f := newFake(t, acts(send("i1"), script)...)
	rec, out, err := run(t, t.Context(), f.open(t, nil), turn, set)
	return f, rec, out, err
}

// count is how many events of a type a log has.
func count(rec *backendtest.Recorder, typ events.Type) (n int) {
	for _, e := range rec.Events() {
		if e.Type() == typ {
			n++
		}
	}
	return n
}

// TestText: what is said stands once, however copilot comes to say it.
func TestText(t *testing.T) {
	delta := func(id, text string) act {
		raw, _ := json.Marshal(text)
		return event(`{"type":"assistant.message_delta","data":{"messageId":"` + id + `","deltaContent":` + string(raw) + `}}`)
	}
	whole := func(id, text string) act {
		raw, _ := json.Marshal(text)
		return event(`{"type":"assistant.message","data":{"messageId":"` + id + `","content":` + string(raw) + `,"reasoningText":"I had thought."}}`)
	}
	thought := func(text string) act {
		return event(`{"type":"assistant.reasoning_delta","data":{"reasoningId":"r","deltaContent":"` + text + `"}}`)
	}
	retry := event(`{"type":"assistant.turn_retry","data":{"turnId":"0","reason":"streaming_error"}}`)
	for name, c := range map[string]struct {
		script    []act
		want      []string
		discarded int
	}{
		"deltas and the whole":                 {[]act{delta("m", "ha"), delta("m", "ha"), whole("m", "haha")}, []string{"haha"}, 0},
		"the whole alone":                      {[]act{whole("m", "all of it")}, []string{"all of it"}, 0},
		"a delta is missing":                   {[]act{delta("m", "all "), whole("m", "all of it")}, []string{"all of it"}, 0},
		"it is another in the end":             {[]act{delta("m", "some"), whole("m", "all of it")}, []string{"all of it"}, 1},
		"a retry under a new id":               {[]act{delta("m", "hal"), retry, delta("n", "half"), whole("n", "half")}, []string{"half"}, 1},
		"two messages in one answer":           {[]act{thought("a"), delta("m", "one"), thought("b"), delta("n", "two"), whole("m", "one"), whole("n", "two")}, []string{"one", "two"}, 0},
		"begun anew without a word":            {[]act{delta("m", "void"), event(`{"type":"assistant.turn_start","data":{}}`), whole("n", "valid")}, []string{"valid"}, 1},
		"a sub-agent's is not the main one's":  {[]act{event(`{"type":"assistant.message","agentId":"a1","data":{"messageId":"s","content":"below"}}`), whole("m", "above")}, []string{"above"}, 0},
		"fields of another type, and unknowns": {[]act{event(`{"type":"assistant.message_delta","data":{"messageId":7,"deltaContent":{}}}`), event(`{"type":"brand.new","data":[1]}`), event(`7`), whole("m", "still here")}, []string{"still here"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f, rec, _, err := play(t, backends.Settings{}, backendtest.Turn{}, acts(c.script, stop)...)
			if err != nil || !slices.Equal(messages(rec), c.want) || count(rec, events.TypeDiscarded) != c.discarded {
				t.Errorf("%v, %q, %d discarded", err, messages(rec), count(rec, events.TypeDiscarded))
			}
			if strings.Contains(name, "unknowns") && f.Unknown()["brand.new"] != 1 {
				t.Errorf("unknown types: %v", f.Unknown())
			}
		})
	}
}

// TestPieces: a message of copilot's may come in any pieces.
func TestPieces(t *testing.T) {
	_, rec, _, err := play(t, backends.Settings{}, backendtest.Turn{}, acts([]act{{Slow: true}, say("in three pieces")}, stop)...)
	if err != nil || !slices.Equal(messages(rec), []string{"in three pieces"}) {
		t.Errorf("%v, %q", err, messages(rec))
	}
}

// TestPremiumRequests are exact, and rounded up once. Every model request tells
// what one costs, but those that the agent makes by itself cost nothing.
func TestPremiumRequests(t *testing.T) {
	own := event(strings.Replace(used, `{"inputTokens"`, `{"initiator":"agent","inputTokens"`, 1))
	user := event(strings.Replace(used, `{"inputTokens"`, `{"initiator":"user","inputTokens"`, 1))
	_, rec, _, err := play(t, backends.Settings{}, backendtest.Turn{}, acts([]act{event(used), own, user, user, user, say("ok")}, stop)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range rec.Events() {
		if u, ok := e.Data.(events.Usage); ok {
			if *u.PremiumRequests != 2 || *u.PremiumRequestsExact < 1.31 || *u.PremiumRequestsExact > 1.33 || *u.InputTokens != 50 || *u.OutputTokens != 10 {
				t.Errorf("%d, %v, %d, %d", *u.PremiumRequests, *u.PremiumRequestsExact, *u.InputTokens, *u.OutputTokens)
			}
		}
	}
}

// TestBackground: a session that does not get quiet, since a command runs on.
func TestBackground(t *testing.T) {
	running := `{"tasks":[{"type":"shell","id":"b1","status":"running","description":"a server","attachmentMode":"attached"},` +
		`{"type":"shell","id":"b0","status":"completed","attachmentMode":"attached"}]}`
	idle := event(`{"type":"assistant.idle","data":{}}`)
	t.Run("ended", func(t *testing.T) {
		f, rec, _, err := play(t, backends.Settings{}, backendtest.Turn{}, say("it runs"), idle,
			act{Expect: `"method":"session.tasks.list"`}, act{Answer: running},
			act{Expect: `"method":"session.tasks.cancel"`}, act{Answer: `{"cancelled":true}`},
			event(`{"type":"session.idle","data":{}}`))
		if err != nil || f.sent(t, `"id":"b1"`) != 1 || !says(rec, "a server") {
			t.Errorf("%v, %v", err, backendtest.Dump(rec.Events()))
		}
	})
	t.Run("waited for", func(t *testing.T) {
		f, rec, _, err := play(t, backends.Settings{Background: backends.BackgroundWait}, backendtest.Turn{}, say("it runs"), idle,
			act{Expect: `"method":"session.tasks.list"`}, act{Answer: running},
			act{Expect: `"method":"session.tasks.list"`}, act{Answer: running},
			event(`{"type":"system.notification","data":{"content":"<system_notification>\ndone\n</system_notification>"}}`),
			event(`{"type":"assistant.turn_start","data":{}}`), say("it is done"), idle, event(`{"type":"session.idle","data":{}}`))
		if err != nil || !slices.Equal(messages(rec), []string{"it runs", "it is done"}) || f.sent(t, "tasks.cancel") != 0 {
			t.Errorf("%v, %q", err, messages(rec))
		}
	})
	t.Run("never quiet", func(t *testing.T) {
		_, rec, _, err := play(t, backends.Settings{}, backendtest.Turn{}, say("that is all"), idle)
		if err != nil || !slices.Equal(messages(rec), []string{"that is all"}) {
			t.Errorf("%v, %q", err, messages(rec))
		}
	})
}

func says(rec *backendtest.Recorder, part string) bool {
	return strings.Contains(backendtest.Dump(rec.Events()), part)
}

// TestLostSession: where copilot cannot resume one, a new one is wanted.
func TestLostSession(t *testing.T) {
	for name, c := range map[string]struct {
		script []act
		want   error
	}{
		"not found": {[]act{{Expect: `"method":"session.resume"`}, {Refuse: "Failed to load session events: Session not found: s1"}}, backends.ErrNewSession},
		"somebody else's": {[]act{
			{Expect: `"method":"session.resume"`}, event(`{"type":"session.resume","data":{"alreadyInUse":true}}`), {Answer: `{}`},
		}, backends.ErrNewSession},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, c.script...)
			f.keepSession(t, "s1")
			conv := f.open(t, func(cfg *backends.Config) { cfg.Session = backends.Session{ID: "s1"} })
			rec, _, err := run(t, t.Context(), conv, backendtest.Turn{}, backends.Settings{})
			if !errors.Is(err, c.want) || len(rec.Events()) != 0 {
				t.Errorf("%v", err)
			}
		})
	}
	f := newFake(t)
	for _, id := range []string{"s2", "../s1", ""} {
		_, err := f.Open(t.Context(), backends.Config{Dir: t.TempDir(), Session: backends.Session{ID: id}})
		if want := id != ""; errors.Is(err, backends.ErrNoSession) != want {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestCompactWithoutARun resumes the session for it.
func TestCompactWithoutARun(t *testing.T) {
	f := newFake(t, act{Expect: `"method":"session.history.compact"`}, event(`{"type":"session.compaction_start","data":{}}`), act{Answer: `{"success":true}`},
		act{Expect: `"method":"session.history.compact"`}, act{Refuse: "429 slow down"})
	f.keepSession(t, "s1")
	c := f.open(t, func(cfg *backends.Config) { cfg.Session = backends.Session{ID: "s1"} })
	if err := c.(backends.Compacter).Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.sent(t, `"method":"session.resume"`) != 1 || f.strays.Load() != 1 {
		t.Errorf("%d strays, %q", f.strays.Load(), f.heard(t))
	}
	if err := c.(backends.Compacter).Compact(t.Context()); class(err) == "" {
		t.Errorf("refused: %v", err)
	}
	if err := newFake(t).open(t, nil).(backends.Compacter).Compact(t.Context()); err != nil {
		t.Errorf("without a session: %v", err)
	}
}

// TestNotAtOnce: calls of a tool that must not run beside itself are asked for
// one after another, in their order.
func TestNotAtOnce(t *testing.T) {
	call := func(id string) act {
		return event(`{"type":"external_tool.requested","data":{"requestId":"` + id + `","toolCallId":"` + id + `","toolName":"one","arguments":{"n":"` + id + `"}}}`)
	}
	reply := backendtest.Reply{Kind: events.KindTool, After: 20 * time.Millisecond, Answer: events.Answer{Outcome: events.OutcomeOK, Result: "done"}}
	_, rec, _, err := play(t, backends.Settings{Tools: []backends.Tool{{Name: "one"}}},
		backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{reply, reply, reply}}},
		acts([]act{
			call("a"), call("b"), call("c"),
			{Expect: `"requestId":"a"`},
			{Answer: `{}`},
			{Expect: `"requestId":"b"`},
			{Answer: `{}`},
			{Expect: `"requestId":"c"`},
			{Answer: `{}`},
			say("ok"),
		}, stop)...)
	open, most := 0, 0
	for _, e := range rec.Events() {
		switch e.Type() {
		case events.TypeToolRequest:
			open++
			most = max(most, open)
		case events.TypeToolResolved:
			open--
		}
	}
	if err != nil || most != 1 || count(rec, events.TypeToolResolved) != 3 {
		t.Errorf("%v, %d at once", err, most)
	}
}

// TestPlan shows the list of things to do.
func TestPlan(t *testing.T) {
	_, rec, _, err := play(t, backends.Settings{}, backendtest.Turn{}, acts([]act{
		event(`{"type":"session.todos_changed","data":{}}`), {Expect: "readSqlTodos"}, {Answer: `{"rows":[{"id":"a","title":"Do it","status":"in_progress"}]}`}, say("ok"),
	}, stop)...)
	if err != nil || !says(rec, `"content":"Do it","status":"in_progress"`) {
		t.Errorf("%v\n%s", err, backendtest.Dump(rec.Events()))
	}
}

// TestSaveFails: a session that cannot be noted is not begun.
func TestSaveFails(t *testing.T) {
	f := newFake(t)
	c := f.open(t, func(cfg *backends.Config) { cfg.Save = func(backends.Session) error { return errors.New("disk full") } })
	if _, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{}); class(err) != events.ErrStorage || f.sent(t, "session.create") != 0 {
		t.Errorf("%v", err)
	}
}

// TestOldLogs: each process writes a log of its own, and the last ones are kept.
func TestOldLogs(t *testing.T) {
	f := newFake(t, acts(send("i1"), []act{say("hi")}, stop)...)
	logs := filepath.Join(f.home, "copilot", "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 15 {
		if err := os.WriteFile(filepath.Join(logs, fmt.Sprintf("process-%02d-1.log", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := run(t, t.Context(), f.open(t, nil), backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(logs + "/*")
	if len(left) != 10 || !strings.HasSuffix(left[0], "process-05-1.log") {
		t.Errorf("%q", left)
	}
}

// TestCancelWhileTheLogWaits: copilot is told to stop although the log cannot
// take what it has said.
func TestCancelWhileTheLogWaits(t *testing.T) {
	f := newFake(t, acts(send("i1"), []act{
		event(`{"type":"assistant.message_delta","data":{"messageId":"m","deltaContent":"a"}}`),
		{Expect: `"method":"session.abort"`},
		{Answer: `{}`},
		event(`{"type":"assistant.idle","data":{"aborted":true}}`), event(`{"type":"session.idle","data":{"aborted":true}}`),
	})...)
	c := f.open(t, func(cfg *backends.Config) { cfg.Grace = 20 * time.Second })
	ctx, cancel := context.WithCancelCause(t.Context())
	rec := backendtest.NewRecorder(backendtest.Turn{}, nil, nil)
	h := backendtest.NewSlowHost(rec)
	done := make(chan error, 1)
	go func() { // ends with Run
		_, err := c.Run(ctx, backends.Input{}, h)
		done <- err
	}()
	select {
	case <-h.Waits:
	case got := <-done:
		t.Fatalf("it ended before its log waited: %v", got)
	}
	cancel(backends.ErrCanceled)
	f.await(t, `"method":"session.abort"`, 1)
	close(h.Release)
	if err := <-done; !errors.Is(err, backends.ErrCanceled) {
		t.Error(err)
	}
	rec.Close()
}
