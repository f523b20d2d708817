package journal_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"innerd/events"
	"innerd/events/journal"
)

// The end of a run that has no room at all is noted in a file that was written
// ahead: whoever closes the run after a restart says what readers were told.
// The run has no end until then, though its line in runs.jsonl had room.
func TestAnEndWithoutRoomIsPromised(t *testing.T) {
	for name, hook := range map[string]func(*fullDisk) func(op, name string, n int) (int, error){
		"no room":               func(d *fullDisk) func(string, string, int) (int, error) { return d.hook },
		"room for the run list": roomForTheList,
	} {
		t.Run(name, func(t *testing.T) {
			f, dir := newFaults(), t.TempDir()
			long := strings.Repeat("x", 2<<20)
			closing := func(*journal.Log) []events.Data {
				return []events.Data{events.Message{Content: long, MessageID: "m", Partial: true}}
			}
			s := open(t, dir, &journal.Options{FS: f, Closing: closing})
			l := create(t, s, run)
			say(t, l, long)
			await(t, l, 1)
			f.set(hook(&fullDisk{err: syscall.ENOSPC}))
			e := journal.RunEnd{State: events.Completed}
			err := l.End([]events.Data{events.End{State: events.Completed}}, e)
			var storage *journal.StorageError
			if !errors.As(err, &storage) {
				t.Fatal(err)
			}
			told := visible(t, l, 1)
			if n := len(told); n != 3 || told[n-1] != "4 [session.end]" {
				t.Fatal(n)
			}
			was, _ := l.Ended()
			_ = s.Close()
			for _, full := range []bool{true, false} { // also where it stays full
				if !full {
					f.set(nil)
				}
				s = open(t, dir, &journal.Options{FS: f, Closing: closing})
				if l, err = s.Get(run); err != nil {
					t.Fatal(err)
				}
				if _, ended := l.Ended(); ended {
					t.Fatal("it has an end that is not on disk")
				}
				last, e, ok := l.Promised()
				if !ok || len(last) != 2 || e.State != was.State || e.ErrorType != was.ErrorType || !e.Ended.Equal(was.Ended) {
					t.Fatalf("%v %v %+v, want %+v", ok, last, e, was)
				}
				if err := l.End(append(closing(l), last...), e); full != (err != nil) {
					t.Fatal(err)
				}
				want(t, visible(t, l, 1), told...)
				_ = s.Close()
			}
			s = open(t, dir, nil)
			if l, err = s.Get(run); err != nil {
				t.Fatal(err)
			}
			if e, ended := l.Ended(); !ended || e.ErrorType != events.ErrStorage {
				t.Fatalf("%v %+v", ended, e)
			}
			want(t, visible(t, l, 1), told...)
		})
	}
}

// What of the end had room is not told twice.
func TestAPromiseIsNotToldTwice(t *testing.T) {
	f, dir := newFaults(), t.TempDir()
	closing := func(*journal.Log) []events.Data {
		return []events.Data{events.Message{Content: strings.Repeat("x", 2<<20), MessageID: "m", Partial: true}}
	}
	s := open(t, dir, &journal.Options{FS: f, Closing: closing})
	l := create(t, s, run)
	say(t, l, "a")
	await(t, l, 1)
	given := 0 // pieces of the reserve; with the last one all but the end itself has room
	f.set(func(op, name string, n int) (int, error) {
		switch {
		case op == "truncate" && strings.HasSuffix(name, "/reserve"):
			given++
		case op == "write" && strings.HasSuffix(name, ".jsonl") && given < 16:
			return 0, syscall.ENOSPC
		case op == "write" && strings.HasSuffix(name, ".jsonl"):
			return max(n-10, 0), syscall.ENOSPC
		}
		return n, nil
	})
	var storage *journal.StorageError
	if err := l.End([]events.Data{events.End{State: events.Completed}}, journal.RunEnd{State: events.Completed}); !errors.As(err, &storage) {
		t.Fatal(err)
	}
	told := visible(t, l, 0)
	_ = s.Close()
	f.set(nil)
	s = open(t, dir, nil)
	l, err := s.Get(run)
	if err != nil {
		t.Fatal(err)
	}
	want(t, visible(t, l, 0), told[:3]...) // what was open is closed, and the error is there
	last, e, ok := l.Promised()
	if !ok || len(last) != 1 || last[0].EventType() != events.TypeEnd {
		t.Fatalf("%v %v", ok, last)
	}
	if err := l.End(last, e); err != nil {
		t.Fatal(err)
	}
	want(t, visible(t, l, 0), told...)
}

// roomForTheList is a full disk whose last block of runs.jsonl has room.
func roomForTheList(d *fullDisk) func(op, name string, n int) (int, error) {
	return func(op, name string, n int) (int, error) {
		if op == "write" && strings.HasSuffix(name, "/runs.jsonl") {
			return n, nil
		}
		return d.hook(op, name, n)
	}
}
