package ledger_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"innerd/events"
	"innerd/test/ledger"
)

func line(id int, text string) string {
	return fmt.Sprintf(`{"id":%d,"ts":1,"type":"assistant.message_delta","data":{"delta":%q,"message_id":"m"}}`, id, text)
}

func frame(id int, text string) string {
	return fmt.Sprintf("id: %d\ndata: %s\n\n", id, line(id, text))
}

const done = "data: [DONE]\n\n"

// onDisk is a log of two segments with three events.
func onDisk(t *testing.T, tail string) *ledger.Log {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"000000000001.jsonl": line(1, "a") + "\n" + line(2, "b") + "\n",
		"000000000003.jsonl": line(3, "c") + "\n" + tail,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log, err := ledger.Disk(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// Everything that can go wrong between a reader and the log is seen, and told
// apart.
func TestWhatIsWrongIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		whole  bool
		want   ledger.Result
		fault  string
	}{
		"all":               {frame(1, "a") + frame(2, "b") + frame(3, "c") + done, true, ledger.Result{Expected: 3, Delivered: 3}, ""},
		"a part":            {frame(1, "a") + frame(2, "b"), false, ledger.Result{Expected: 2, Delivered: 2}, ""},
		"a heartbeat":       {`data: {"type":"heartbeat","data":{"status":"waiting"}}` + "\n\n" + frame(1, "a"), false, ledger.Result{Expected: 1, Delivered: 1}, ""},
		"half a frame":      {frame(1, "a") + frame(2, "b")[:30], false, ledger.Result{Expected: 1, Delivered: 1}, ""},
		"no blank line":     {frame(1, "a") + strings.TrimSuffix(frame(2, "b"), "\n"), false, ledger.Result{Expected: 1, Delivered: 1}, ""},
		"the rest is lost":  {frame(1, "a") + frame(2, "b"), true, ledger.Result{Expected: 3, Delivered: 2, Lost: 1}, "event 3"},
		"one is lost":       {frame(1, "a") + frame(3, "c"), false, ledger.Result{Expected: 3, Delivered: 2, Lost: 1}, "event 2"},
		"one comes twice":   {frame(1, "a") + frame(1, "a"), false, ledger.Result{Expected: 1, Delivered: 2, Duplicated: 1}, ""},
		"an id used again":  {frame(1, "a") + frame(2, "b") + frame(2, "x"), false, ledger.Result{Expected: 2, Delivered: 3, Duplicated: 1, Changed: 1}, "event 2"},
		"another content":   {frame(1, "a") + frame(2, "B"), false, ledger.Result{Expected: 2, Delivered: 2, Changed: 1}, "event 2"},
		"more than the log": {frame(1, "a") + frame(2, "b") + frame(3, "c") + frame(4, "d"), false, ledger.Result{Expected: 4, Delivered: 4, Lost: 1}, "event 4"},
		"out of order":      {frame(1, "a") + frame(3, "c") + frame(2, "b"), false, ledger.Result{Expected: 3, Delivered: 3}, "event 2 came after 3"},
		"another id inside": {"id: 1\ndata: " + line(2, "b") + "\n\n", false, ledger.Result{}, "the frame of id 1"},
		"an odd line":       {"event: x\n" + frame(1, "a"), false, ledger.Result{}, "no data"},
		"an odd byte":       {frame(1, "\u2028"), false, ledger.Result{Expected: 1, Delivered: 1, Changed: 1}, ""},
		"after the end":     {frame(1, "a") + done + frame(2, "b"), false, ledger.Result{Expected: 1, Delivered: 1}, "after [DONE]"},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledger.New()
			r := l.Reader("the reader")
			if c.whole {
				r.Whole()
			}
			_ = r.Read(strings.NewReader(c.stream)) // another test's
			got := l.Compare(onDisk(t, ""))
			faults := strings.Join(got.Faults, "\n")
			got.Faults = nil
			if got.String() != c.want.String() && c.want.String() != (ledger.Result{}).String() {
				t.Errorf("%v, want %v", got, c.want)
			}
			if (c.fault == "") != (faults == "") && name != "one comes twice" && name != "an odd byte" || !strings.Contains(faults, c.fault) {
				t.Errorf("faults: %s", faults)
			}
		})
	}
}

// A reader of some types misses none of the others, and one that came later
// none of those before.
func TestReadersWhoAskForLess(t *testing.T) {
	l := ledger.New()
	l.Reader("nothing").Whole().Keep(func(typ events.Type) bool { return typ != events.TypeMessageDelta })
	late := l.Reader("late").After(2).Whole()
	if err := late.Read(strings.NewReader(frame(3, "c") + done)); err != nil {
		t.Error(err)
	}
	if got := l.Compare(onDisk(t, "")); !got.OK() || got.Expected != 1 || got.Delivered != 1 {
		t.Errorf("%v %v", got, got.Faults)
	}
	late.Add(2, []byte(line(2, "b")))
	if got := l.Compare(onDisk(t, "")); got.OK() || got.Duplicated != 1 {
		t.Errorf("%v %v", got, got.Faults)
	}
}

// How a stream ended is told.
func TestEnds(t *testing.T) {
	for stream, want := range map[string]error{
		frame(1, "a") + done: nil, frame(1, "a"): ledger.ErrCut, "": ledger.ErrCut,
		frame(1, "a")[:5]: io.ErrUnexpectedEOF, frame(1, "a")[:8]: io.ErrUnexpectedEOF, strings.TrimSuffix(frame(1, "a"), "\n"): io.ErrUnexpectedEOF,
	} {
		if err := ledger.New().Reader("r").Read(strings.NewReader(stream)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", stream, err, want)
		}
	}
	long := frame(1, strings.Repeat("x", 200<<10))
	r := ledger.New().Reader("r")
	if err := r.Read(strings.NewReader(long + done)); err != nil || r.Last() != 1 {
		t.Errorf("%v at %d", err, r.Last())
	}
}

// A log with a torn end, or a hole, says so.
func TestOddLogs(t *testing.T) {
	for tail, want := range map[string]string{"": "", `{"id":4,"ts`: "not whole", line(5, "e") + "\n": "in the place of event 4"} {
		if got := strings.Join(onDisk(t, tail).Faults, "\n"); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%q: %q", tail, got)
		}
	}
	if _, err := ledger.Disk(t.TempDir(), false); err == nil {
		t.Error("a log that is not there")
	}
}
