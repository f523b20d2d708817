package journal_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"innerd/events/journal"
)

// TestTroubleOfAFullDisk: a disk that is full is noticed by what fails, and is
// no trouble any more once it takes something again.
func TestTroubleOfAFullDisk(t *testing.T) {
	f := newFaults()
	s := open(t, t.TempDir(), &journal.Options{FS: f, Fsync: journal.FsyncNone})
	s.Tick()
	if got := s.Trouble(); got != nil {
		t.Fatalf("from the start: %q", got)
	}
	disk := &fullDisk{err: syscall.ENOSPC}
	f.set(disk.hook)
	if _, err := s.Create(journal.RunMeta{ID: "run-0001"}); err == nil {
		t.Fatal("a run was begun on a full disk")
	}
	for range 3 {
		if got := s.Trouble(); len(got) != 1 || !strings.Contains(got[0], "full") {
			t.Fatalf("%q", got)
		}
		s.Tick()
	}
	f.set(nil)
	s.Tick()
	if got := s.Trouble(); got != nil {
		t.Errorf("with space back: %q", got)
	}
	create(t, s, "run-0001")
}

// TestTroubleOfARunThatWaits: so is one that a run's lines wait for.
func TestTroubleOfARunThatWaits(t *testing.T) {
	f := newFaults()
	s := open(t, t.TempDir(), &journal.Options{FS: f, Fsync: journal.FsyncNone})
	l := create(t, s, run)
	f.set((&fullDisk{gives: 300, err: syscall.ENOSPC}).hook)
	say(t, l, "a", strings.Repeat("b", 500))
	await(t, l, 2) // the status, from the reserve
	s.Tick()
	if got := s.Trouble(); len(got) != 1 {
		t.Errorf("%q", got)
	}
	f.set(nil)
	await(t, l, 3)
	s.Tick()
	s.Tick()
	if got := s.Trouble(); got != nil {
		t.Errorf("with space back: %q", got)
	}
}

// TestTheStateDirectoryIsGone: that is noticed and said once; what is new is
// kept in memory, what was on ends, and a directory that comes back is used.
func TestTheStateDirectoryIsGone(t *testing.T) {
	var said bytes.Buffer
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir, &journal.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	old := create(t, s, "run-old1")
	say(t, old, "a")
	away := dir + ".away"
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.Tick()
	}
	if got := s.Trouble(); len(got) != 1 || !strings.Contains(got[0], "gone") {
		t.Fatalf("%q", got)
	}
	if n := strings.Count(said.String(), "directory is gone"); n != 1 {
		t.Errorf("said %d times: %s", n, said.String())
	}
	say(t, old, "b")
	end(t, old)
	want(t, visible(t, old, 0), "1 a", "2 b", "3 [assistant.usage]", "4 [session.end]")
	l := create(t, s, "run-new1")
	say(t, l, "c")
	end(t, l)
	want(t, visible(t, l, 0), "1 c", "2 [assistant.usage]", "3 [session.end]")
	if err := s.WriteFile("conversations/x/state.json", []byte("{}")); err != nil {
		t.Error(err)
	}
	if raw, err := s.ReadFile("conversations/x/state.json"); err != nil || string(raw) != "{}" {
		t.Errorf("%q %v", raw, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory was made anew")
	}
	if err := os.Rename(away, dir); err != nil {
		t.Fatal(err)
	}
	s.Tick()
	if got := s.Trouble(); got != nil {
		t.Errorf("back again: %q", got)
	}
	after := create(t, s, "run-new2")
	end(t, after)
	want(t, visible(t, l, 0), "1 c", "2 [assistant.usage]", "3 [session.end]")
	if _, err := os.Stat(filepath.Join(dir, "runs", "run-new2")); err != nil {
		t.Error(err)
	}
}
