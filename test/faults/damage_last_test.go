//go:build linux

package faults_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/server"
)

// What has no checksum yet is held against nothing but the form of a line. A bit
// that was turned there costs the event that it is in, and one more where two
// lines became one: as damaged, as the disk has it where that is an event too,
// or, in the last line, as none at all. No other event is touched.
func TestFlippedBitInTheLastBlock(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := newRig(t).start()
	var tapes []*server.Tape
	for range pick(12, 120) {
		p := r.Post(t, simulate(`[{"reasoning":"some thought"},{"flood":{"deltas":60,"bytes":30}},{"call":{"tool":"x"}}]`, nil))
		server.Until[events.ToolRequest](p, 1)
		tapes = append(tapes, p)
	}
	r.Kill()
	var all []*flipped
	for i, p := range tapes {
		all = append(all, r.flipped(t, p.TaskID(), i%3 == 0))
	}
	r.start()
	said := map[string][][]byte{}
	ways := map[string]int{}
	var sum ledger.Result
	for _, f := range all {
		got := r.served(t, f.task)
		lines, way := f.left(t, got)
		ways[way]++
		if way == asDamaged {
			said[f.task] = lines
		}
		if end := got[len(got)-1]; ledger.TypeOf(end) != events.TypeEnd || !bytes.Contains(end, []byte(events.ErrAdapterRestarted)) {
			t.Errorf("run %s ended with %s", f.task, end)
		}
		l := ledger.New()
		to := l.Reader("who reads what is left").Whole()
		for i, line := range got {
			to.Add(int64(i)+1, line)
		}
		sum.Add(l.Compare(logOf(append(lines, got[min(len(lines), len(got)):]...)))) // and how it was ended
	}
	if len(said) > 0 {
		r.saidDamaged(t, said)
	}
	t.Logf("of %d events with a turned bit: %v", len(all), ways)
	result(t, fmt.Sprintf("one bit turned in the last block of each of %d open logs: no other event touched (simulate)", len(all)), sum, time.Since(began))
}

// What may become of an event that has no checksum and was changed.
const (
	asDamaged = "said to be damaged"
	asOnDisk  = "served as on the disk"
	asNone    = "taken for half written"
)

// flipped is a run's log in which a bit was turned.
type flipped struct {
	task string
	at   int      // the index of the line that it is in
	was  [][]byte // the lines before
	now  []byte   // all of the log with the bit turned
}

// flipped turns a bit of a run's log, in its last line or anywhere.
func (r *rig) flipped(t testing.TB, task string, last bool) *flipped {
	t.Helper()
	f := &flipped{task: task, was: r.lines(task)}
	from := 0
	if last {
		from = len(bytes.Join(f.was[:len(f.was)-1], []byte{'\n'})) + 1
	}
	f.at = flip(t, r.segment(task), f.was, from, math.MaxInt)
	f.now, _ = os.ReadFile(r.segment(task)) // it was just written
	return f
}

// left gives the lines of those before that must be served, by what became of
// the one with the bit.
func (f *flipped) left(t testing.TB, got [][]byte) (lines [][]byte, way string) {
	t.Helper()
	lines = f.was
	switch here := got[f.at]; {
	case bytes.Equal(here, damaged(f.at+1)):
		lines[f.at] = here
		if next := f.at + 1; next < len(lines) && !bytes.Contains(f.now, append([]byte{'\n'}, lines[next]...)) {
			lines[next] = damaged(next + 1) // the line end between them was turned
		}
		return lines, asDamaged
	case bytes.Contains(f.now, append(bytes.Clone(here), '\n')):
		lines[f.at] = here
		return lines, asOnDisk
	default: // the end of the run is in its place
		if f.at != len(lines)-1 {
			t.Errorf("run %s: a bit of event %d was turned, which is not the last of %d, and in its place stands %s", f.task, f.at+1, len(lines), here)
		}
		return lines[:f.at], asNone
	}
}

// served are a run's events as they are served, whatever stands in them: the
// other readers of these tests take none that the API's document does not allow.
func (r *rig) served(t testing.TB, task string) (lines [][]byte) {
	t.Helper()
	body, err := r.open(t.Context(), r.URL(), task, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	for frame := range bytes.SplitSeq(raw, []byte("\n\n")) {
		if id, line, ok := bytes.Cut(frame, []byte("\ndata: ")); ok {
			if want := fmt.Sprintf("id: %d", len(lines)+1); string(id) != want {
				t.Errorf("run %s: a frame has %q, not %q", task, id, want)
			}
			lines = append(lines, line)
		}
	}
	return lines
}
