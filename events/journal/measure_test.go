package journal_test

import (
	"bytes"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"innerd/events"
	"innerd/events/journal"
)

func TestStatsCountWhatWasLogged(t *testing.T) {
	for name, dir := range map[string]string{"disk": t.TempDir(), "memory": ""} {
		t.Run(name, func(t *testing.T) {
			s := open(t, dir, &journal.Options{Fsync: journal.FsyncNone})
			l := create(t, s, run)
			say(t, l, "a", "b", "c")
			await(t, l, 3)
			c, err := l.Follow(1, nil)
			if err != nil {
				t.Fatal(err)
			}
			if st := s.Stats(); st.Events[events.TypeMessageDelta] != 3 || st.Lag != 2 || st.Readers != 1 {
				t.Errorf("%+v", st)
			}
			if n, lag := l.Readers(); n != 1 || lag != 2 {
				t.Error(n, lag)
			}
			if _, err := c.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
			end(t, l)
			if _, err := c.Next(t.Context()); err != nil { // it has taken what came before
				t.Fatal(err)
			}
			if _, lag := l.Readers(); lag != 2 {
				t.Error("behind by", lag)
			}
			c.Close()
			st := s.Stats()
			if st.Events[events.TypeMessageDelta] != 3 || st.Events[events.TypeEnd] != 1 || st.Lag != 0 || st.Readers != 0 || st.Unwritten != 0 {
				t.Errorf("%+v", st)
			}
			if (st.Written > 0) != (dir != "") || st.WriteErrors != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestStatsCountTroubleAndLogsNameTheRun(t *testing.T) {
	var log bytes.Buffer
	f := newFaults()
	s := open(t, t.TempDir(), &journal.Options{FS: f, Fsync: journal.FsyncNone, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	l, err := s.Create(journal.RunMeta{ID: run, ConversationID: "conv-1", Backend: "simulate"})
	if err != nil {
		t.Fatal(err)
	}
	say(t, l, "a")
	await(t, l, 1)
	disk := &fullDisk{room: 40, gives: 300, err: syscall.ENOSPC}
	f.set(disk.hook)
	say(t, l, strings.Repeat("b", 500))
	await(t, l, 2)
	if st := s.Stats(); st.WriteErrors == 0 || !st.DiskFull || st.Unwritten == 0 || st.Full != 1 {
		t.Errorf("%+v", st)
	}
	f.set(nil)
	await(t, l, 3)
	s.Tick()
	if st := s.Stats(); st.DiskFull || st.Full != 0 {
		t.Errorf("%+v", st)
	}
	_ = s.Close()
	if !strings.Contains(log.String(), `"run":"`+run+`","conversation":"conv-1","backend":"simulate"`) {
		t.Error(log.String())
	}
}
