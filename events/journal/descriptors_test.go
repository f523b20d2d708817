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
