package journal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"innerd/events"
	"innerd/events/journal"
)

// TestRunsBeginInReadyFolders: with folders made ahead, a run makes nothing on
// the disk but a name; without one it makes its own.
func TestRunsBeginInReadyFolders(t *testing.T) {
	f := newFaults()
	dir := t.TempDir()
	s := open(t, dir, &journal.Options{FS: f, Logger: quiet})
	s.Tick()
	ready, err := os.ReadDir(filepath.Join(dir, "ready"))
	if err != nil || len(ready) == 0 {
		t.Fatal(ready, err)
	}
	made := 0
	f.set(func(op, _ string, n int) (int, error) {
		if op == "mkdir" {
			made++
		}
		return n, nil
	})
	for i := range len(ready) + 2 {
		l := create(t, s, fmt.Sprintf("run-%04d", i))
		say(t, l, "a", "b")
		end(t, l)
	}
	if made != 2 {
		t.Fatalf("%d runs made %d folders", len(ready)+2, made)
	}
	f.set(nil)
	s.Tick() // an end asks for more
	if again, _ := os.ReadDir(filepath.Join(dir, "ready")); len(again) != len(ready) {
		t.Fatalf("%d folders, then %d", len(ready), len(again))
	}
	_ = s.Close()
	s = open(t, dir, &journal.Options{Logger: quiet})
	for i := range len(ready) + 2 {
		l, err := s.Get(fmt.Sprintf("run-%04d", i))
		if err != nil {
			t.Fatal(err)
		}
		if req, err := l.Request(); err != nil || string(req) != `{"prompt":"hi"}` {
			t.Fatal(string(req), err)
		}
		if got := visible(t, l, 0); len(got) != 4 {
			t.Fatalf("%q", got)
		}
	}
}

// TestReadyFoldersOfAnotherServer: what a server has left behind, or somebody
// has put there, is not what a run begins with.
func TestReadyFoldersOfAnotherServer(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &journal.Options{Logger: quiet})
	s.Tick()
	_ = s.Close()
	left, err := filepath.Glob(filepath.Join(dir, "ready", "*"))
	if err != nil || len(left) == 0 {
		t.Fatal(left, err)
	}
	for _, folder := range left {
		for _, name := range []string{"000000000001.jsonl", "000000000001.idx", "request.json"} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte("{}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s = open(t, dir, &journal.Options{Logger: quiet})
	s.Tick()
	files, err := filepath.Glob(filepath.Join(dir, "ready", "*", "*"))
	if err != nil || len(files) != 2*len(left) {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if info, err := os.Stat(name); err != nil || info.Size() > 0 {
			t.Error(name, info.Size(), err)
		}
	}
	l := create(t, s, "run-clean")
	say(t, l, "a", "b")
	end(t, l)
	if got := visible(t, l, 0); len(got) != 4 {
		t.Fatalf("%q", got)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "runs", "run-clean", "000000000001.jsonl"))
	if err != nil || strings.Count(string(raw), "\n") != 4 {
		t.Fatalf("%v %s", err, raw)
	}
}

// TestReadyFolderOfATakenName: what a deleted run has left does not become a
// part of the next one of its id, and a folder is no reason to fail.
func TestReadyFolderOfATakenName(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &journal.Options{Logger: quiet})
	s.Tick()
	old := filepath.Join(dir, "runs", "run-again")
	if err := os.MkdirAll(filepath.Join(old, "blobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := create(t, s, "run-again")
	say(t, l, "a")
	end(t, l)
	if _, err := os.Stat(filepath.Join(old, "blobs")); !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "ready")); err != nil { // and somebody takes them away
		t.Fatal(err)
	}
	create(t, s, "run-more")
}

// TestNamesAreDurable: before the end of a run is visible, the name of its
// folder is on the device, too; a sync of its files does that only for folders
// that were made under it.
func TestNamesAreDurable(t *testing.T) {
	f := newFaults()
	s := open(t, t.TempDir(), &journal.Options{FS: f, Logger: quiet, Fsync: journal.FsyncEnd})
	s.Tick()
	l := create(t, s, "run-named")
	say(t, l, "a")
	var order []string
	f.set(func(op, name string, n int) (int, error) {
		if op == "syncdir" && filepath.Base(name) == "runs" {
			order = append(order, fmt.Sprintf("named, last seen %d", l.Last()))
		}
		return n, nil
	})
	end(t, l)
	if want := []string{"named, last seen 1"}; !slices.Equal(order, want) {
		t.Fatalf("%q", order)
	}
	// Where it fails that is no reason to end a run.
	f.set(func(op, name string, n int) (int, error) {
		if op == "syncdir" && filepath.Base(name) == "runs" {
			return 0, syscall.EIO
		}
		return n, nil
	})
	l = create(t, s, "run-unnamed")
	say(t, l, "a")
	end(t, l)
	if e, ok := l.Ended(); !ok || e.State != events.Completed || s.Stats().SyncErrors == 0 {
		t.Fatal(e, ok, s.Stats().SyncErrors)
	}
}

