package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"innerd/events"
	"innerd/events/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, dir string, opt *journal.Options) *journal.Store {
	t.Helper()
	s, err := journal.Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func create(t testing.TB, s *journal.Store, id string) *journal.Log {
	t.Helper()
	l, err := s.Create(journal.RunMeta{ID: id, Owner: "o", Request: json.RawMessage(`{"prompt":"hi"}`)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func say(t testing.TB, l *journal.Log, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if _, err := l.Append(events.MessageDelta{Delta: s, MessageID: "m"}); err != nil {
			t.Fatal(err)
		}
	}
}

func end(t testing.TB, l *journal.Log) {
	t.Helper()
	err := l.End([]events.Data{events.Usage{}, events.End{State: events.Completed, Reason: "end_turn"}},
		journal.RunEnd{State: events.Completed, Reason: "end_turn"})
	if err != nil {
		t.Fatal(err)
	}
}

// collect reads a log from after to its end and renders each event shortly.
func collect(ctx context.Context, l *journal.Log, after int64, f journal.Filter) ([]string, error) {
	c, err := l.Follow(after, f)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var got []string
	for e, err := range c.Events(ctx) {
		if err != nil {
			return got, err
		}
		got = append(got, short(e))
	}
	return got, nil
}

func short(e events.Event) string {
	if d, ok := e.Data.(events.MessageDelta); ok {
		return fmt.Sprintf("%d %s", e.ID, d.Delta)
	}
	return fmt.Sprintf("%d [%s]", e.ID, e.Type())
}

func visible(t testing.TB, l *journal.Log, after int64) []string {
	t.Helper()
	var got []string
	for e, err := range l.Snapshot(after, nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, short(e))
	}
	return got
}

// await waits until event id is visible.
func await(t testing.TB, l *journal.Log, id int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := l.Follow(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for {
		b, err := c.Next(ctx)
		if err != nil {
			t.Fatalf("waiting for event %d: %v", id, err)
		}
		if b.Last() >= id {
			return
		}
	}
}

func want(t testing.TB, got []string, texts ...string) {
	t.Helper()
	if strings.Join(got, "|") != strings.Join(texts, "|") {
		t.Fatalf("got  %q\nwant %q", got, texts)
	}
}

func TestPlainPath(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	l := create(t, s, "run-0001")
	say(t, l, "a", "b", "b")
	end(t, l)
	want(t, visible(t, l, 0), "1 a", "2 b", "3 b", "4 [assistant.usage]", "5 [session.end]")
	got, err := collect(t.Context(), l, 3, func(t events.Type) bool { return t == events.TypeEnd })
	if err != nil {
		t.Fatal(err)
	}
	want(t, got, "5 [session.end]")
	if _, err := l.Append(events.Steered{}); !errors.Is(err, journal.ErrEnded) {
		t.Fatalf("append after the end: %v", err)
	}
	if _, err := s.Create(journal.RunMeta{ID: "run-0001"}); !errors.Is(err, journal.ErrExists) {
		t.Fatalf("create twice: %v", err)
	}
	var gone *journal.GoneError
	if _, err := l.Follow(6, nil); !errors.As(err, &gone) || gone.Latest != 5 {
		t.Fatalf("follow past the end: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(t, dir, nil)
	l, err = s.Get("run-0001")
	if err != nil {
		t.Fatal(err)
	}
	want(t, visible(t, l, 3), "4 [assistant.usage]", "5 [session.end]")
	if req, err := l.Request(); err != nil || string(req) != `{"prompt":"hi"}` {
		t.Fatalf("request %s, %v", req, err)
	}
	infos := s.List()
	if len(infos) != 1 || infos[0].End == nil || infos[0].LastID != 5 || infos[0].Owner != "o" {
		t.Fatalf("list %+v", infos)
	}
	if err := s.Delete("run-0001"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "runs", "run-0001")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("files after delete: %v", err)
	}
}

func TestFollowLive(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	l := create(t, s, "run-0001")
	c, err := l.Follow(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 100 {
		say(t, l, fmt.Sprint(i))
		b, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for line := range b.Lines() {
			if e, err := events.ParseLine(line); err != nil || short(e) != fmt.Sprintf("%d %d", i+1, i) {
				t.Fatalf("%s %v", line, err)
			}
		}
		frame := string(b.Frames()[0])
		if !strings.HasPrefix(frame, fmt.Sprintf("id: %d\ndata: {\"id\":%d,", i+1, i+1)) || !strings.HasSuffix(frame, "}\n\n") {
			t.Fatalf("frame %q", frame)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	if _, err := c.Next(ctx); !errors.Is(err, why) {
		t.Fatalf("next: %v", err)
	}
	end(t, l)
	for {
		if _, err = c.Next(t.Context()); err != nil {
			break
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	<-l.Done()
}

func TestUnfinished(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	l := create(t, s, "run-0001")
	say(t, l, "a", "b")
	_ = s.Close()
	s = open(t, dir, nil)
	found := s.Unfinished()
	if len(found) != 1 || found[0].Last() != 2 {
		t.Fatalf("unfinished %v", found)
	}
	l = found[0]
	say(t, l, "c")
	end(t, l)
	want(t, visible(t, l, 0), "1 a", "2 b", "3 c", "4 [assistant.usage]", "5 [session.end]")
	if len(s.Unfinished()) != 0 {
		t.Fatal("still unfinished")
	}
}

func TestFiles(t *testing.T) {
	for name, dir := range map[string]string{"disk": t.TempDir(), "memory": ""} {
		t.Run(name, func(t *testing.T) {
			s := open(t, dir, nil)
			if s.MemoryOnly() != (dir == "") || s.ID() == "" {
				t.Fatal("memory only?")
			}
			if _, err := s.ReadFile("a/b/c"); !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if err := s.WriteFile("a/b/c", []byte("x")); err != nil {
				t.Fatal(err)
			}
			if data, err := s.ReadFile("a/b/c"); err != nil || string(data) != "x" {
				t.Fatal(err)
			}
			if names, err := s.ReadDir("a"); err != nil || len(names) != 1 || names[0] != "b" {
				t.Fatal(names, err)
			}
			if err := s.WriteFile("../x", nil); err == nil {
				t.Fatal("wrote outside")
			}
			if err := s.RemoveAll("a/b"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.ReadFile("a/b/c"); !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		})
	}
}

func TestMemoryOnly(t *testing.T) {
	s := open(t, "", nil)
	l := create(t, s, "run-0001")
	say(t, l, "a", "b")
	end(t, l)
	want(t, visible(t, l, 0), "1 a", "2 b", "3 [assistant.usage]", "4 [session.end]")
	if err := s.Delete("run-0001"); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.MemoryBytes != 0 {
		t.Fatalf("memory %d", st.MemoryBytes)
	}
}
