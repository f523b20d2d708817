//go:build linux

package faults_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/modelstub"
	"innerd/test/server"
)

const variedSteps = `[{"reasoning":"some thought"},{"tool":{"name":"shell","input":{"command":"ls"},"output":"a b c"}},{"flood":{"deltas":600,"bytes":30}},{"text":"over"}]`

// segment is the file of a run that has one.
func (r *rig) segment(task string) string { return filepath.Join(r.runDir(task), "000000000001.jsonl") }

// lines are the lines of a run's only segment.
func (r *rig) lines(task string) [][]byte {
	r.T.Helper()
	raw, err := os.ReadFile(r.segment(task))
	if err != nil {
		r.T.Fatal(err)
	}
	return bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n"))
}

// damaged is the line that stands for an event that can't be read any more.
func damaged(id int) []byte {
	return fmt.Appendf(nil, `{"id":%d,"type":%q,"data":{}}`, id, events.TypeDamaged)
}

// saidDamaged fails the test unless the server has said of each run with
// damaged events, in its log, that there are such, and has counted them all.
// They must have been read.
func (r *rig) saidDamaged(t testing.TB, logs map[string][][]byte) {
	t.Helper()
	n := 0
	for task, lines := range logs {
		here := n
		for _, line := range lines {
			if ledger.TypeOf(line) == events.TypeDamaged {
				n++
			}
		}
		if n > here {
			server.Eventually(t, "the server says that the run is damaged", func() bool { return r.logged("can't be read", task) })
		}
	}
	if counted := r.metric("innerd_events_damaged_total"); n == 0 || counted < n {
		t.Errorf("%d events are damaged, %d were counted", n, counted)
	}
}

// metric is the value of a metric without labels.
func (r *rig) metric(name string) (value int) {
	r.T.Helper()
	_, all := r.Call(http.MethodGet, "/metrics", nil)
	for line := range strings.Lines(string(all)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(text, &value); err != nil {
				r.T.Errorf("%q: %v", line, err)
			}
			return value
		}
	}
	r.T.Errorf("there is no metric %s", name)
	return 0
}

// logOf is a log of given lines.
func logOf(lines [][]byte) *ledger.Log {
	log := &ledger.Log{}
	for _, line := range lines {
		log.Add(line)
	}
	return log
}

// flip changes one bit of a run's segment, between two places from its
// beginning, and gives the index of the line that it is in. The line end counts
// as its line's.
func flip(t testing.TB, path string, lines [][]byte, from, to int) int {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := from + rand.N(min(to, len(raw))-from)
	raw[at] ^= 1 << rand.N(8)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, line := range lines {
		if at -= len(line) + 1; at < 0 {
			return i
		}
	}
	t.Fatal("a byte behind the last line")
	return 0
}

// One bit of a log that was turned on the disk is found: its event is said to
// be damaged, under its id, and all the others are served as they were.
func TestJournalWithAFlippedBit(t *testing.T) {
	began := time.Now()
	r := newRig(t)
	r.claude(modelstub.Say(modelstub.Thinking("So much to say."), modelstub.Text("This is what Claude says, and it is here to stay.")).Forever())
	r.start()
	var tasks []string
	for i := range pick(12, 120) {
		b := simulate(variedSteps, nil)
		if i%12 == 0 {
			b = body("claude-code", "Talk.", nil)
		}
		tasks = append(tasks, r.Post(t, b).Completed().TaskID())
	}
	r.Stop()
	want := map[string][][]byte{}
	for _, task := range tasks {
		lines := r.lines(task)
		i := flip(t, r.segment(task), lines, 0, math.MaxInt)
		lines[i] = damaged(i + 1)
		want[task] = lines
	}
	r.start()
	var all ledger.Result
	for _, task := range tasks {
		p := r.Follow(t, task, "0").Whole()
		l := ledger.New()
		taped(l, "who reads the damaged log", p).Whole()
		all.Add(l.Compare(logOf(want[task])))
	}
	r.saidDamaged(t, want)
	result(t, fmt.Sprintf("one bit turned in each of %d logs: found, said, the rest served (simulate, Claude Code)", len(tasks)), all, time.Since(began))
}

