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

	"innerd/events"
	"innerd/events/journal"
)

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
