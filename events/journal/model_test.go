package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"innerd/events"
	"innerd/events/journal"
	"innerd/test/mutate"
)

// model is a log as a slice, beside the real one.
type model struct {
	t     *testing.T
	dir   string
	opt   *journal.Options
	s     *journal.Store
	l     *journal.Log
	all   []string // what was appended, as short gives it
	types []events.Type
	ended bool
	curs  []*modelCursor
}

type modelCursor struct {
	c    *journal.Cursor
	pos  int // events given or passed
	only events.Type
}

func (m *modelCursor) wants(t events.Type) bool { return m.only == "" || m.only == t }

func (m *model) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) add(d events.Data) {
	m.types = append(m.types, d.EventType())
	m.all = append(m.all, short(events.Event{ID: int64(len(m.all) + 1), Data: d}))
}

func (m *model) Append(t *rapid.T) {
	if m.ended {
		t.Skip()
	}
	for range rapid.IntRange(1, 40).Draw(t, "n") {
		var d events.Data
		switch rapid.IntRange(0, 4).Draw(t, "type") {
		case 0:
			d = events.ToolUpdate{ID: "1", Output: strings.Repeat("o", rapid.IntRange(0, 3000).Draw(t, "len"))}
		case 1:
			d = events.Unknown{Type: "odd.type", Raw: []byte(`{"x":1}`)}
		default:
			d = events.MessageDelta{Delta: rapid.StringN(0, 50, -1).Draw(t, "text"), MessageID: "m"}
		}
		if md, ok := d.(events.MessageDelta); ok {
			md.Delta = strings.ToValidUTF8(md.Delta, "\ufffd")
			d = md
		}
		id, err := m.l.Append(d)
		m.check(err)
		m.add(d)
		if id != int64(len(m.all)) {
			t.Fatalf("id %d, want %d", id, len(m.all))
		}
	}
	await(m.t, m.l, int64(len(m.all)))
}

func (m *model) End(t *rapid.T) {
	if m.ended || rapid.IntRange(0, 9).Draw(t, "really") > 0 {
		t.Skip()
	}
	d := []events.Data{events.Usage{}, events.End{State: events.Completed}}
	m.check(m.l.End(d, journal.RunEnd{State: events.Completed}))
	m.ended = true
	m.add(d[0])
	m.add(d[1])
}

func (m *model) Follow(t *rapid.T) {
	after := rapid.IntRange(0, len(m.all)+3).Draw(t, "after")
	mc := &modelCursor{pos: after, only: rapid.SampledFrom([]events.Type{"", "", events.TypeMessageDelta, "odd.type"}).Draw(t, "only")}
	filter := mc.wants
	if mc.only == "" {
		filter = nil
	}
	c, err := m.l.Follow(int64(after), filter)
	var gone *journal.GoneError
	if after > len(m.all) {
		if !errors.As(err, &gone) || gone.Latest != int64(len(m.all)) || gone.Oldest != 1 {
			t.Fatalf("past the end: %v", err)
		}
		return
	}
	m.check(err)
	mc.c = c
	m.curs = append(m.curs, mc)
}

func (m *model) Next(t *rapid.T) {
	if len(m.curs) == 0 {
		t.Skip()
	}
	i := rapid.IntRange(0, len(m.curs)-1).Draw(t, "cursor")
	mc := m.curs[i]
	var want []string
	for k := mc.pos; k < len(m.all); k++ {
		if mc.wants(m.types[k]) {
			want = append(want, m.all[k])
		}
	}
	ctx, cancel := context.WithCancel(m.t.Context())
	if len(want) == 0 {
		cancel()
	}
	defer cancel()
	b, err := mc.c.Next(ctx)
	switch {
	case len(want) == 0 && m.ended:
		if !errors.Is(err, io.EOF) {
			t.Fatalf("at the end: %v", err)
		}
		mc.pos = len(m.all)
		return
	case len(want) == 0:
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("nothing there: %v", err)
		}
		return
	}
	m.check(err)
	var got []string
	for line := range b.Lines() {
		e, err := events.ParseLine(bytes.Clone(line))
		m.check(err)
		got = append(got, short(e))
	}
	if b.Len() != len(got) || len(got) == 0 || len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
		t.Fatalf("got %q, want %q", got, want)
	}
	mc.pos = int(b.Last())
}

