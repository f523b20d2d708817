package runs_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/backends"
	"innerd/backends/simulate"
	"innerd/events"
	"innerd/events/journal"
	"innerd/runs"
	"innerd/toolbridge"
)

var discard = slog.New(slog.DiscardHandler)

// leave makes a run that its server left open, with these events.
func leave(t interface {
	Helper()
	Fatal(...any)
}, dir string, list ...events.Data,
) {
	t.Helper()
	s, err := journal.Open(dir, &journal.Options{Logger: discard, Fsync: journal.FsyncNone})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Create(journal.RunMeta{ID: "run-0001", Backend: "simulate"})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if _, err := l.Append(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// startIn is a server's start in a directory, as far as its disk lets it.
func startIn(ctx context.Context, t *testing.T, dir string, disk journal.FS) (*journal.Store, error) {
	t.Helper()
	s, err := journal.Open(dir, &journal.Options{FS: disk, Logger: discard, Closing: runs.Closing, Fsync: journal.FsyncNone})
	if err != nil {
		t.Fatal(err)
	}
	m, err := runs.New(runs.Options{
		Store: s, Bridge: toolbridge.New(&toolbridge.Options{Logger: discard}), Dir: t.TempDir(),
		Backends: []backends.Backend{simulate.New(&simulate.Options{StateDir: t.TempDir()})}, OpenServer: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, m.Recover(ctx)
}

func found(t *testing.T, s *journal.Store) *journal.Log {
	t.Helper()
	l, err := s.Get("run-0001")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// mortal is the disk of a server that is killed after so many bytes of a run's
// lines: half of a line stays, and nothing comes after it.
type mortal struct {
	journal.FS
	left atomic.Int64
	dead atomic.Bool
}

type mortalFile struct {
	journal.File
	disk *mortal
	run  bool
}

func (d *mortal) OpenFile(name string, flag int, perm fs.FileMode) (journal.File, error) {
	if d.dead.Load() && flag&os.O_CREATE != 0 {
		return nil, syscall.EIO
	}
	f, err := d.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return mortalFile{f, d, strings.Contains(name, "/runs/") && strings.HasSuffix(name, ".jsonl")}, nil
}

func (d *mortal) alive(do func() error) error {
	if d.dead.Load() {
		return syscall.EIO
	}
	return do()
}

func (d *mortal) Rename(from, to string) error {
	return d.alive(func() error { return d.FS.Rename(from, to) })
}

func (d *mortal) Remove(name string) error {
	return d.alive(func() error { return d.FS.Remove(name) })
}

func (d *mortal) RemoveAll(name string) error {
	return d.alive(func() error { return d.FS.RemoveAll(name) })
}

func (f mortalFile) WriteAt(p []byte, off int64) (int, error) {
	n := len(p)
	if f.run && f.disk.left.Add(-int64(n)) < 0 {
		n = max(0, n+int(f.disk.left.Load()))
		if !f.disk.dead.Swap(true) {
			_, _ = f.File.WriteAt(p[:n], off)
		}
		return 0, syscall.EIO
	}
	if f.disk.dead.Load() {
		return 0, syscall.EIO
	}
	return f.File.WriteAt(p, off)
}

func (f mortalFile) Truncate(size int64) error {
	return f.disk.alive(func() error { return f.File.Truncate(size) })
}

// A start that is killed while it closes a run leaves a part of that. The next
// one adds what is missing, and says nothing twice.
func TestAStartIsKilled(t *testing.T) {
	list := []events.Data{
		events.TaskID{TaskID: "run-0001"},
		events.ToolCall{ID: "tool", Name: "shell"},
		events.ToolRequest{ToolCallID: "host", ToolName: "t"},
		events.FileChange{Path: "a"},
		events.MessageDelta{MessageID: "m", Delta: "half "},
		events.MessageDelta{MessageID: "m", Delta: "said"},
	}
	whole := t.TempDir()
	leave(t, whole, list...)
	s, err := startIn(t.Context(), t, whole, journal.OS())
	if err != nil {
		t.Fatal(err)
	}
	want, end := allOf(t, found(t, s))
	if n := len(want) - len(list); n != 5 || end.ErrorType != events.ErrAdapterRestarted {
		t.Fatalf("%d events close it, %+v", n, end)
	}
	raw, err := os.ReadFile(whole + "/runs/run-0001/000000000001.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	lines := slices.Collect(strings.Lines(string(raw)))[len(list):]
	cut := int64(0)
	for _, line := range lines {
		for _, at := range []int{0, len(line) / 2, len(line) - 1} {
			dir, disk := t.TempDir(), &mortal{FS: journal.OS()}
			leave(t, dir, list...)
			disk.left.Store(cut + int64(at))
			s, _ := startIn(t.Context(), t, dir, disk)
			_ = s.Close()
			if !disk.dead.Load() {
				t.Fatalf("it lives after %d bytes", cut+int64(at))
			}
			for range 2 { // and a third one finds nothing to do
				s, err := startIn(t.Context(), t, dir, journal.OS())
				if err != nil {
					t.Fatal(err)
				}
				got, again := allOf(t, found(t, s))
				if diff := cmp.Diff(want, got); diff != "" || again.State != end.State || again.ErrorType != end.ErrorType || again.LastID != end.LastID {
					t.Errorf("killed after %d bytes: %+v, %s", cut+int64(at), again, diff)
				}
				_ = s.Close()
			}
		}
		cut += int64(len(line))
	}
}

// stopping ends a start while it reads a run's events.
type stopping struct {
	journal.FS
	reads atomic.Int64 // that are let through
	stop  context.CancelFunc
}

type stoppingFile struct {
	journal.File
	disk *stopping
}

func (d *stopping) OpenFile(name string, flag int, perm fs.FileMode) (journal.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.Contains(name, "/runs/") || !strings.HasSuffix(name, ".jsonl") {
		return f, err
	}
	return stoppingFile{f, d}, nil
}

func (f stoppingFile) ReadAt(p []byte, off int64) (int, error) {
	if f.disk.reads.Add(1) == 4 { // the journal's own look at the end is before
		f.disk.stop()
	}
	return f.File.ReadAt(p, off)
}

// A start that is told to stop does, in the midst of a log, and leaves it as it
// was: the next one closes it.
func TestAStartIsStopped(t *testing.T) {
	dir := t.TempDir()
	list := []events.Data{events.TaskID{TaskID: "run-0001"}}
	for range 64 {
		list = append(list, events.MessageDelta{MessageID: "m", Delta: strings.Repeat("x", 100_000)})
	}
	leave(t, dir, list...)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	disk := &stopping{FS: journal.OS(), stop: stop}
	s, err := startIn(ctx, t, dir, disk)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if n := disk.reads.Load(); n > 6 {
		t.Errorf("it read on: %d reads", n)
	}
	l := found(t, s)
	if _, ended := l.Ended(); ended || l.Last() != int64(len(list)) {
		t.Errorf("ended: %v, %d events", ended, l.Last())
	}
	_ = s.Close()
	if s, err = startIn(t.Context(), t, dir, journal.OS()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if got, _ := allOf(t, found(t, s)); len(got) != len(list)+3 {
		t.Errorf("%d events", len(got))
	}
}

// Texts that are long are closed one after another, each whole.
func TestLongTextsAreClosedOneByOne(t *testing.T) {
	dir := t.TempDir()
	s, err := journal.Open(dir, &journal.Options{Logger: discard, Fsync: journal.FsyncNone})
	if err != nil {
		t.Fatal(err)
	}
	piece := strings.Repeat("x", 1<<20)
	for i := range 4 {
		l, err := s.Create(journal.RunMeta{ID: fmt.Sprint("run-000", i), Backend: "simulate"})
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			if _, err := l.Append(events.MessageDelta{MessageID: "m", Delta: piece}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = startIn(t.Context(), t, dir, journal.OS()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for _, info := range s.List() {
		l, err := s.Get(info.ID)
		if err != nil {
			t.Fatal(err)
		}
		said := 0
		for e, err := range l.Snapshot(6, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if m, ok := e.Data.(events.Message); ok {
				said = len(m.Content)
			}
		}
		if info.End == nil || said != 6<<20 {
			t.Errorf("%s: %+v, a message of %d bytes", info.ID, info.End, said)
		}
	}
}
