package journal_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"innerd/events"
	"innerd/events/journal"
)

// How long a log and its request are is known without reading an event: while
// the run is on, when it has ended, and after a start.
func TestBytes(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &journal.Options{SegmentBytes: 4000})
	l := create(t, s, run)
	asked := l.Bytes()
	if asked < 15 || asked > 1000 {
		t.Errorf("%d bytes of nothing but a request", asked)
	}
	for i := range int64(10) {
		say(t, l, strings.Repeat("x", 1000))
		await(t, l, i+1)
	}
	if n := l.Bytes(); n < asked+8000 || n > asked+14000 {
		t.Errorf("%d bytes while it is on", n)
	}
	end(t, l)
	n := l.Bytes()
	if n < asked+10_000 || n > asked+12_000 {
		t.Errorf("%d bytes when it has ended", n)
	}
	_ = s.Close()
	l, err := open(t, dir, nil).Get(run)
	if err != nil {
		t.Fatal(err)
	}
	if again := l.Bytes(); again != n {
		t.Errorf("%d bytes after a start, %d before", again, n)
	}
	if err := os.Remove(filepath.Join(dir, "runs", run, "request.json")); err != nil {
		t.Fatal(err)
	}
	if again := l.Bytes(); again != n {
		t.Errorf("its request is looked at again: %d", again)
	}
	memory := create(t, open(t, "", nil), run)
	say(t, memory, strings.Repeat("x", 10_000))
	if n := memory.Bytes(); n < 10_000 || n > 100_000 {
		t.Errorf("%d bytes in memory", n)
	}
}

// The end of a log is found by bytes, in memory and in files, and is never
// without the last event.
func TestTail(t *testing.T) {
	const each = 10_000
	for name, opt := range map[string]*journal.Options{
		"in memory": {}, "in files": {MemoryBytes: 1}, "in small files": {MemoryBytes: 1, SegmentBytes: 3 * each}, "without a disk": nil,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if opt == nil {
				dir = ""
			}
			s := open(t, dir, opt)
			l := create(t, s, run)
			if after, err := l.Tail(each); err != nil || after != 0 {
				t.Errorf("of nothing: %d, %v", after, err)
			}
			for i := range int64(50) {
				say(t, l, strings.Repeat("x", each))
				await(t, l, i+1)
			}
			check := func() {
				t.Helper()
				last := l.Last()
				for _, most := range []int64{0, 3 * each, 20 * each, 1000 * each} {
					after, err := l.Tail(most)
					// Entries of the index have 64 KiB: one may not fit in whole.
					fits := min(most/each+3, last)
					if n := last - after; err != nil || n < max(1, min(fits-3, last)-64<<10/each-1) || n > fits {
						t.Errorf("%d bytes: %d events of %d, %v", most, n, last, err)
					}
				}
			}
			check()
			end(t, l)
			check()
			if dir == "" {
				return
			}
			_ = s.Close()
			var err error
			if l, err = open(t, dir, nil).Get(run); err != nil {
				t.Fatal(err)
			}
			check()
		})
	}
}

// An end that is long itself keeps none of what stands before it out, also where
// it is read from files.
func TestTailBeforeALongEnd(t *testing.T) {
	const most = 256 << 10
	dir := t.TempDir()
	s := open(t, dir, nil)
	l := create(t, s, run)
	say(t, l, "short")
	output := `"` + strings.Repeat("x", 2*most) + `"`
	err := l.End([]events.Data{events.Usage{}, events.End{State: events.Completed, Output: []byte(output)}}, journal.RunEnd{State: events.Completed})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if l, err = open(t, dir, nil).Get(run); err != nil {
		t.Fatal(err)
	}
	if after, err := l.Tail(most); err != nil || after != 0 {
		t.Errorf("of %d events not the first %d, %v", l.Last(), after, err)
	}
}

// Who has left is not read for, also where nothing of it is wanted.
func TestReadingEndsWithTheContext(t *testing.T) {
	s := open(t, t.TempDir(), &journal.Options{MemoryBytes: 1})
	l := create(t, s, run)
	for i := range int64(30) {
		say(t, l, strings.Repeat("x", 100_000))
		await(t, l, i+1)
	}
	end(t, l)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := 0
	for _, err := range l.Until(ctx, 0, l.Last(), func(events.Type) bool {
		asked++
		cancel(gone)
		return false
	}) {
		if !errors.Is(err, gone) {
			t.Error(err)
		}
		asked = -1
	}
	if asked != -1 {
		t.Error("it reads on")
	}
}