func (m *model) Close(t *rapid.T) {
	if len(m.curs) == 0 {
		t.Skip()
	}
	i := rapid.IntRange(0, len(m.curs)-1).Draw(t, "cursor")
	m.curs[i].c.Close()
	m.curs = slices.Delete(m.curs, i, i+1)
}

// Reopen closes the store, leaves some bytes behind, as a crash does, and
// opens it again.
func (m *model) Reopen(t *rapid.T) {
	for _, mc := range m.curs {
		mc.c.Close()
	}
	m.curs = nil
	m.check(m.s.Close())
	if !m.ended {
		segs, _ := filepath.Glob(filepath.Join(m.dir, "runs", run, "*.jsonl"))
		junk := rapid.SampledFrom([]string{"", "{", `{"id":`, "\x00\x00\n\x00"}).Draw(t, "junk")
		name := segs[len(segs)-1]
		change(m.t, name, func(b []byte) []byte { return append(b, junk...) })
	}
	if rapid.Bool().Draw(t, "lose the indexes") {
		idx, _ := filepath.Glob(filepath.Join(m.dir, "runs", run, "*.idx"))
		for _, name := range idx {
			m.check(os.Remove(name))
		}
	}
	m.open()
}

func (m *model) open() {
	var err error
	m.s, err = journal.Open(m.dir, m.opt)
	m.check(err)
	m.l, err = m.s.Get(run)
	m.check(err)
}

// Check compares everything that is visible.
func (m *model) Check(t *rapid.T) {
	if m.l.Last() != int64(len(m.all)) {
		t.Fatalf("last %d, want %d", m.l.Last(), len(m.all))
	}
	from := rapid.IntRange(0, len(m.all)).Draw(t, "from")
	if got := visible(m.t, m.l, int64(from)); !slices.Equal(got, m.all[from:]) {
		t.Fatalf("from %d: got %q, want %q", from, got, m.all[from:])
	}
}

// TestModel plays random histories of a log against a slice. The memory is so
// small that readers fall behind it.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		m := &model{t: t, dir: dir, opt: &journal.Options{
			Fsync: journal.FsyncNone, Logger: quiet, MemoryBytes: 8 << 10, SegmentBytes: 30 << 10, UnwrittenBytes: 2 << 10,
		}}
		s, err := journal.Open(dir, m.opt)
		m.check(err)
		create(t, s, run)
		m.check(s.Close())
		m.open()
		defer func() {
			for _, mc := range m.curs {
				mc.c.Close()
			}
			_ = m.s.Close()
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"append": m.Append, "end": m.End, "follow": m.Follow, "next": m.Next, "close": m.Close, "reopen": m.Reopen, "": m.Check,
		})
	})
}

