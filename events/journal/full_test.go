package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"innerd/events"
	"innerd/events/journal"
)

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

// The first event of a run says its id: what is said of the disk comes after it,
// and nothing is said where no other one waits.
func TestDiskIsFullFromTheFirstEventOn(t *testing.T) {
	f := newFaults()
	s := open(t, t.TempDir(), &journal.Options{FS: f, Fsync: journal.FsyncNone})
	l := create(t, s, run)
	f.set((&fullDisk{gives: 300, err: syscall.ENOSPC}).hook)
	say(t, l, "a")
	await(t, l, 1)
	if st := s.Stats(); st.Full != 0 {
		t.Errorf("%+v", st)
	}
	long := strings.Repeat("b", 500)
	say(t, l, long)
	await(t, l, 2)
	f.set(nil)
	await(t, l, 3)
	want(t, visible(t, l, 0), "1 a", "2 [session.status]", "3 "+long)
	end(t, l)
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

// What the reserve gives up may be somebody else's at once, of whoever fills
// the disk. The end of a run is written all the same, and is the same after a
// crash.
func TestDiskStaysFullAndTheReserveIsTaken(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, dir string, f *faults, s *journal.Store) (*journal.Store, *journal.Log){
		"running": func(_ *testing.T, _ string, _ *faults, s *journal.Store) (*journal.Store, *journal.Log) {
			l, _ := s.Get(run)
			return s, l
		},
		"found at the start": func(t *testing.T, dir string, f *faults, s *journal.Store) (*journal.Store, *journal.Log) {
			_ = s.Close()
			s = open(t, dir, &journal.Options{FS: f})
			l, _ := s.Get(run)
			return s, l
		},
	} {
		for _, c := range []struct {
			texts []string
			bytes int // of the end
		}{{[]string{"a", "b"}, 1}, {nil, 1}, {[]string{"a"}, 300 << 10}} {
			texts := c.texts
			t.Run(fmt.Sprintf("%s, %d events, %d bytes", name, len(texts), c.bytes), func(t *testing.T) {
				f := newFaults()
				dir := t.TempDir()
				s := open(t, dir, &journal.Options{FS: f})
				l := create(t, s, run)
				say(t, l, texts...)
				if len(texts) > 0 {
					await(t, l, int64(len(texts)))
				}
				s, l = before(t, dir, f, s)
				disk := &fullDisk{room: 30, err: syscall.ENOSPC}
				f.set(disk.hook)
				err := l.End([]events.Data{events.NewError(events.ErrStorage, strings.Repeat("x", c.bytes)), events.End{State: events.Failed}}, journal.RunEnd{State: events.Failed, ErrorType: events.ErrStorage})
				var storage *journal.StorageError
				if !errors.As(err, &storage) {
					t.Fatal(err)
				}
				all := visible(t, l, 0)
				if n := len(all); n != len(texts)+2 || all[n-1] != fmt.Sprintf("%d [session.end]", n) {
					t.Fatal(all)
				}
				_ = s.Close()
				s = open(t, dir, &journal.Options{FS: f}) // the disk is full as ever
				l, err = s.Get(run)
				if err != nil {
					t.Fatal(err)
				}
				want(t, visible(t, l, 0), all...)
				if e, ended := l.Ended(); !ended || e.LastID != int64(len(all)) {
					t.Fatalf("%v %+v", ended, e)
				}
				f.set(nil)
			})
		}
	}
}

// What else is written on a full disk, and fails, leaves the ends of runs what
// they need: the end of a long message is longer than a file of the stock.
func TestReserveIsForEnds(t *testing.T) {
	f := newFaults()
	dir := t.TempDir()
	s := open(t, dir, &journal.Options{FS: f})
	l := create(t, s, run)
	say(t, l, "a")
	await(t, l, 1)
	disk := &fullDisk{room: 30, err: syscall.ENOSPC} // others take each piece that is given up
	f.set(disk.hook)
	for range 30 {
		if err := s.WriteFile("conversations/c/state.json", bytes.Repeat([]byte("x"), 100)); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	_ = l.End([]events.Data{events.NewError(events.ErrStorage, strings.Repeat("x", 300<<10)), events.End{State: events.Failed}}, journal.RunEnd{State: events.Failed, ErrorType: events.ErrStorage})
	all := visible(t, l, 0)
	if n := len(all); n != 3 || all[n-1] != "3 [session.end]" {
		t.Fatal(all)
	}
	_ = s.Close()
	s = open(t, dir, &journal.Options{FS: f})
	l, err := s.Get(run)
	if err != nil {
		t.Fatal(err)
	}
	want(t, visible(t, l, 0), all...)
	f.set(nil)
}

// noNewFile is a full disk that takes no new file of a run either.
type noNewFile struct {
	*faults
	full atomic.Bool
}

func (f *noNewFile) OpenFile(name string, flag int, perm fs.FileMode) (journal.File, error) {
	if _, err := os.Stat(name); f.full.Load() && flag&os.O_CREATE != 0 && err != nil && strings.Contains(filepath.ToSlash(name), "/runs/") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOSPC}
	}
	return f.faults.OpenFile(name, flag, perm)
}

