package journal_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"innerd/events/journal"
)

const run = "run-0001"

func segment(dir string) string {
	return filepath.Join(dir, "runs", run, "000000000001.jsonl")
}

func change(t *testing.T, name string, f func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, f(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func unfinished(t *testing.T, s *journal.Store) *journal.Log {
	t.Helper()
	found := s.Unfinished()
	if len(found) != 1 {
		t.Fatalf("%d unfinished runs", len(found))
	}
	return found[0]
}

func TestTornLastLine(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	say(t, create(t, s, run), "a", "b")
	_ = s.Close()
	change(t, segment(dir), func(b []byte) []byte { return append(b, `{"id":3,"ts":1,"type":"assistant.mess`...) })
	for range 2 { // recovery is idempotent
		s = open(t, dir, nil)
		want(t, visible(t, unfinished(t, s), 0), "1 a", "2 b")
		_ = s.Close()
	}
	s = open(t, dir, nil)
	l := unfinished(t, s)
	say(t, l, "c")
	end(t, l)
	want(t, visible(t, l, 0), "1 a", "2 b", "3 c", "4 [assistant.usage]", "5 [session.end]")
}

func TestBadTailIsCut(t *testing.T) {
	for name, tail := range map[string]string{
		"zeros": strings.Repeat("\x00", 5000), "not JSON": "{\"id\":3,\n{}\n", "another id": "{\"id\":9,\"ts\":1,\"type\":\"x\",\"data\":{}}\n",
		"text": "hello\nworld\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, nil)
			say(t, create(t, s, run), "a", "b")
			_ = s.Close()
			before, _ := os.ReadFile(segment(dir))
			change(t, segment(dir), func(b []byte) []byte { return append(b, tail...) })
			s = open(t, dir, nil)
			want(t, visible(t, unfinished(t, s), 0), "1 a", "2 b")
			after, _ := os.ReadFile(segment(dir))
			if !bytes.Equal(before, after) {
				t.Fatalf("%q", after)
			}
		})
	}
}

func TestBadLineBeforeGoodOnesIsDamaged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	say(t, create(t, s, run), "a", "b", "c", "d")
	_ = s.Close()
	change(t, segment(dir), func(b []byte) []byte { return bytes.Replace(b, []byte(`"delta":"b"`), []byte(`"delta"#"b"`), 1) })
	s = open(t, dir, nil)
	l := unfinished(t, s)
	want(t, visible(t, l, 0), "1 a", "2 [log.damaged]", "3 c", "4 d")
	say(t, l, "e")
	end(t, l)
	_ = s.Close()
	s = open(t, dir, nil)
	l, _ = s.Get(run)
	want(t, visible(t, l, 0), "1 a", "2 [log.damaged]", "3 c", "4 d", "5 e", "6 [assistant.usage]", "7 [session.end]")
	if n := s.Stats().Damaged; n != 1 {
		t.Fatalf("%d damaged", n)
	}
}

// TestFlippedByte changes every byte of a short journal in turn, by a bit and
// wholly: one id is damaged, the others are as they were.
func TestFlippedByte(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	l := create(t, s, run)
	say(t, l, "a", "b", "c")
	end(t, l)
	_ = s.Close()
	good := []string{"1 a", "2 b", "3 c", "4 [assistant.usage]", "5 [session.end]"}
	data, _ := os.ReadFile(segment(dir))
	for i := range data {
		for _, flip := range []byte{1, 0xff} {
			change(t, segment(dir), func([]byte) []byte {
				bad := bytes.Clone(data)
				bad[i] ^= flip
				return bad
			})
			s = open(t, dir, &journal.Options{Fsync: journal.FsyncNone})
			l, err := s.Get(run)
			if err != nil {
				t.Fatal(err)
			}
			id := bytes.Count(data[:i], []byte("\n"))
			texts := append([]string(nil), good...)
			texts[id] = fmt.Sprintf("%d [log.damaged]", id+1)
			want(t, visible(t, l, 0), texts...)
			if n := s.Stats().Damaged; n != 1 {
				t.Fatalf("%d damaged", n)
			}
			_ = s.Close()
		}
	}
}

func TestWreckedBlock(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	l := create(t, s, run)
	say(t, l, "a", "b", "c")
	end(t, l)
	_ = s.Close()
	// It shows which line is bad: the others are served.
	good, _ := os.ReadFile(segment(dir))
	change(t, segment(dir), func(b []byte) []byte { return bytes.Replace(b, []byte(`"delta":"b"`), make([]byte, 11), 1) })
	s = open(t, dir, nil)
	l, _ = s.Get(run)
	want(t, visible(t, l, 0), "1 a", "2 [log.damaged]", "3 c", "4 [assistant.usage]", "5 [session.end]")
	_ = s.Close()
	// It does not show: none is.
	change(t, segment(dir), func([]byte) []byte {
		b := bytes.Replace(good, []byte(`"delta":"b"`), []byte(`"delta":"x"`), 1)
		return bytes.Replace(b, []byte(`"delta":"c"`), []byte(`"delta":"y"`), 1)
	})
	s = open(t, dir, nil)
	l, _ = s.Get(run)
	for _, e := range visible(t, l, 0) {
		if !strings.HasSuffix(e, "[log.damaged]") {
			t.Fatal(e)
		}
	}
}

func TestMissingFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &journal.Options{SegmentBytes: 200})
	l := create(t, s, run)
	for i := range 20 {
		say(t, l, fmt.Sprint(i))
		await(t, l, int64(i+1))
	}
	end(t, l)
	all := visible(t, l, 0)
	_ = s.Close()
	segs, _ := filepath.Glob(filepath.Join(dir, "runs", run, "*.jsonl"))
	if len(segs) < 5 {
		t.Fatalf("%d segments", len(segs))
	}
	// An index is rebuilt.
	_ = os.Remove(strings.TrimSuffix(segs[1], "jsonl") + "idx")
	_ = os.WriteFile(strings.TrimSuffix(segs[2], "jsonl")+"idx", []byte("nonsense"), 0o600)
	s = open(t, dir, nil)
	l, _ = s.Get(run)
	want(t, visible(t, l, 0), all...)
	_ = s.Close()
	// A segment is not; its ids are damaged.
	_ = os.Remove(segs[1])
	_ = os.Remove(segs[len(segs)-1])
	s = open(t, dir, nil)
	l, _ = s.Get(run)
	got := visible(t, l, 0)
	lost := 0
	for i := range all {
		if got[i] == fmt.Sprintf("%d [log.damaged]", i+1) {
			lost++
		} else if got[i] != all[i] {
			t.Fatal(got[i], all[i])
		}
	}
	if len(got) != len(all) || lost < 2 || lost > 10 {
		t.Fatalf("%d of %d, %d lost", len(got), len(all), lost)
	}
}
