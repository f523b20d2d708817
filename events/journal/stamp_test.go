package journal_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"innerd/events/journal"
)

// ticks is a clock that stands until it is moved.
type ticks struct{ ms atomic.Int64 }

func (c *ticks) now() time.Time            { return time.UnixMilli(c.ms.Load()) }
func (c *ticks) move(by time.Duration)     { c.ms.Add(by.Milliseconds()) }
func (c *ticks) options() *journal.Options { return &journal.Options{Now: c.now} }

func newTicks() *ticks {
	c := &ticks{}
	c.ms.Store(2_000_000_000_000)
	return c
}

// times are those of the events of a run that has ended.
func times(t *testing.T, l *journal.Log) (ts []int64) {
	t.Helper()
	c, err := l.Follow(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for e, err := range c.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ts = append(ts, e.TS)
	}
	return ts
}

// The last events of a run say when it ended, not when the event before them
// came, be it hours ago.
func TestEndHasItsOwnTime(t *testing.T) {
	for where, dir := range map[string]string{"disk": t.TempDir(), "memory": ""} {
		t.Run(where, func(t *testing.T) {
			clock := newTicks()
			l := create(t, open(t, dir, clock.options()), run)
			say(t, l, "a")
			await(t, l, 1)
			begin := clock.ms.Load()
			clock.move(3 * time.Hour)
			end(t, l)
			later := clock.ms.Load()
			if ts := times(t, l); len(ts) != 3 || ts[0] != begin || ts[1] != later || ts[2] != later {
				t.Errorf("begun at %d, ended at %d, the events say %d", begin, later, ts)
			}
		})
	}
}

// What waits for room on a full disk has the time at which it came.
func TestEventsOfAFullDiskHaveTheirOwnTime(t *testing.T) {
	f, clock := newFaults(), newTicks()
	opt := clock.options()
	opt.FS, opt.Fsync = f, journal.FsyncNone
	l := create(t, open(t, t.TempDir(), opt), run)
	say(t, l, "a")
	await(t, l, 1)
	begin := clock.ms.Load()
	f.set((&fullDisk{room: 40, gives: 300, err: syscall.ENOSPC}).hook)
	say(t, l, strings.Repeat("b", 500))
	await(t, l, 2) // it says that the disk is full
	for range 2 {
		clock.move(time.Hour)
		say(t, l, "c")
	}
	f.set(nil)
	end(t, l)
	hour := time.Hour.Milliseconds()
	want := []int64{begin, begin, begin, begin + hour, begin + 2*hour, begin + 2*hour, begin + 2*hour}
	if ts := times(t, l); !slices.Equal(ts, want) {
		t.Errorf("the events say %d, want %d", ts, want)
	}
}