// FuzzRecover puts any bytes in the place of a run's files. The run can be
// read from its first id to its last without a hole, goes on, and ends.
func FuzzRecover(f *testing.F) {
	line := func(id int) string {
		return fmt.Sprintf(`{"id":%d,"ts":1,"type":"assistant.message_delta","data":{"delta":"x","message_id":"m"}}`+"\n", id)
	}
	f.Add([]byte(line(1)+line(2)+line(3)), []byte{}, false)
	f.Add([]byte(line(1)+"junk\n"+line(3)), []byte("idx"), true)
	f.Add([]byte(line(1)+line(1)+line(3)+"{"), make([]byte, 32), false)
	f.Add([]byte("{\"id\":9999999999,\"type\":\"x\"}\n"+strings.Repeat("\x00", 200)+line(5)), []byte{}, true)
	for bad := range mutate.Bytes([]byte(line(1)+line(2)+line(3)+line(4)+line(5)), 30) {
		f.Add(bad, []byte{}, len(bad)%2 == 0)
	}
	const kept = "../../test/testdata/state-v1/runs/*/000000000001."
	indexes := mutate.Files(f, kept+"idx", 1)
	for i, segment := range mutate.Files(f, kept+"jsonl", 1) {
		index := indexes[i%len(indexes)] // some have another's
		f.Add(segment, index, false)
		for bad := range mutate.Bytes(segment, 4) {
			f.Add(bad, index, len(bad)%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, segment, index []byte, ended bool) {
		dir := t.TempDir()
		fast := newFaults()
		fast.set(func(op, name string, n int) (int, error) {
			if filepath.Base(name) == "reserve" || filepath.Base(name) == "stock" {
				return 0, os.ErrPermission // 1 MiB each time
			}
			return n, nil
		})
		opt := &journal.Options{FS: fast, Fsync: journal.FsyncNone, Logger: quiet}
		s := open(t, dir, opt)
		l := create(t, s, run)
		if ended {
			say(t, l, "a", "b")
			end(t, l)
		}
		_ = s.Close()
		base := filepath.Join(dir, "runs", run, "000000000001.")
		if os.WriteFile(base+"jsonl", segment, 0o600) != nil || os.WriteFile(base+"idx", index, 0o600) != nil {
			t.Fatal("not written")
		}
		s = open(t, dir, opt)
		l, err := s.Get(run)
		if err != nil {
			t.Fatal(err)
		}
		before := ids(t, l)
		if _, over := l.Ended(); !over {
			say(t, l, "next")
			end(t, l)
			if after := ids(t, l); after != before+3 {
				t.Fatalf("%d became %d", before, after)
			}
		} else if ended && before != 4 {
			t.Fatalf("%d events of 4", before)
		}
		last := ids(t, l)
		_ = s.Close()
		s = open(t, dir, opt)
		if l, err = s.Get(run); err != nil || ids(t, l) != last {
			t.Fatal("another length", err)
		}
		_ = s.Close()
	})
}

// ids checks that the ids of a log have no holes, and counts them.
func ids(t *testing.T, l *journal.Log) int64 {
	t.Helper()
	n := int64(0)
	for e, err := range l.Snapshot(0, nil) {
		n++
		if err != nil || e.ID != n {
			t.Fatalf("event %d: id %d, %v", n, e.ID, err)
		}
	}
	if n != l.Last() {
		t.Fatalf("%d events, last %d", n, l.Last())
	}
	return n
}

// TestMutations changes the files of an ended run as failing disks do. Every id
// is there, with the event that it had or as damaged, never with another.
func TestMutations(t *testing.T) {
	fast := newFaults()
	opt := &journal.Options{FS: fast, Fsync: journal.FsyncNone, Logger: quiet, SegmentBytes: 3000}
	dir := t.TempDir()
	s := open(t, dir, opt)
	l := create(t, s, run)
	for i := range 60 {
		say(t, l, strings.Repeat(fmt.Sprint(i), 1+i%20))
		await(t, l, int64(i+1))
	}
	end(t, l)
	good := visible(t, l, 0)
	_ = s.Close()
	segs, _ := filepath.Glob(filepath.Join(dir, "runs", run, "*.jsonl"))
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(segs).Draw(rt, "segment")
		data, _ := os.ReadFile(name)
		bad := bytes.Clone(data)
		at := rapid.IntRange(0, len(bad)-1).Draw(rt, "at")
		n := min(rapid.IntRange(1, 600).Draw(rt, "n"), len(bad)-at)
		how := rapid.SampledFrom([]string{"flip", "flips", "zeros", "stale", "cut", "insert", "remove"}).Draw(rt, "how")
		switch how {
		case "flip":
			bad[at] ^= byte(rapid.IntRange(1, 255).Draw(rt, "by"))
		case "flips":
			bad[at] ^= 1
			bad[at+min(n, 3)-1] ^= 2
		case "zeros":
			clear(bad[at : at+n])
		case "stale": // bytes of another place
			copy(bad[at:at+n], data[rapid.IntRange(0, len(data)-n).Draw(rt, "from"):])
		case "cut":
			bad = bad[:at]
		case "insert":
			bad = slices.Insert(bad, at, data[:n]...)
		case "remove":
			bad = slices.Delete(bad, at, at+n)
		}
		change(t, name, func([]byte) []byte { return bad })
		defer change(t, name, func([]byte) []byte { return data })
		s := open(t, dir, opt)
		defer s.Close()
		l, err := s.Get(run)
		if err != nil {
			rt.Fatal(err)
		}
		got := visible(t, l, 0)
		if len(got) != len(good) {
			rt.Fatalf("%d events of %d", len(got), len(good))
		}
		if how == "stale" || how == "insert" || how == "remove" {
			return // more than a checksum of the whole block can tell apart
		}
		for i := range got {
			if got[i] != good[i] && got[i] != fmt.Sprintf("%d [log.damaged]", i+1) {
				rt.Fatalf("%q became %q", good[i], got[i])
			}
		}
	})
}