// indexed is what of an open run's log has checksums on the disk for certain:
// its last block, of at most so many bytes, gets its own when it is full, or
// the run ends.
const indexed = 60 << 10

// A bit that was turned in the log of a run that a killed server left open is
// found too, but in its last 64 KiB; the run ends, and the rest of it is
// served as it was.
func TestFlippedBitInAnOpenRun(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, c *cast) {
		began := time.Now()
		r := c.rig(t).start()
		var tapes []*server.Tape
		for range c.many(pick(8, 60), pick(2, 8)) {
			tapes = append(tapes, c.opens(t, r))
		}
		r.Kill()
		want := map[string][][]byte{}
		for _, p := range tapes {
			lines := r.lines(p.TaskID())
			i := flip(t, r.segment(p.TaskID()), lines, 0, indexed)
			lines[i] = damaged(i + 1)
			want[p.TaskID()] = lines
		}
		unasked := c.again(t, r)
		var all ledger.Result
		for task, lines := range want {
			all.Add(r.asLeft(t, task, lines))
			r.endedBy(t, task, events.ErrAdapterRestarted)
		}
		r.saidDamaged(t, want)
		unasked()
		c.result(t, fmt.Sprintf("one bit turned in each of %d open logs", len(tapes)), all, began)
	})
}

// asLeft compares a run that was left with what must be left of it, and how it
// was ended behind that.
func (r *rig) asLeft(t testing.TB, task string, lines [][]byte) ledger.Result {
	t.Helper()
	p := r.Follow(t, task, "0").Whole()
	got := p.Lines()
	for _, line := range got[min(len(lines), len(got)):] {
		lines = append(lines, []byte(line))
	}
	l := ledger.New()
	taped(l, "who reads what is left", p).Whole()
	return l.Compare(logOf(lines))
}

// A log that was cut in the middle of a line is served up to there. Of a run
// that had ended the rest is said to be damaged; one that had not is ended.
func TestJournalCutInALine(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, c *cast) {
		began := time.Now()
		r := c.rig(t).start()
		var ended, open []string
		for range c.many(pick(6, 60), pick(1, 8)) {
			ended = append(ended, c.actor(t, r).does(t, nil, think("some thought"), lists(), flood(600, 30), say("over")).Completed().TaskID())
			open = append(open, c.opens(t, r).TaskID())
		}
		r.Kill()
		want := map[string][][]byte{}
		for i, task := range append(ended, open...) {
			want[task] = cutInALine(t, r, task, i < len(ended))
		}
		unasked := c.again(t, r)
		var all ledger.Result
		for task, lines := range want {
			all.Add(r.asLeft(t, task, lines))
		}
		for _, task := range open {
			r.endedBy(t, task, events.ErrAdapterRestarted)
		}
		r.saidDamaged(t, want)
		unasked()
		c.result(t, fmt.Sprintf("%d logs cut in the middle of a line", len(want)), all, began)
	})
}

// cutInALine cuts a run's log and gives the lines that must be served then.
func cutInALine(t testing.TB, r *rig, task string, ended bool) [][]byte {
	t.Helper()
	lines := r.lines(task)
	n := 1 + rand.N(len(lines)-1)
	size := rand.N(len(lines[n])) // of the line that is cut
	for _, line := range lines[:n] {
		size += len(line) + 1
	}
	if err := os.Truncate(r.segment(task), int64(size)); err != nil {
		t.Fatal(err)
	}
	if !ended {
		return lines[:n]
	}
	for id := n; id < len(lines); id++ {
		lines[id] = damaged(id + 1)
	}
	return lines
}
