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

const run = "run-0001"

func segment(dir string) string {
	return filepath.Join(dir, "runs", run, "000000000001.jsonl")
}

func index(dir string) string {
	return filepath.Join(dir, "runs", run, "000000000001.idx")
}

func change(t *testing.T, name string, f func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, f(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func unfinished(t *testing.T, s *journal.Store) *journal.Log {
	t.Helper()
	found := s.Unfinished()
	if len(found) != 1 {
		t.Fatalf("%d unfinished runs", len(found))
	}
	return found[0]
}

func TestTornLastLine(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	say(t, create(t, s, run), "a", "b")
	_ = s.Close()
	change(t, segment(dir), func(b []byte) []byte { return append(b, `{"id":3,"ts":1,"type":"assistant.mess`...) })
	for range 2 { // recovery is idempotent
		s = open(t, dir, nil)
		want(t, visible(t, unfinished(t, s), 0), "1 a", "2 b")
		_ = s.Close()
	}
	s = open(t, dir, nil)
	l := unfinished(t, s)
	say(t, l, "c")
	end(t, l)
	want(t, visible(t, l, 0), "1 a", "2 b", "3 c", "4 [assistant.usage]", "5 [session.end]")
}

func TestBadTailIsCut(t *testing.T) {
	for name, tail := range map[string]string{
		"zeros": strings.Repeat("\x00", 5000), "not JSON": "{\"id\":3,\n{}\n", "another id": "{\"id\":9,\"ts\":1,\"type\":\"x\",\"data\":{}}\n",
		"text": "hello\nworld\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, nil)
			say(t, create(t, s, run), "a", "b")
			_ = s.Close()
			before, _ := os.ReadFile(segment(dir))
			change(t, segment(dir), func(b []byte) []byte { return append(b, tail...) })
			s = open(t, dir, nil)
			want(t, visible(t, unfinished(t, s), 0), "1 a", "2 b")
			after, _ := os.ReadFile(segment(dir))
			if !bytes.Equal(before, after) {
				t.Fatalf("%q", after)
			}
		})
	}
}

func TestBadLineBeforeGoodOnesIsDamaged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	say(t, create(t, s, run), "a", "b", "c", "d")
	_ = s.Close()
	change(t, segment(dir), func(b []byte) []byte { return bytes.Replace(b, []byte(`"delta":"b"`), []byte(`"delta"#"b"`), 1) })
	s = open(t, dir, nil)
	l := unfinished(t, s)
	want(t, visible(t, l, 0), "1 a", "2 [log.damaged]", "3 c", "4 d")
	say(t, l, "e")
	end(t, l)
	_ = s.Close()
	s = open(t, dir, nil)
	l, _ = s.Get(run)
	want(t, visible(t, l, 0), "1 a", "2 [log.damaged]", "3 c", "4 d", "5 e", "6 [assistant.usage]", "7 [session.end]")
	if n := s.Stats().Damaged; n != 1 {
		t.Fatalf("%d damaged", n)
	}
}

// TestFlippedByte changes every byte of a short journal in turn, by a bit and
// wholly: one id is damaged, the others are as they were.
func TestFlippedByte(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	l := create(t, s, run)
	say(t, l, "a", "b", "c")
	end(t, l)
	_ = s.Close()
	good := []string{"1 a", "2 b", "3 c", "4 [assistant.usage]", "5 [session.end]"}
	data, _ := os.ReadFile(segment(dir))
	for i := range data {
		for _, flip := range []byte{1, 0xff} {
			change(t, segment(dir), func([]byte) []byte {
				bad := bytes.Clone(data)
				bad[i] ^= flip
				return bad
			})
			s = open(t, dir, &journal.Options{Fsync: journal.FsyncNone})
			l, err := s.Get(run)
			if err != nil {
				t.Fatal(err)
			}
			id := bytes.Count(data[:i], []byte("\n"))
			texts := append([]string(nil), good...)
			texts[id] = fmt.Sprintf("%d [log.damaged]", id+1)
			want(t, visible(t, l, 0), texts...)
			if n := s.Stats().Damaged; n != 1 {
				t.Fatalf("%d damaged", n)
			}
			_ = s.Close()
		}
	}
}

