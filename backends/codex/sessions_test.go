package codex_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/codexscript"
)

func TestSessions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.seat(t)
	for _, id := range []string{threadX, "../../etc/passwd", "*"} {
		cfg := s.Config()
		cfg.Session = backends.Session{ID: id}
		if _, err := b.backend().Open(t.Context(), cfg); !errors.Is(err, backends.ErrNoSession) {
			t.Errorf("%s: %v", id, err)
		}
	}
	// A session that nobody will find again is not begun.
	c := b.with(t, s, backends.Config{Save: func(backends.Session) error { return errors.New("disk full") }})
	if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{}); class(err) != events.ErrStorage {
		t.Error(err)
	}
	if s.sc.Count() != 0 {
		t.Error("the model was asked all the same")
	}
}

// TestMovedHome: codex's folder may be somewhere else, all of it.
func TestMovedHome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var session backends.Session
	save := func(x backends.Session) error { session = x; return nil }
	c, s := b.open(t, backends.Config{Save: save}, text("kept"), text("and on"))
	if _, _, err := run(t, c, backendtest.Turn{Prompt: "Remember quincunx."}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := b.home
	b.home = t.TempDir()
	if err := os.CopyFS(b.home, os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(old); err != nil {
		t.Fatal(err)
	}
	c = b.with(t, s, backends.Config{Save: save, Session: session})
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(texts(evs), []string{"and on"}) || !strings.Contains(s.Heard(), "quincunx") {
		t.Error(texts(evs), err)
	}
}

// TestCompactCold: a conversation that was put away can be shortened before
// anything else is done with it; one that has said nothing needs nothing.
func TestCompactCold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var session backends.Session
	cfg := backends.Config{Save: func(x backends.Session) error { session = x; return nil }}
	c, s := b.open(t, cfg, text("syzygy"))
	if err := c.(backends.Compacter).Compact(t.Context()); err != nil {
		t.Error(err)
	}
	set := backends.Settings{System: "the system text", Tools: []backends.Tool{tool("alpha")}}
	if _, _, err := run(t, c, backendtest.Turn{Prompt: "Remember quincunx."}, set); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	states := make(chan string, 10)
	cfg.Session = session
	cfg.Stray = func(e events.Event) {
		if d, ok := e.Data.(events.Status); ok {
			states <- d.State
		}
	}
	c = b.with(t, s, cfg)
	s.says(text("The user wants quincunx kept."), text("I go on."))
	if err := c.(backends.Compacter).Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-states; got != events.StateCompacting {
		t.Errorf("state %q", got)
	}
	evs, _, err := run(t, c, backendtest.Turn{}, set)
	if err != nil || !slices.Equal(texts(evs), []string{"I go on."}) {
		t.Fatal(texts(evs), err)
	}
	r, _ := s.last()
	heard := codexscript.Heard(r)
	if _, ok := r.Tool("alpha"); !ok || !strings.Contains(heard, "wants quincunx kept") || strings.Contains(heard, "syzygy") || strings.Count(heard, "the system text") != 1 {
		t.Errorf("tools %v; heard %q", ok, heard)
	}
	for _, e := range evs {
		if u, ok := e.Data.(events.Usage); ok && *u.OutputTokens > 10 {
			t.Errorf("the run is billed for more than its own: %d", *u.OutputTokens)
		}
	}
}
