package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
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
