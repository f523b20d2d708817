//go:build linux

package faults_test

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/modelstub"
	"innerd/test/server"
)

const (
	// perContext is how many runs a conversation has: of four, three are canceled
	// while they wait for the first.
	perContext = 4
	// manyMemory is what the server may take at most, in MiB.
	manyMemory = 300
)

// A thousand runs are started and canceled at once. Each has one terminal
// event, its log is what its reader was given, the server's memory stays
// bounded, nothing is left, and the conversations go on. Of Claude Code there
// are as many as a machine has room for, a process for each four.
func TestThousandRunsAreCanceledAtOnce(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, c *cast) {
		began := time.Now()
		runs := c.many(1000, pick(20, 60))
		r := c.rig(t)
		r.Args = append(r.Args, "--max-warm", fmt.Sprint(runs/perContext+1)) // nobody waits for a place
		r.start()
		m := c.canceled(runs / perContext)
		r.Post(t, m.run(0, "warm")).Completed()
		before := descriptors(t, r.Pid())
		sum := m.all(t, r, runs)
		peak := memory(t, r.Pid(), "VmHWM")
		if peak > manyMemory {
			t.Errorf("the server took %d MiB", peak)
		}
		m.restored(t, r, before)
		c.result(t, fmt.Sprintf("%d runs started and canceled at once: peak %d MiB", runs, peak), sum, began)
	})
}

// canceled are runs of one agent that are canceled.
type canceled struct {
	backend  string
	contexts int
	sc       *modelstub.Scenario // nil: simulate
	warm     atomic.Bool         // the model only answers
}

func (c *cast) canceled(contexts int) *canceled {
	m := &canceled{backend: "simulate", contexts: contexts}
	if c.v != nil {
		m.backend, m.sc = c.v.backend, c.stub.Scenario()
		m.sc.Func(func(r modelstub.Request) modelstub.Turn {
			if m.warm.Load() {
				return modelstub.Say(modelstub.Text("again"))
			}
			return modelstub.Say(modelstub.Text("half"), look("x").block(r))
		})
	}
	return m
}

func (m *canceled) context(i int) string { return fmt.Sprintf("context-%03d", i%m.contexts) }

// run is one of them. Without a word to say it calls a tool, and never ends.
func (m *canceled) run(i int, word string) map[string]any {
	meta := map[string]any{}
	if word == "" {
		meta["task_id"] = m.task(i)
	}
	if m.sc == nil {
		steps := fmt.Sprintf(`[{"text":%q}]`, word)
		if word == "" {
			steps = `[{"text":"half"},{"call":{"tool":"look","arguments":{}}},{"stall":true}]`
		}
		return in(m.context(i), simulate(steps, meta))
	}
	m.warm.Store(word != "")
	meta["credentials"] = map[string]any{"api_key": m.sc.Key(), "base_url": m.sc.BaseURL()}
	meta["native_tool_schemas"] = lookSchemas
	return in(m.context(i), body(m.backend, "go on", meta))
}

func (m *canceled) task(i int) string { return fmt.Sprintf("many-runs-%04d", i) }

// all starts and cancels them: every other one as soon as it has begun, and the
// rest when all have.
func (m *canceled) all(t *testing.T, r *rig, runs int) ledger.Result {
	var sum tally
	var started, each sync.WaitGroup
	everybody := make(chan struct{})   // closed when all have started
	places := make(chan struct{}, 100) // connections that are being made
	started.Add(runs)
	for i := range runs {
		each.Go(func() { sum.add(m.one(t, r, i, places, started.Done, everybody)) }) // ends with the run
	}
	started.Wait()
	close(everybody)
	each.Wait()
	return sum.sum
}

func (m *canceled) one(t *testing.T, r *rig, i int, places chan struct{}, started func(), everybody <-chan struct{}) ledger.Result {
	began := sync.OnceFunc(started)
	defer began()
	places <- struct{}{}
	p := r.Post(t, m.run(i, ""))
	<-places
	began()
	if i%2 == 0 {
		<-everybody
	}
	places <- struct{}{}
	r.Do(http.MethodPost, "/tasks/"+m.task(i)+":cancel", map[string]any{}, nil)
	<-places
	oneEnd(t, p.Whole(), events.ErrCanceled)
	l := ledger.New()
	taped(l, m.task(i), p).Whole()
	return r.compare(l, m.task(i))
}

// restored fails the test where something is left of them, or a conversation
// does not go on.
func (m *canceled) restored(t *testing.T, r *rig, before int) {
	t.Helper()
	if m.sc == nil { // others keep their agents for the next run
		server.Eventually(t, "no descriptor is left", func() bool { return descriptors(t, r.Pid()) <= before+2 })
		if left := r.Marked(); len(left) > 0 {
			t.Errorf("processes are left: %s", server.Describe(left))
		}
	}
	for _, state := range []string{"submitted", "working", "input_required"} {
		var page api.Tasks
		if r.Do(http.MethodGet, "/tasks?state="+state, nil, &page); len(page.Tasks) > 0 {
			t.Errorf("%d runs are %s", len(page.Tasks), state)
		}
	}
	asked := 0
	if m.sc != nil {
		if err := m.sc.AwaitIdle(t.Context()); err != nil {
			t.Errorf("a model is still listened to: %v", err)
		}
		asked = m.sc.Count() + len(m.sc.Side())
	}
	for i := range 5 {
		r.Post(t, m.run(i, "again")).Completed()
	}
	if m.sc != nil {
		if n := m.sc.Count() + len(m.sc.Side()) - asked; n != 5 {
			t.Errorf("for five runs the models were asked %d times", n)
		}
	}
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
