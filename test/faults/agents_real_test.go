//go:build linux

package faults_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// A real agent is killed, and is stopped by a signal, while a command of its
// writes to a file. Its run ends as it should; then nothing of the agent is
// left, the file does not grow and the model is asked nothing; and the next
// run goes on.
func TestRealAgentIsKilledAndStopped(t *testing.T) {
	t.Parallel()
	for _, v := range vendors() {
		t.Run(v.backend, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			r := newRig(t)
			stub := modelstub.New()
			t.Cleanup(stub.Close)
			r.Env = append(r.Env, v.path(t))
			a := r.start().actor(t, &v, stub)
			var all ledger.Result
			a.fine(t, "hello")
			all.Add(a.signaled(t, syscall.SIGKILL, events.ErrBackendCrashed, false))
			all.Add(a.signaled(t, syscall.SIGSTOP, events.ErrCanceled, true))
			result(t, "agent killed and stopped in a command ("+v.backend+")", all, time.Since(began))
		})
	}
}

func (a *actor) signaled(t *testing.T, sig syscall.Signal, want string, cancel bool) ledger.Result {
	t.Helper()
	file := growing(a.r, a.asked())
	p := a.does(t, nil, say("I start it."), shell(file.command), say("Never said."))
	b := a.r.book(t, p)
	server.Eventually(t, "the command runs", func() bool { return file.size() > 2 })
	asked := a.asked()
	a.r.signals(t, sig)
	if cancel {
		p.Cancel()
	}
	res := b.closed(t, want)
	size := file.size()
	time.Sleep(100 * time.Millisecond) // nothing tells of what does not happen; the loop wrote every 20 ms
	if left := file.holders(); len(left) > 0 || file.size() != size {
		t.Errorf("after %v and the run's end the file grew by %d: %s", sig, file.size()-size, server.Describe(left))
	}
	if n := a.asked(); n != asked {
		t.Errorf("after %v the model was asked %d times", sig, n-asked)
	}
	a.fine(t, fmt.Sprintf("again after %d", sig))
	return res
}

// signals gives a signal to all that the server has started itself.
func (r *rig) signals(t testing.TB, sig syscall.Signal) {
	t.Helper()
	for _, pid := range childrenOf(r.Pid()) {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) { // one may have ended
			t.Errorf("%v to %s: %v", sig, server.Describe([]int{pid}), err)
		}
	}
}

// A real agent that is stopped in its words is seen by the watchdog: its run
// ends as stalled, nothing of it is left, and the next run goes on.
func TestRealAgentStalls(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := newRig(t)
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	r.Env = append(r.Env, claudeCLI.path(t))
	r.Args = append(r.Args, "--stall-timeout", stallAfter.String())
	a := r.start().actor(t, &claudeCLI, stub)
	a.fine(t, "hello")
	p := a.does(t, nil, paced(100_000, 12, 50))
	b := r.book(t, p)
	server.Until[events.MessageDelta](p, 20)
	stopped := time.Now()
	r.signals(t, syscall.SIGSTOP)
	res := b.closed(t, events.ErrStalled)
	if took := time.Since(stopped); took < stallAfter-5*time.Second { // its last word may have been late
		t.Errorf("it is stalled after %v", took)
	}
	a.fine(t, "again")
	result(t, fmt.Sprintf("agent stopped while it speaks: stalled after %v (Claude Code)", stallAfter), res, time.Since(began))
}

// stallAfter is longer than a start of an agent takes on a busy machine.
const stallAfter = 30 * time.Second

// childrenOf are the processes that one has started itself.
func childrenOf(parent int) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		raw, _ := os.ReadFile(path) // it may be gone
		fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}
