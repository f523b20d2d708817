package journal_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"innerd/events"
	"innerd/events/journal"
)

var quiet = slog.New(slog.DiscardHandler)

// crashAt lets k operations of the file layer through, half of a write that is
// the next, and nothing afterwards: what a killed process leaves.
func crashAt(f *faults, k int) {
	n := 0
	f.set(func(_, _ string, b int) (int, error) {
		n++
		switch {
		case n <= k:
			return b, nil
		case n == k+1:
			return b / 2, syscall.EIO
		}
		return 0, syscall.EIO
	})
}

// life runs a server with two runs as far as its disk lets it. It returns what
// readers saw of each.
func life(t *testing.T, s *journal.Store) map[string][]string {
	seen := map[string][]string{}
	for _, id := range []string{"run-first", "run-other"} {
		l, err := s.Create(journal.RunMeta{ID: id})
		if err != nil {
			continue
		}
		for i := range 6 {
			_, _ = l.Append(events.MessageDelta{Delta: fmt.Sprint(i), MessageID: "m"})
			_, _ = l.Append(events.ToolComplete{ID: "1", Result: strings.Repeat("x", 90*i)})
			look(seen, l)
		}
		if id == "run-other" {
			_ = s.Delete("run-first")
			if _, err := s.Get("run-first"); err != nil {
				delete(seen, "run-first")
			}
		}
		err = l.End([]events.Data{events.End{State: events.Completed}}, journal.RunEnd{State: events.Completed})
		if err == nil {
			look(seen, l)
		}
	}
	return seen
}

// look notes what a reader sees now, if the disk still reads.
func look(seen map[string][]string, l *journal.Log) {
	var got []string
	for e, err := range l.Snapshot(0, nil) {
		if err != nil {
			return
		}
		got = append(got, short(e))
	}
	seen[l.ID()] = got
}

// survey closes what is unfinished and gives all that is there.
func survey(t *testing.T, s *journal.Store) map[string][]string {
	t.Helper()
	for _, l := range s.Unfinished() {
		err := l.End([]events.Data{events.NewError(events.ErrAdapterRestarted, ""), events.End{State: events.Failed}},
			journal.RunEnd{State: events.Failed, ErrorType: events.ErrAdapterRestarted})
		if err != nil {
			t.Fatal(err)
		}
	}
	all := map[string][]string{}
	for _, info := range s.List() {
		l, err := s.Get(info.ID)
		if err != nil {
			t.Fatal(err)
		}
		all[info.ID] = visible(t, l, 0)
		if info.End == nil || info.LastID != int64(len(all[info.ID])) {
			t.Fatalf("%+v: %q", info, all[info.ID])
		}
		for i, e := range all[info.ID] {
			if !strings.HasPrefix(e, fmt.Sprintf("%d ", i+1)) || strings.Contains(e, "damaged") {
				t.Fatalf("%s: %q", info.ID, all[info.ID])
			}
		}
		if n := strings.Count(strings.Join(all[info.ID], "|"), "[session.end]"); n != 1 {
			t.Fatalf("%d ends: %q", n, all[info.ID])
		}
	}
	return all
}

func options(f *faults) *journal.Options {
	return &journal.Options{FS: f, Logger: quiet, SegmentBytes: 400, BlobBytes: 300, Fsync: journal.FsyncEnd}
}

// TestCrashAtEveryStep cuts a server off before every operation on its files,
// and its successor at every operation of the recovery. Nothing that a reader
// saw is missing, and a second recovery changes nothing.
func TestCrashAtEveryStep(t *testing.T) {
	t.Run("folders made in time", func(t *testing.T) { crashAtEveryStep(t, false) })
	t.Run("folders made ahead", func(t *testing.T) { crashAtEveryStep(t, true) })
}

func crashAtEveryStep(t *testing.T, ready bool) {
	f := newFaults()
	s := open(t, t.TempDir(), options(f))
	before := 0
	if ready {
		s.Tick()
		before = f.count()
	}
	life(t, s)
	_ = s.Close()
	steps := f.count() - before
	if steps < 50 {
		t.Fatalf("%d steps", steps)
	}
	for k := range steps {
		dir := t.TempDir()
		f := newFaults()
		if !ready {
			crashAt(f, k)
		}
		var seen map[string][]string
		if s, err := journal.Open(dir, options(f)); err == nil && !s.MemoryOnly() {
			if ready {
				s.Tick()
				crashAt(f, k)
			}
			seen = life(t, s)
			_ = s.Close()
		} else if err == nil {
			_ = s.Close()
		}
		for j := 0; ; j += 1 + k%3 { // the recovery is cut off, too
			f := newFaults()
			crashAt(f, j)
			s, err := journal.Open(dir, options(f))
			if err == nil {
				done := f.count() <= j && !s.MemoryOnly()
				_ = s.Close()
				if done {
					break
				}
			} else if !errors.Is(err, syscall.EIO) {
				t.Fatalf("crash at %d, then at %d: %v", k, j, err)
			}
		}
		s := open(t, dir, options(newFaults()))
		all := survey(t, s)
		_ = s.Close()
		for id, want := range seen {
			got := all[id]
			if len(got) < len(want) || strings.Join(got[:len(want)], "|") != strings.Join(want, "|") {
				t.Fatalf("crash at %d: %s: a reader saw %q, there is %q", k, id, want, got)
			}
		}
		s = open(t, dir, options(newFaults()))
		if again := survey(t, s); fmt.Sprint(again) != fmt.Sprint(all) {
			t.Fatalf("crash at %d: a second recovery changed %v to %v", k, all, again)
		}
		_ = s.Close()
	}
}