func TestWreckedBlock(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	l := create(t, s, run)
	say(t, l, "a", "b", "c")
	end(t, l)
	_ = s.Close()
	// It shows which line is bad: the others are served.
	good, _ := os.ReadFile(segment(dir))
	change(t, segment(dir), func(b []byte) []byte { return bytes.Replace(b, []byte(`"delta":"b"`), make([]byte, 11), 1) })
	s = open(t, dir, nil)
	l, _ = s.Get(run)
	want(t, visible(t, l, 0), "1 a", "2 [log.damaged]", "3 c", "4 [assistant.usage]", "5 [session.end]")
	_ = s.Close()
	// It does not show: none is.
	change(t, segment(dir), func([]byte) []byte {
		b := bytes.Replace(good, []byte(`"delta":"b"`), []byte(`"delta":"x"`), 1)
		return bytes.Replace(b, []byte(`"delta":"c"`), []byte(`"delta":"y"`), 1)
	})
	s = open(t, dir, nil)
	l, _ = s.Get(run)
	for _, e := range visible(t, l, 0) {
		if !strings.HasSuffix(e, "[log.damaged]") {
			t.Fatal(e)
		}
	}
}

func TestMissingFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &journal.Options{SegmentBytes: 200})
	l := create(t, s, run)
	for i := range 20 {
		say(t, l, fmt.Sprint(i))
		await(t, l, int64(i+1))
	}
	end(t, l)
	all := visible(t, l, 0)
	_ = s.Close()
	segs, _ := filepath.Glob(filepath.Join(dir, "runs", run, "*.jsonl"))
	if len(segs) < 5 {
		t.Fatalf("%d segments", len(segs))
	}
	// An index is rebuilt.
	_ = os.Remove(strings.TrimSuffix(segs[1], "jsonl") + "idx")
	_ = os.WriteFile(strings.TrimSuffix(segs[2], "jsonl")+"idx", []byte("nonsense"), 0o600)
	s = open(t, dir, nil)
	l, _ = s.Get(run)
	want(t, visible(t, l, 0), all...)
	_ = s.Close()
	// A segment is not; its ids are damaged.
	_ = os.Remove(segs[1])
	_ = os.Remove(segs[len(segs)-1])
	s = open(t, dir, nil)
	l, _ = s.Get(run)
	got := visible(t, l, 0)
	lost := 0
	for i := range all {
		if got[i] == fmt.Sprintf("%d [log.damaged]", i+1) {
			lost++
		} else if got[i] != all[i] {
			t.Fatal(got[i], all[i])
		}
	}
	if len(got) != len(all) || lost < 2 || lost > 10 {
		t.Fatalf("%d of %d, %d lost", len(got), len(all), lost)
	}
}

func TestShortWrites(t *testing.T) {
	f := newFaults()
	s := open(t, t.TempDir(), &journal.Options{FS: f})
	f.set(func(op, _ string, n int) (int, error) {
		if op == "write" {
			return (n + 2) / 3, nil
		}
		return n, nil
	})
	l := create(t, s, run)
	say(t, l, "a", "b", "c")
	end(t, l)
	l.Meta()
	want(t, visible(t, l, 2), "3 c", "4 [assistant.usage]", "5 [session.end]")
}

