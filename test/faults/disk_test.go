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

// endsOnly has a POST's reader get little of a flood.
var endsOnly = map[string]any{"events": []string{"session.task_id", "session.status", "session.error", "session.end"}}

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
	t.Run("simulate", func(t *testing.T) {
		r, d := onDisk(t, "16m")
		r.start()
		p := r.Post(t, simulate(`[{"call":{"tool":"t"}},{"flood":{"deltas":3000,"bytes":200}},{"call":{"tool":"t"}},{"text":"over"}]`, nil))
		step := func(n int) func() {
			return func() {
				r.Result(server.Until[events.ToolRequest](p, n).ToolCallID, map[string]any{"result": "go on"})
			}
		}
		first := server.Until[events.ToolRequest](p, 1)
		fullForAWhile(t, r, d, p, "simulate", func() { r.Result(first.ToolCallID, map[string]any{"result": "go on"}) }, step(2))
	})
	t.Run("claude", func(t *testing.T) {
		r, d := onDisk(t, "16m")
		begin, finish := modelstub.NewGate(), modelstub.NewGate()
		t.Cleanup(begin.Release)
		t.Cleanup(finish.Release)
		r.claude(modelstub.Say(modelstub.Text("It begins here. ").Hold(begin).Add(strings.Repeat("And goes on. ", 2000)).Hold(finish).Add("Over.")))
		r.start()
		p := r.Post(t, body("claude-code", "Talk.", nil))
		server.Until[events.MessageDelta](p, 1)
		fullForAWhile(t, r, d, p, "Claude Code", begin.Release, func() {
			server.Until[events.MessageDelta](p, 1000)
			finish.Release()
		})
	})
}

// fullForAWhile fills the disk under a run, has it go on, frees the disk and
// has the run end.
func fullForAWhile(t *testing.T, r *rig, d *disk, p *server.Tape, agent string, begin, finish func()) {
	began := time.Now()
	task := p.TaskID()
	l := ledger.New()
	first, second := r.attached(l, "attached", task, 0), r.returning(l, "returning", task)
	free := d.fill() // the fault
	begin()
	server.Eventually(t, "the run says that the disk is full", storageStatus(p))
	if status, answer := r.Call(http.MethodGet, "/health", nil); status != http.StatusOK {
		t.Errorf("health: %d %s", status, answer)
	}
	seen := len(p.Events())
	free()
	finish()
	p.Completed()
	first.Whole()
	first.clean()
	second.clean()
	taped(l, "the POST", p).Whole()
	r.late(l, "late", task)
	if n := len(p.Events()); n < seen+1000 {
		t.Errorf("%d events while the disk was full, %d in all", seen, n)
	}
	checkSums(t, p)
	result(t, "disk full for a while ("+agent+")", r.compare(l, task), time.Since(began))
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
	if inside(t) {
		both(t, diskStaysFull)
	}
}

// manyFloods is more than there is space for, on the disk and beside it. A message
// that is open when the run ends closes with all of it, so it must fit into
// what is kept for that.
var manyFloods = act{
	turn: func() *modelstub.Turn {
		var blocks []modelstub.Block
		for range 200 {
			blocks = append(blocks, modelstub.Huge(400_000), modelstub.Thinking("hm")) // else they are one message
		}
		turn := modelstub.Say(blocks...)
		return &turn
	}(),
	sim: `{"repeat":1000,"steps":[{"flood":{"deltas":1000,"bytes":200}}]}`,
}

func diskStaysFull(t *testing.T, c *cast) {
	began := time.Now()
	r, d := onDisk(t, "16m")
	c.found(t, r).start()
	old := c.actor(t, r).does(t, nil, flood(2000, 500)).Completed().TaskID()
	waits := c.actor(t, r).does(t, nil, say("a"), look("x"))
	server.Until[events.ToolRequest](waits, 1)
	p := c.actor(t, r).does(t, endsOnly, think("a thought"), manyFloods)
	task := p.TaskID()
	l, l2 := ledger.New(), ledger.New()
	first, second := r.attached(l, "attached", task, 0), r.returning(l, "returning", task)
	waiting := r.returning(l2, "returning", waits.TaskID())
	first.reaches(30)
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
	r.Kill()
	unasked := c.again(t, r)
	r.endedBy(t, waits.TaskID(), events.ErrAdapterRestarted)
	waiting.clean()
	r.late(l2, "late", waits.TaskID())
	r.late(l, "late", task)
	res := r.compare(l, task)
	res.Add(r.compare(l2, waits.TaskID()))
	free()
	unasked()
	after := c.actor(t, r).does(t, nil, say("as before")).Completed()
	l3 := ledger.New()
	taped(l3, "the POST", after).Whole()
	res.Add(r.compare(l3, after.TaskID()))
	c.result(t, "disk full for good, by what takes all that becomes free; server killed", res, began)
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