// An end that would be the first in a new segment is kept all the same.
func TestDiskTakesNoNewFile(t *testing.T) {
	f := &noNewFile{faults: newFaults()}
	dir := t.TempDir()
	s := open(t, dir, &journal.Options{FS: f, SegmentBytes: 100})
	l := create(t, s, run)
	say(t, l, strings.Repeat("a", 200))
	await(t, l, 1)
	f.full.Store(true)
	f.set((&fullDisk{err: syscall.ENOSPC}).hook)
	var storage *journal.StorageError
	if err := l.End([]events.Data{events.End{State: events.Completed}}, journal.RunEnd{State: events.Completed}); !errors.As(err, &storage) {
		t.Fatal(err)
	}
	all := visible(t, l, 0)
	want(t, all, "1 "+strings.Repeat("a", 200), "2 [session.error]", "3 [session.end]")
	_ = s.Close()
	f.full.Store(false)
	f.set(nil)
	s = open(t, dir, &journal.Options{FS: f})
	l, err := s.Get(run)
	if err != nil {
		t.Fatal(err)
	}
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

// A reader that is behind memory waits for a descriptor, as the others read on.
func TestReaderOutOfDescriptors(t *testing.T) {
	f := newFaults()
	s := open(t, t.TempDir(), &journal.Options{FS: f, SegmentBytes: 300, MemoryBytes: 1})
	l := create(t, s, run)
	for i := range 8 {
		say(t, l, strings.Repeat("x", 100))
		await(t, l, int64(i+1))
	}
	end(t, l)
	refused := 0
	f.set(func(op, name string, n int) (int, error) {
		if op == "open" && strings.HasSuffix(name, ".jsonl") && refused < 3 {
			refused++
			return 0, syscall.EMFILE
		}
		return n, nil
	})
	if got := visible(t, l, 0); len(got) != 10 || refused != 3 {
		t.Fatal(got, refused)
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

// segments are the bytes of all segments of the run.
func segments(t *testing.T, dir string) (all []byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "runs", run, "*.jsonl"))
	for _, name := range names {
		raw, rerr := os.ReadFile(name)
		all, err = append(all, raw...), errors.Join(err, rerr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A file layer that does not say how much of a failed write it has taken
// leaves bytes behind the end; none of them may stand there when the run has
// ended.
func TestFailedWriteThatIsNotCounted(t *testing.T) {
	f := newFaults()
	f.uncounted = true
	dir := t.TempDir()
	s := open(t, dir, &journal.Options{FS: f, UnwrittenBytes: 4000, Fsync: journal.FsyncNone})
	l := create(t, s, run)
	say(t, l, "a")
	await(t, l, 1)
	disk := &fullDisk{room: 3000, gives: 2000, err: syscall.ENOSPC}
	f.set(disk.hook)
	var err error
	for err == nil {
		_, err = l.Append(events.MessageDelta{Delta: strings.Repeat("x", 3000), MessageID: "m"})
	}
	_ = l.End([]events.Data{events.End{State: events.Completed}}, journal.RunEnd{State: events.Completed}) // it says that the disk is full
	f.set(nil)
	raw := segments(t, dir)
	id := 0
	for line := range bytes.Lines(raw) {
		if id++; !bytes.HasPrefix(line, fmt.Appendf(nil, `{"id":%d,`, id)) || !bytes.HasSuffix(line, []byte("}\n")) {
			t.Fatalf("in the place of event %d: %.80q", id, line)
		}
	}
	if int64(id) != l.Last() {
		t.Fatalf("%d lines on disk, %d events", id, l.Last())
	}
}
