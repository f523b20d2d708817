package simulate_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/simulate"
	"innerd/events"
)

func testProgram(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// saved opens a conversation and gives the session that was saved.
func saved(t *testing.T, b *simulate.Backend, resume backends.Session) (backends.Conversation, *backends.Session) {
	t.Helper()
	session := resume
	c, err := b.Open(t.Context(), backends.Config{Session: resume, Save: func(s backends.Session) error { session = s; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return c, &session
}

func TestToldIsAllThatWasTold(t *testing.T) {
	for name, dir := range map[string]string{"on disk": t.TempDir(), "in memory": ""} {
		t.Run(name, func(t *testing.T) {
			b := simulate.New(&simulate.Options{StateDir: dir})
			c, session := saved(t, b, backends.Session{})
			in := script(`[{"text":"I say"},{"call":{"tool":"look"}}]`)
			in.History, in.Set.System, in.Set.Tools = "the past", "be good", []backends.Tool{{Name: "look"}}
			if _, _, err := run(t, c, in, turn{Host: backendtest.Host{Replies: []backendtest.Reply{{
				Kind: events.KindTool, Answer: events.Answer{Outcome: events.OutcomeOK, Result: "seen"},
			}}}}); err != nil {
				t.Fatal(err)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if dir != "" {
				b = simulate.New(&simulate.Options{StateDir: dir})
			}
			c, _ = saved(t, b, *session)
			in = prompt("second")
			in.Set.System = "be better"
			if _, _, err := run(t, c, in, turn{}); err != nil {
				t.Fatal(err)
			}
			got, err := b.Told(session.ID)
			if err != nil {
				t.Fatal(err)
			}
			want := simulate.Told{System: "be better", Turns: 2, Entries: []simulate.Entry{
				{Turn: 1, Kind: simulate.KindHistory, Text: "the past"},
				{Turn: 1, Kind: simulate.KindPrompt, Parts: []events.Part{events.Text("play")}},
				{Turn: 1, Kind: simulate.KindSaid, Text: "I say"},
				{Turn: 1, Kind: simulate.KindResult, Parts: []events.Part{events.Text("seen")}},
				{Turn: 1, Kind: simulate.KindSaid, Text: "seen"},
				{Turn: 2, Kind: simulate.KindPrompt, Parts: []events.Part{events.Text("second")}},
				{Turn: 2, Kind: simulate.KindSaid, Text: "second"},
			}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestToldStepSaysIt(t *testing.T) {
	b := simulate.New(nil)
	c, session := saved(t, b, backends.Session{})
	for range 2 { // the second must not hold the first
		log, _, err := run(t, c, script(`[{"told":true}]`), turn{})
		if err != nil {
			t.Fatal(err)
		}
		var got simulate.Told
		if err := json.Unmarshal([]byte(texts(log)[0]), &got); err != nil {
			t.Fatal(err)
		}
		want, err := b.Told(session.ID)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
	}
}

func TestCanceledTurnIsStored(t *testing.T) {
	dir := t.TempDir()
	c, session := saved(t, simulate.New(&simulate.Options{StateDir: dir}), backends.Session{})
	_, out, err := run(t, c, script(`[{"text":"all of it"},{"call":{"tool":"never"}}]`), turn{
		Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeToolRequest}},
	})
	if !errors.Is(err, backends.ErrCanceled) || !out.Stored {
		t.Fatalf("%+v, %v", out, err)
	}
	got, err := simulate.New(&simulate.Options{StateDir: dir}).Told(session.ID)
	if err != nil || len(got.Entries) != 2 || got.Entries[1].Text != "all of it" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNoSession(t *testing.T) {
	dir := t.TempDir()
	b := simulate.New(&simulate.Options{StateDir: dir})
	damaged := "sim-" + strings.Repeat("d", 20)
	if err := os.WriteFile(filepath.Join(dir, damaged+".json"), []byte(`{"id":"sim-`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"sim-" + strings.Repeat("a", 26), damaged, "../../etc/passwd", "sim-../../x", "other"} {
		if _, err := b.Open(t.Context(), backends.Config{Session: backends.Session{ID: id}}); !errors.Is(err, backends.ErrNoSession) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestSaveFails(t *testing.T) {
	_, err := simulate.New(nil).Open(t.Context(), backends.Config{Save: func(backends.Session) error { return errors.New("full") }})
	wantError(t, err, events.ErrInternal)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = simulate.New(&simulate.Options{StateDir: file}).Open(t.Context(), backends.Config{})
	wantError(t, err, events.ErrInternal)
}
