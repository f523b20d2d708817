package runs_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/events"
	"innerd/events/journal"
	"innerd/runs"
)

// fullDisk takes nothing more for the events of runs, once it is full.
type fullDisk struct {
	journal.FS
	full atomic.Bool
}

type fullFile struct {
	journal.File
	disk *fullDisk
}

func (d *fullDisk) OpenFile(name string, flag int, perm fs.FileMode) (journal.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.Contains(name, "/runs/") {
		return f, err
	}
	return fullFile{f, d}, nil
}

func (f fullFile) WriteAt(p []byte, off int64) (int, error) {
	if f.disk.full.Load() {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, off)
}

// What readers were told of the end of a run is what they are told after a kill,
// also where a message was open that is longer than all that is kept for ends.
func TestAnEndThatWasToldStays(t *testing.T) {
	dir, disk := t.TempDir(), &fullDisk{FS: journal.OS()}
	s, err := journal.Open(dir, &journal.Options{FS: disk, Closing: runs.Closing, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Create(journal.RunMeta{ID: "run-0001", Backend: "simulate"})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []events.Data{
		events.TaskID{TaskID: "run-0001"},
		events.ToolCall{ID: "tool", Name: "shell"},
		events.MessageDelta{MessageID: "m", Delta: strings.Repeat("x", 1<<20)},
		events.MessageDelta{MessageID: "m", Delta: strings.Repeat("y", 1<<20)},
	} {
		if _, err := l.Append(d); err != nil {
			t.Fatal(err)
		}
	}
	for l.Last() < 4 { // they are written by another goroutine
		runtime.Gosched()
	}
	disk.full.Store(true)
	var storage *journal.StorageError
	if err := l.End([]events.Data{events.End{State: events.Completed}}, journal.RunEnd{State: events.Completed}); !errors.As(err, &storage) {
		t.Fatal(err)
	}
	told, ended := allOf(t, l)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(w *world) { w.dir = dir })
	if l, err = w.store.Get("run-0001"); err != nil {
		t.Fatal(err)
	}
	again, endedAgain := allOf(t, l)
	if diff := cmp.Diff(told, again); diff != "" || len(told) != 8 {
		t.Errorf("%d events: %.2000s", len(told), diff)
	}
	if !ended.Ended.Equal(endedAgain.Ended) || ended.ErrorType != endedAgain.ErrorType || ended.LastID != endedAgain.LastID {
		t.Errorf("%+v, and after a restart %+v", ended, endedAgain)
	}
}

// A run whose first event found no room says its id first all the same, now and
// after a restart: who began it knows it by nothing else.
func TestAnEndWithoutABeginningSaysTheID(t *testing.T) {
	dir, disk := t.TempDir(), &fullDisk{FS: journal.OS()}
	s, err := journal.Open(dir, &journal.Options{FS: disk, Closing: runs.Closing, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Create(journal.RunMeta{ID: "run-0001", ContextID: "chat", Backend: "simulate"})
	if err != nil {
		t.Fatal(err)
	}
	disk.full.Store(true)
	if _, err := l.Append(events.TaskID{TaskID: "run-0001", ContextID: "chat", Backend: "simulate"}); err != nil {
		t.Fatal(err)
	}
	var storage *journal.StorageError
	if err := l.End([]events.Data{events.End{State: events.Completed}}, journal.RunEnd{State: events.Completed}); !errors.As(err, &storage) {
		t.Fatal(err)
	}
	told, _ := allOf(t, l)
	want := `{"id":1,"type":"session.task_id","data":{"task_id":"run-0001","context_id":"chat","backend":"simulate"}}`
	if len(told) != 3 || told[0] != want {
		t.Errorf("%q", told)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(w *world) { w.dir = dir })
	if l, err = w.store.Get("run-0001"); err != nil {
		t.Fatal(err)
	}
	again, _ := allOf(t, l)
	if diff := cmp.Diff(told, again); diff != "" {
		t.Error(diff)
	}
}

// allOf is what a log holds, without the times.
func allOf(t *testing.T, l *journal.Log) ([]string, journal.RunEnd) {
	t.Helper()
	var all []string
	for e, err := range l.Snapshot(0, nil) {
		if err != nil {
			t.Fatal(err)
		}
		line, err := events.AppendLine(nil, e.ID, 0, e.Data)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(line))
	}
	end, ok := l.Ended()
	if !ok {
		t.Fatal("it has no end")
	}
	return all, end
}