func TestDiskFullDropsEndedRunsFirst(t *testing.T) {
	f := newFaults()
	s := open(t, t.TempDir(), &journal.Options{FS: f, Fsync: journal.FsyncNone})
	for _, id := range []string{"old-0001", "old-0002", "old-0003"} {
		l := create(t, s, id)
		say(t, l, "x")
		end(t, l)
	}
	l := create(t, s, run)
	disk := &fullDisk{room: 30, gives: 1 << 20, err: syscall.ENOSPC}
	f.set(func(op, name string, n int) (int, error) {
		if op == "removeall" && strings.HasSuffix(name, "old-0002") {
			disk.add(1 << 20) // the second is what makes room
		}
		return disk.hook(op, name, n)
	})
	say(t, l, "a", "b")
	await(t, l, 2)
	want(t, visible(t, l, 0), "1 a", "2 b")
	if _, err := s.Get("old-0003"); err != nil {
		t.Fatal("the third went too")
	}
	if _, err := s.Get("old-0001"); !errors.Is(err, journal.ErrNotFound) {
		t.Fatal("the first is still there")
	}
}

func TestDiskFullAndSpaceBack(t *testing.T) {
	f := newFaults()
	dir := t.TempDir()
	s := open(t, dir, &journal.Options{FS: f, Fsync: journal.FsyncNone})
	l := create(t, s, run)
	say(t, l, "a")
	await(t, l, 1)
	disk := &fullDisk{room: 40, gives: 300, err: syscall.ENOSPC}
	f.set(disk.hook)
	say(t, l, strings.Repeat("b", 500), "c")
	await(t, l, 2)
	want(t, visible(t, l, 0), "1 a", "2 [session.status]")
	if st := s.Stats(); st.Full != 1 {
		t.Fatalf("%+v", st)
	}
	say(t, l, "d") // the agent goes on, unseen
	if l.Last() != 2 {
		t.Fatal("seen before it was written")
	}
	f.set(nil)
	await(t, l, 5)
	want(t, visible(t, l, 2), "3 "+strings.Repeat("b", 500), "4 c", "5 d")
	end(t, l)
	all := visible(t, l, 0)
	_ = s.Close()
	s = open(t, dir, nil)
	l, _ = s.Get(run)
	want(t, visible(t, l, 0), all...)
}

func TestDiskStaysFull(t *testing.T) {
	f := newFaults()
	dir := t.TempDir()
	closing := func(l *journal.Log) []events.Data {
		return []events.Data{events.Message{Content: "a", MessageID: "m", Partial: true}}
	}
	s := open(t, dir, &journal.Options{FS: f, UnwrittenBytes: 1000, Closing: closing})
	l := create(t, s, run)
	say(t, l, "a")
	await(t, l, 1)
	disk := &fullDisk{gives: 200, err: syscall.ENOSPC}
	f.set(disk.hook)
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		_, err = l.Append(events.MessageDelta{Delta: strings.Repeat("x", 300), MessageID: "m"})
	}
	var storage *journal.StorageError
	if !errors.As(err, &storage) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("after %d: %v", n, err)
	}
	if n < 15 || n > 40 {
		t.Fatalf("%d events waited", n)
	}
	err = l.End([]events.Data{events.Usage{}, events.End{State: events.Completed}}, journal.RunEnd{State: events.Completed})
	if !errors.As(err, &storage) {
		t.Fatal(err)
	}
	all := visible(t, l, 0)
	want(t, all, "1 a", "2 [session.status]", "3 [assistant.message]", "4 [session.error]", "5 [session.end]")
	e, ok := l.Ended()
	if !ok || e.State != events.Failed || e.ErrorType != events.ErrStorage || e.LastID != 5 {
		t.Fatalf("%+v", e)
	}
	if got := s.Stats().Dropped; got != int64(n-1) {
		t.Fatalf("%d dropped of %d", got, n-1)
	}
	_ = s.Close()
	s = open(t, dir, nil)
	l, _ = s.Get(run)
	want(t, visible(t, l, 0), all...)
}

