package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"innerd/events"
	"innerd/events/journal"
)

func TestTwoServers(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	_, err := journal.Open(dir, nil)
	var locked *journal.LockedError
	if !errors.Is(err, journal.ErrLocked) || !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Fatal(err)
	}
	id := s.ID()
	_ = s.Close()
	if s = open(t, dir, nil); s.ID() != id {
		t.Fatal("another id")
	}
}

func TestDirThatCannotBeWritten(t *testing.T) {
	for name, errno := range map[string]error{"read-only": syscall.EROFS, "denied": syscall.EACCES} {
		t.Run(name, func(t *testing.T) {
			f := newFaults()
			f.set(func(op, _ string, n int) (int, error) {
				if op != "open" {
					return 0, errno
				}
				return n, nil
			})
			s := open(t, t.TempDir(), &journal.Options{FS: f})
			if !s.MemoryOnly() || !s.Stats().MemoryOnly || s.Dir() != "" {
				t.Fatal("not in memory")
			}
			l := create(t, s, run)
			say(t, l, "a")
			end(t, l)
			want(t, visible(t, l, 0), "1 a", "2 [assistant.usage]", "3 [session.end]")
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	_ = os.WriteFile(file, nil, 0o600)
	if s := open(t, filepath.Join(file, "below"), nil); !s.MemoryOnly() {
		t.Fatal("not in memory")
	}
}

func TestMemoryOnlyBounds(t *testing.T) {
	s := open(t, "", &journal.Options{UnwrittenBytes: 64 << 10, MemoryBytes: 1 << 20})
	l := create(t, s, run)
	for i := range 20000 {
		say(t, l, fmt.Sprintf("%0100d", i))
	}
	oldest := l.Oldest()
	if oldest < 10000 || oldest >= 19900 {
		t.Fatalf("oldest %d", oldest)
	}
	var gone *journal.GoneError
	if _, err := l.Follow(5, nil); !errors.As(err, &gone) || gone.Oldest != oldest || gone.Latest != 20000 {
		t.Fatal(err)
	}
	if got := visible(t, l, oldest-1); len(got) != int(20000-oldest+1) {
		t.Fatal(len(got))
	}
	end(t, l)
	for i := range 5 {
		l := create(t, s, fmt.Sprintf("next-%04d", i))
		for range 5000 {
			say(t, l, fmt.Sprintf("%0100d", i))
		}
		end(t, l)
	}
	if st := s.Stats(); st.MemoryBytes > 1<<20+300<<10 || st.Runs > 4 {
		t.Fatalf("%+v", st)
	}
	if _, err := s.Get(run); !errors.Is(err, journal.ErrNotFound) {
		t.Fatal("the oldest is still there")
	}
}

func TestClockJump(t *testing.T) {
	now := time.Unix(2_000_000_000, 0)
	dir := t.TempDir()
	s := open(t, dir, &journal.Options{Now: func() time.Time { return now }})
	l := create(t, s, run)
	say(t, l, "a")
	now = time.Unix(1_000_000_000, 0)
	say(t, l, "b")
	end(t, l)
	_ = s.Close()
	s = open(t, dir, nil)
	l, _ = s.Get(run)
	want(t, visible(t, l, 0), "1 a", "2 b", "3 [assistant.usage]", "4 [session.end]")
}

func TestRetentionUnderAReader(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &journal.Options{SegmentBytes: 500, Retention: time.Hour, MaxRuns: 1})
	l := create(t, s, run)
	for i := range 50 {
		say(t, l, fmt.Sprint(i))
		await(t, l, int64(i+1))
	}
	end(t, l)
	c, err := l.Follow(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	l2 := create(t, s, "run-0002")
	end(t, l2)
	s.Retain()
	if _, err := s.Get(run); !errors.Is(err, journal.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := s.Create(journal.RunMeta{ID: run}); !errors.Is(err, journal.ErrExists) {
		t.Fatalf("the id is used again while it is read: %v", err)
	}
	n := 0
	for _, err := range c.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 52 {
		t.Fatalf("read %d", n)
	}
	c.Close()
	if _, err := os.Stat(filepath.Join(dir, "runs", run)); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("files are left")
	}
	create(t, s, run)
}

func TestBlobs(t *testing.T) {
	for name, dir := range map[string]string{"disk": t.TempDir(), "memory": ""} {
		t.Run(name, func(t *testing.T) {
			s := open(t, dir, &journal.Options{BlobBytes: 1000})
			l := create(t, s, run)
			long := strings.Repeat("é", 3000)
			if _, err := l.Append(events.ToolComplete{ID: "1", Name: "bash", Success: true, Result: long}); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Append(events.Message{Content: long, MessageID: "m"}); err != nil {
				t.Fatal(err)
			}
			end(t, l)
			var sha string
			for e, err := range l.Snapshot(0, nil) {
				if err != nil {
					t.Fatal(err)
				}
				switch d := e.Data.(type) {
				case events.ToolComplete:
					raw := string(e.Raw)
					if d.ID != "1" || len(d.Result) > 1000 || !strings.HasPrefix(long, d.Result) ||
						!strings.Contains(raw, `"truncated":true`) || !strings.Contains(raw, `"bytes":6000`) {
						t.Fatal(raw)
					}
					_, after, _ := strings.Cut(raw, `"sha256":"`)
					sha = after[:64]
				case events.Message:
					if d.Content != long {
						t.Fatal("a basic event was cut")
					}
				}
			}
			r, n, err := l.Blob(sha)
			if err != nil || n != 6000 {
				t.Fatal(n, err)
			}
			defer r.Close()
			var buf bytes.Buffer
			if _, err := buf.ReadFrom(r); err != nil || buf.String() != long {
				t.Fatal(err)
			}
			for _, bad := range []string{"", "../request.json", strings.Repeat("0", 64)} {
				if _, _, err := l.Blob(bad); !errors.Is(err, journal.ErrNotFound) {
					t.Fatal(bad, err)
				}
			}
		})
	}
}

func TestDamagedTable(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	l := create(t, s, run)
	say(t, l, "a")
	end(t, l)
	all := visible(t, l, 0)
	say(t, create(t, s, "run-0002"), "x")
	_ = s.Close()
	table := filepath.Join(dir, "runs.jsonl")
	change(t, table, func(b []byte) []byte { return bytes.Replace(b, []byte(`"op":"begin"`), []byte(`"op":#begin"`), 1) })
	for range 2 {
		s = open(t, dir, nil)
		l, err := s.Get(run)
		if err != nil {
			t.Fatal(err)
		}
		want(t, visible(t, l, 0), all...)
		if e, ok := l.Ended(); !ok || e.State != events.Completed || l.Meta().Owner != "o" {
			t.Fatalf("%+v %+v", e, l.Meta())
		}
		if len(s.Unfinished()) != 1 {
			t.Fatal("the other run")
		}
		_ = s.Close()
	}
}

func TestTableIsCompacted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &journal.Options{MaxRuns: 3, Fsync: journal.FsyncNone})
	for i := range 700 {
		end(t, create(t, s, fmt.Sprintf("run-%04d", i)))
		s.Retain()
	}
	data, _ := os.ReadFile(filepath.Join(dir, "runs.jsonl"))
	if n := bytes.Count(data, []byte("\n")); n > 1100 {
		t.Fatalf("%d lines", n)
	}
	_ = s.Close()
	s = open(t, dir, nil)
	if got := s.List(); len(got) != 3 || got[0].ID != "run-0699" {
		t.Fatal(got)
	}
}

// TestPolicies: what must be durable is synced before it is visible.
func TestPolicies(t *testing.T) {
	for policy, want := range map[journal.Policy][2]string{ // operations for a delta, for the end
		journal.FsyncNone: {"write", "write"}, journal.FsyncEnd: {"write", "write,sync"},
		journal.FsyncInterval: {"write", "write,sync"}, journal.FsyncAlways: {"write,sync", "write,sync"},
	} {
		f := newFaults()
		s := open(t, t.TempDir(), &journal.Options{FS: f, Fsync: policy})
		l := create(t, s, run)
		var order []string
		f.set(func(op, name string, n int) (int, error) {
			if strings.HasSuffix(name, "0001.jsonl") && (op == "write" || op == "sync") {
				order = append(order, op)
			}
			return n, nil
		})
		seen := func() string { // what was done when the event became visible
			f.mu.Lock()
			defer f.mu.Unlock()
			defer func() { order = nil }()
			return strings.Join(order, ",")
		}
		say(t, l, "a")
		await(t, l, 1)
		if got := seen(); got != want[0] {
			t.Errorf("%s: a delta: %s", policy, got)
		}
		end(t, l)
		if got := seen(); got != want[1] {
			t.Errorf("%s: the end: %s", policy, got)
		}
	}
	if _, err := journal.ParsePolicy("often"); err == nil {
		t.Error("often")
	}
	if p, err := journal.ParsePolicy(""); err != nil || p != journal.FsyncInterval {
		t.Error(p, err)
	}
}
