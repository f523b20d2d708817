//go:build linux

package faults_test

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/server"
)

const (
	manyRuns     = 1000
	manyContexts = 250 // so that of four runs three are canceled while they wait for the first
	// manyMemory is what the server may take at most, in MiB.
	manyMemory = 300
)

// A thousand runs are started and canceled at once. Each has one terminal
// event, its log is what its reader was given, the server's memory stays
// bounded, nothing is left, and the conversations go on.
func TestThousandRunsAreCanceledAtOnce(t *testing.T) {
	began := time.Now()
	r := newRig(t).start()
	r.Post(t, simulate(`[{"text":"warm"}]`, nil)).Completed()
	before := descriptors(t, r.Pid())
	var all tally
	var started, each sync.WaitGroup
	everybody := make(chan struct{})   // closed when all have started
	places := make(chan struct{}, 100) // connections that are being made
	started.Add(manyRuns)
	for i := range manyRuns {
		each.Go(func() { all.add(startAndCancel(t, r, i, places, started.Done, everybody)) }) // ends with the run
	}
	started.Wait()
	close(everybody)
	each.Wait()
	peak := memory(t, r.Pid(), "VmHWM")
	if peak > manyMemory {
		t.Errorf("the server took %d MiB", peak)
	}
	server.Eventually(t, "no descriptor is left", func() bool { return descriptors(t, r.Pid()) <= before+2 })
	if left := r.Marked(); len(left) > 0 {
		t.Errorf("processes are left: %s", server.Describe(left))
	}
	for _, state := range []string{"submitted", "working", "input_required"} {
		var page api.Tasks
		if r.Do(http.MethodGet, "/tasks?state="+state, nil, &page); len(page.Tasks) > 0 {
			t.Errorf("%d runs are %s", len(page.Tasks), state)
		}
	}
	for i := range 5 {
		r.Post(t, in(manyContext(i), simulate(`[{"text":"again"}]`, nil))).Completed()
	}
	result(t, fmt.Sprintf("%d runs started and canceled at once (simulate): peak %d MiB", manyRuns, peak), all.sum, time.Since(began))
}

func manyContext(i int) string { return fmt.Sprintf("context-%03d", i%manyContexts) }

// startAndCancel cancels every other run as soon as it has begun, and the rest
// when all have.
func startAndCancel(t *testing.T, r *rig, i int, places chan struct{}, started func(), everybody <-chan struct{}) ledger.Result {
	began := sync.OnceFunc(started)
	defer began()
	task := fmt.Sprintf("many-runs-%04d", i)
	places <- struct{}{}
	p := r.Post(t, in(manyContext(i), simulate(`[{"text":"half"},{"call":{"tool":"look","arguments":{}}},{"stall":true}]`, map[string]any{"task_id": task})))
	<-places
	began()
	if i%2 == 0 {
		<-everybody
	}
	places <- struct{}{}
	r.Do(http.MethodPost, "/tasks/"+task+":cancel", map[string]any{}, nil)
	<-places
	oneEnd(t, p.Whole(), events.ErrCanceled)
	l := ledger.New()
	taped(l, task, p).Whole()
	return r.compare(l, task)
}

// descriptors is how many a process has open.
func descriptors(t testing.TB, pid int) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// memory is a figure of a process's status, in MiB.
func memory(t testing.TB, pid int, name string) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0]) // zero is seen
			return n >> 10
		}
	}
	t.Errorf("the status of %d has no %s", pid, name)
	return 0
}
