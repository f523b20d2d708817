//go:build linux

package faults_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/server"
)

// told has a run's host answer its nth call.
func told(r *rig, p *server.Tape, n int) {
	r.Result(server.Until[events.ToolRequest](p, n).ToolCallID, map[string]any{"result": "go on"})
}

// A server that is told to stop while the disk is full, and stays so, stops; the
// run whose events wait for space ends, and is the same for all afterwards.
func TestStopOnAFullDisk(t *testing.T) {
	if inside(t) {
		both(t, stopOnAFullDisk)
	}
}

func stopOnAFullDisk(t *testing.T, c *cast) {
	began := time.Now()
	r, d := onDisk(t, "16m")
	c.found(t, r).start()
	p := c.actor(t, r).does(t, nil, say("It begins. "), look("x"), flood(3000, 200), look("y"))
	task := p.TaskID()
	server.Until[events.ToolRequest](p, 1)
	l := ledger.New()
	first, second := r.attached(l, "attached", task, 0), r.returning(l, "returning", task)
	free, freeToo := d.fill(), d.hog() // one until it is full, one from then on
	told(r, p, 1)
	// The run itself may have no room to say so: what the reserve gives up anybody may take.
	server.Eventually(t, "the server says that the disk is full", func() bool { return r.logged("storage takes no more", task) })
	stopping := time.Now()
	r.Stop()                                              // the fault
	if took := time.Since(stopping); took > time.Minute { // --stop-timeout and a little; a write waits for space for ever
		t.Errorf("the server took %v to stop", took)
	}
	if left := r.Marked(); len(left) > 0 {
		t.Errorf("the server has stopped, and what it started is there: %s", server.Describe(left))
	}
	unasked := c.again(t, r)
	if f, end := p.Whole().Failure(), p.End(); f == nil || end.State != events.Failed || f.ErrorType != events.ErrShutdown && f.ErrorType != events.ErrStorage {
		t.Errorf("the run ended with %+v, %+v", f, end)
	}
	t.Logf("stopped in %v: %+v", time.Since(stopping), p.Failure())
	first.Whole()
	first.clean()
	second.clean()
	taped(l, "the POST", p).Whole()
	r.late(l, "late", task)
	res := r.compare(l, task)
	freeToo()
	free()
	unasked()
	c.actor(t, r).does(t, nil, say("as before")).Completed()
	c.result(t, "told to stop while the disk is full", res, began)
}

// guard lays the state directory over itself, so that nothing can be created,
// renamed or opened for writing in it: what a remount does, but for files that
// are open, for which the kernel refuses one. off takes it away.
func (d *disk) guard(dir string) (off func()) {
	d.t.Helper()
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		d.t.Fatalf("bind: %v", err)
	}
	up := true
	off = func() {
		if up {
			up = false
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				d.t.Errorf("unmount: %v", err)
			}
		}
	}
	d.t.Cleanup(off)
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
		d.t.Fatalf("remount: %v", err)
	}
	return off
}

// The state directory becomes read-only while runs are on, as that of a failing
// disk does: those go on and end as ever, since their files are open; a new one
// is refused, until it can be written again. Then all is as it was seen, also
// for the next server, and new runs are taken without a restart.
func TestStateDirectoryBecomesReadOnly(t *testing.T) {
	if inside(t) {
		both(t, becomesReadOnly)
	}
}

func becomesReadOnly(t *testing.T, c *cast) {
	began := time.Now()
	r, d := onDisk(t, "16m")
	c.found(t, r).start()
	a := c.actor(t, r)
	p := a.does(t, nil, say("It begins. "), look("x"), flood(3000, 200), look("y"), say("over"))
	waits := c.actor(t, r).does(t, nil, say("It waits. "), look("x"), say("over"))
	server.Until[events.ToolRequest](p, 1)
	server.Until[events.ToolRequest](waits, 1)
	l, l2 := ledger.New(), ledger.New()
	first, second := r.attached(l, "attached", p.TaskID(), 0), r.returning(l, "returning", p.TaskID())
	off := d.guard(r.State) // the fault
	told(r, p, 1)
	told(r, p, 2)
	p.Completed()
	checkSums(t, p)
	if status, answer := r.as(t, r.Key(), "/message:stream", simulate(`[{"text":"meanwhile"}]`, nil)); status != http.StatusInternalServerError || !strings.Contains(answer, "read-only") {
		t.Errorf("a run that can't be written: status %d: %s", status, answer)
	}
	off()
	told(r, waits, 1)
	waits.Completed()
	a.fine(t, "as before")
	first.Whole()
	first.clean()
	second.clean()
	taped(l, "the POST", p).Whole()
	taped(l2, "the POST", waits).Whole()
	r.Stop()
	r.start()
	r.late(l, "late", p.TaskID())
	r.late(l2, "late", waits.TaskID())
	res := r.compare(l, p.TaskID())
	res.Add(r.compare(l2, waits.TaskID()))
	a.r = r.For(t) // it listens elsewhere
	a.fine(t, "after a restart")
	c.result(t, "state directory read-only for a while", res, began)
}
