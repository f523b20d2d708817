//go:build linux

package faults_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// poll is the pause of what looks again and again.
func poll() { time.Sleep(2 * time.Millisecond) }

// onDisk is a rig whose state is on a small file system.
func onDisk(t testing.TB, size string) (*rig, *disk) {
	d := newDisk(t, size)
	r := newRig(t)
	r.State = filepath.Join(d.path, "state")
	return r, d
}

func storageStatus(p *server.Tape) func() bool {
	return func() bool {
		for _, s := range server.Of[events.Status](p) {
			if s.State == events.StateStorage {
				return true
			}
		}
		return false
	}
}

// A full disk stops what readers see, not what the agent does; with space back
// all of it is there.
func TestDiskIsFullForAWhile(t *testing.T) {
	if !inside(t) {
		return
	}
	for name, start := range map[string]func(r *rig) map[string]any{
		"simulate": func(*rig) map[string]any {
			return simulate(`[{"flood":{"deltas":9000,"per_second":3000,"bytes":200}},{"text":"over"}]`, nil)
		},
		"Claude Code": func(r *rig) map[string]any {
			r.claude(modelstub.Say(modelstub.Flood(3000, 200).Every(time.Millisecond)))
			return body("claude-code", "Talk.", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			r, d := onDisk(t, "24m")
			b := start(r)
			r.start()
			p := r.Post(t, b)
			task := p.TaskID()
			l := ledger.New()
			first, second := r.attached(l, "attached", task, 0), r.returning(l, "returning", task)
			server.Until[events.MessageDelta](p, 20)
			free := d.fill()
			server.Eventually(t, "the run says that the disk is full", storageStatus(p))
			if status, answer := r.Call(http.MethodGet, "/health", nil); status != http.StatusOK {
				t.Errorf("health: %d %s", status, answer)
			}
			seen := len(p.Events())
			time.Sleep(200 * time.Millisecond) // the fault takes its time: the agent goes on
			free()
			p.Completed()
			first.Whole()
			first.clean()
			second.clean()
			taped(l, "the POST", p).Whole()
			r.late(l, "late", task)
			if n := len(p.Events()); n <= seen {
				t.Errorf("%d events while the disk was full, %d in all", seen, n)
			}
			checkSums(t, p)
			result(t, "disk full for a while ("+name+")", r.compare(l, task), time.Since(began))
		})
	}
}

// checkSums fails the test where a message is not the sum of its deltas: what
// was lost before it had an id would show here alone.
func checkSums(t testing.TB, p *server.Tape) {
	t.Helper()
	sums := map[string]*strings.Builder{}
	for _, e := range p.Events() {
		switch d := e.Data.(type) {
		case events.MessageDelta:
			if sums[d.MessageID] == nil {
				sums[d.MessageID] = &strings.Builder{}
			}
			sums[d.MessageID].WriteString(d.Delta)
		case events.Message:
			if sums[d.MessageID] == nil || sums[d.MessageID].String() != d.Content {
				t.Errorf("message %s is not the sum of its deltas", d.MessageID)
			}
		}
	}
}

// Where the disk stays full, the run ends and says so, with what was seen
// closed properly; the server goes on, is killed and comes back while the disk
// is full, and works again when it is not.
func TestDiskStaysFull(t *testing.T) {
	if !inside(t) {
		return
	}
	began := time.Now()
	r, d := onDisk(t, "24m")
	r.start()
	old := r.Post(t, simulate(`[{"flood":{"deltas":2000,"bytes":500}}]`, nil)).Completed().TaskID()
	p := r.Post(t, simulate(`[{"reasoning":"a thought"},{"flood":{"deltas":400000,"bytes":200}}]`, nil))
	waits := r.Post(t, simulate(`[{"text":"a"},{"call":{"tool":"t"}}]`, nil))
	server.Until[events.ToolRequest](waits, 1)
	task := p.TaskID()
	l, l2 := ledger.New(), ledger.New()
	first, second := r.attached(l, "attached", task, 0), r.returning(l, "returning", task)
	waiting := r.returning(l2, "returning", waits.TaskID())
	server.Until[events.MessageDelta](p, 20)
	free := d.hog()
	p.Whole()
	if f, end := p.Failure(), p.End(); f == nil || f.ErrorType != events.ErrStorage || end.State != events.Failed {
		t.Errorf("the run ended with %+v, %+v", f, end)
	}
	first.Whole()
	first.clean()
	second.clean()
	if status, _ := r.Call(http.MethodGet, "/tasks/"+old, nil); status != http.StatusNotFound {
		t.Errorf("the run that had ended is there (%d), and the disk is full", status)
	}
	taped(l, "the POST", p).Whole()
	r.killed()
	r.endedBy(t, waits.TaskID(), events.ErrAdapterRestarted)
	waiting.clean()
	r.late(l2, "late", waits.TaskID())
	r.late(l, "late", task)
	res := r.compare(l, task)
	res.Add(r.compare(l2, waits.TaskID()))
	free()
	after := r.Post(t, simulate(`[{"text":"as before"}]`, nil)).Completed()
	l3 := ledger.New()
	taped(l3, "the POST", after).Whole()
	res.Add(r.compare(l3, after.TaskID()))
	result(t, "disk full for good, by what takes all that becomes free; server killed (simulate)", res, time.Since(began))
}

// On a state directory that can't be written the server keeps its logs in
// memory, says so once, and its readers get the same as ever.
func TestStateDirectoryIsReadOnly(t *testing.T) {
	if !inside(t) {
		return
	}
	began := time.Now()
	r, d := onDisk(t, "8m")
	d.readOnly(true)
	sc := r.claude(modelstub.Say(modelstub.Text("I can't write. ").Every(time.Millisecond)))
	r.start()
	var res ledger.Result
	for _, b := range []map[string]any{
		simulate(`[{"reasoning":"a thought"},{"flood":{"deltas":3000}},{"text":"over"}]`, nil),
		body("claude-code", "Can you write?", nil),
	} {
		p := r.Post(t, b)
		l := ledger.New()
		one, other := r.attached(l, "attached", p.TaskID(), 0), r.returning(l, "returning", p.TaskID())
		p.Completed()
		one.Whole()
		one.clean()
		other.clean()
		r.late(l, "late", p.TaskID())
		log := &ledger.Log{} // there is none on disk: the readers are compared with each other
		for _, line := range p.Lines() {
			log.Add([]byte(line))
		}
		res.Add(l.Compare(log))
	}
	if sc.Count() != 1 {
		t.Errorf("the model was asked %d times", sc.Count())
	}
	if n := strings.Count(r.Log(), `"level":"WARN"`) + strings.Count(r.Log(), `"level":"ERROR"`); n != 1 {
		t.Errorf("%d warnings:\n%s", n, r.Log())
	}
	result(t, "read-only state directory (simulate, Claude Code)", res, time.Since(began))
}