// TestFoldersThatCannotBeMade: where that fails at any step, runs begin all the
// same, and it is tried again later.
func TestFoldersThatCannotBeMade(t *testing.T) {
	for k := range 12 {
		f := newFaults()
		dir := t.TempDir()
		s := open(t, dir, &journal.Options{FS: f, Logger: quiet})
		n := 0
		f.set(func(_, name string, b int) (int, error) {
			if strings.Contains(name, "/ready") {
				if n++; n > k {
					return 0, syscall.ENOSPC
				}
			}
			return b, nil
		})
		s.Tick()
		f.set(nil)
		for i := range 3 {
			l := create(t, s, fmt.Sprint("run-after-", i))
			say(t, l, "a")
			end(t, l)
			if got := visible(t, l, 0); len(got) != 3 {
				t.Fatalf("cut off at %d: %q", k, got)
			}
		}
		_ = s.Close()
	}
}

// TestNoFoldersOnAFullDisk: what is given up on a full disk is for the ends of
// runs: no folder takes of it, neither while a run waits for space nor before
// all of it is there again.
func TestNoFoldersOnAFullDisk(t *testing.T) {
	for name, waits := range map[string]bool{"a run waits": true, "none waits": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { noFoldersOnAFullDisk(t, waits) })
		})
	}
}

func noFoldersOnAFullDisk(t *testing.T, waits bool) {
	f := newFaults()
	s := open(t, t.TempDir(), &journal.Options{FS: f, Logger: quiet})
	s.Tick()
	l, other := create(t, s, "run-ends"), create(t, s, "run-waits")
	say(t, l, "a")
	await(t, l, 1)
	full, made := &fullDisk{err: syscall.ENOSPC}, 0
	count := func(hook func(op, name string, n int) (int, error)) {
		f.set(func(op, name string, n int) (int, error) {
			if op == "mkdir" && strings.Contains(name, "/ready/") {
				made++
			}
			return hook(op, name, n)
		})
	}
	count(full.hook)
	if waits {
		say(t, other, "a")
		for len(s.Trouble()) == 0 { // it is written by another goroutine
			runtime.Gosched()
		}
	}
	var storage *journal.StorageError
	if err := l.End([]events.Data{events.End{State: events.Completed}}, journal.RunEnd{State: events.Completed}); !errors.As(err, &storage) {
		t.Fatal(err)
	}
	if !s.Wanted() || made > 0 {
		t.Fatalf("%d folders were made", made)
	}
	count(func(_, _ string, n int) (int, error) { return n, nil })
	end(t, other)
	time.Sleep(time.Minute) // of the bubble: what was given up may be made again
	s.Tick()
	if made != 2 {
		t.Fatalf("%d folders were made when there was room", made)
	}
}

// slowNames is a file system whose first sync of the runs' names takes until
// until is closed.
type slowNames struct {
	journal.FS
	begins, until chan struct{}
	syncs         atomic.Int32
}

func (f *slowNames) SyncDir(name string) error {
	if filepath.Base(name) == "runs" && f.syncs.Add(1) == 1 {
		close(f.begins)
		<-f.until
	}
	return f.FS.SyncDir(name)
}

// TestABeginningWaitsForNoSync: while the names of runs are synced, which can
// take a disk a while, others begin. Those are synced at their own end.
func TestABeginningWaitsForNoSync(t *testing.T) {
	f := &slowNames{FS: journal.OS(), begins: make(chan struct{}), until: make(chan struct{})}
	s := open(t, t.TempDir(), &journal.Options{FS: f, Logger: quiet, Fsync: journal.FsyncEnd})
	s.Tick()
	l := create(t, s, "run-ends")
	say(t, l, "a")
	var both sync.WaitGroup
	both.Go(func() { // ends with the sync
		if err := l.End([]events.Data{events.End{State: events.Completed}}, journal.RunEnd{State: events.Completed}); err != nil {
			t.Error(err)
		}
	})
	<-f.begins
	begun := make(chan error, 1)
	both.Go(func() { // ends with the sync at the latest
		_, err := s.Create(journal.RunMeta{ID: "run-begins"})
		begun <- err
	})
	select {
	case err := <-begun:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute): // the sync lasts until it is let: however long, this separates the two
		t.Error("a run did not begin while names were synced")
	}
	close(f.until)
	if both.Wait(); t.Failed() {
		return
	}
	l, err := s.Get("run-begins")
	if err != nil {
		t.Fatal(err)
	}
	say(t, l, "a")
	end(t, l)
	if n := f.syncs.Load(); n != 2 {
		t.Errorf("%d syncs of names", n)
	}
}