func TestCreateFailsAndLeavesNothing(t *testing.T) {
	for _, errno := range []error{syscall.ENOSPC, syscall.EMFILE, syscall.EIO} {
		f := newFaults()
		dir := t.TempDir()
		s := open(t, dir, &journal.Options{FS: f, Fsync: journal.FsyncAlways})
		base := f.count()
		create(t, s, "run-first")
		steps := f.count() - base
		for k := range steps {
			n := 0
			f.set(func(_, _ string, b int) (int, error) {
				n++
				if n == k+1 {
					return b / 2, errno
				}
				return b, nil
			})
			id := fmt.Sprintf("run-%04d", k)
			_, err := s.Create(journal.RunMeta{ID: id})
			f.set(nil)
			if err == nil {
				continue // a step whose failure does not matter
			}
			if !errors.Is(err, errno) {
				t.Fatal(err)
			}
			if _, err := s.Get(id); !errors.Is(err, journal.ErrNotFound) {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "runs", id)); err == nil {
				t.Fatalf("step %d: files are left", k)
			}
			if table, _ := os.ReadFile(filepath.Join(dir, "runs.jsonl")); bytes.Contains(table, []byte(id)) || !bytes.HasSuffix(table, []byte("}\n")) {
				t.Fatalf("step %d: %s", k, table)
			}
			create(t, s, id) // and it can be tried again
		}
	}
}

func TestOutOfDescriptors(t *testing.T) {
	f := newFaults()
	s := open(t, t.TempDir(), &journal.Options{FS: f, SegmentBytes: 300})
	l := create(t, s, run)
	left := 0
	f.set(func(op, _ string, n int) (int, error) {
		if op == "open" {
			if left == 0 {
				left = 1 // one is given back by a spare
				return 0, syscall.EMFILE
			}
			left--
		}
		return n, nil
	})
	if _, err := s.Create(journal.RunMeta{ID: "run-0002"}); !errors.Is(err, syscall.EMFILE) {
		t.Fatal(err)
	}
	for i := range 8 {
		say(t, l, strings.Repeat("x", 100))
		await(t, l, int64(i+1))
	}
	end(t, l)
	f.set(nil)
	if got := visible(t, l, 0); len(got) != 10 {
		t.Fatal(got)
	}
}

func TestFsyncError(t *testing.T) {
	for _, policy := range []journal.Policy{journal.FsyncAlways, journal.FsyncInterval} {
		f := newFaults()
		dir := t.TempDir()
		s := open(t, dir, &journal.Options{FS: f, Fsync: policy})
		l := create(t, s, run)
		say(t, l, "a")
		await(t, l, 1)
		old, _ := os.Stat(segment(dir))
		failed := make(chan struct{})
		first := true
		f.set(func(op, name string, n int) (int, error) {
			if first && op == "sync" && strings.HasSuffix(name, ".jsonl") && strings.Contains(name, run) {
				first = false
				close(failed)
				return 0, syscall.EIO
			}
			return n, nil
		})
		say(t, l, "b")
		await(t, l, 2)
		if policy == journal.FsyncInterval {
			s.Tick()
		}
		<-failed
		say(t, l, "c")
		end(t, l)
		want(t, visible(t, l, 0), "1 a", "2 b", "3 c", "4 [assistant.usage]", "5 [session.end]")
		fresh, err := os.Stat(segment(dir))
		if err != nil || os.SameFile(old, fresh) {
			t.Fatalf("%s: the same file goes on, %v", policy, err)
		}
		_ = s.Close()
		s = open(t, dir, nil)
		l, _ = s.Get(run)
		want(t, visible(t, l, 2), "3 c", "4 [assistant.usage]", "5 [session.end]")
	}
}

func TestFsyncKeepsFailing(t *testing.T) {
	f := newFaults()
	s := open(t, t.TempDir(), &journal.Options{FS: f})
	l := create(t, s, run)
	say(t, l, "a")
	await(t, l, 1)
	f.set(func(op, name string, n int) (int, error) {
		if op == "sync" && strings.Contains(name, run) {
			return 0, syscall.EIO
		}
		return n, nil
	})
	s.Tick()
	var storage *journal.StorageError
	if _, err := l.Append(events.Steered{Text: "x"}); !errors.As(err, &storage) {
		t.Fatal(err)
	}
	end(t, l)
	want(t, visible(t, l, 0), "1 a", "2 [assistant.usage]", "3 [session.end]")
}

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
