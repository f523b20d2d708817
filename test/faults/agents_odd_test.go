//go:build linux

package faults_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/hostile"
	"innerd/test/ledger"
	"innerd/test/server"
)

// An agent may say anything in the words of its own protocol: what real ones
// once said, in any order, with any value in the place of any other. Its run
// ends once, however; the server lives and works on, and nothing panics.
func TestAgentSaysOddThings(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := newRig(t)
	r.Env = append(r.Env, hostile.Install(t)...)
	r.start()
	seeds := pick(2, 60)
	var all tally
	var each sync.WaitGroup
	for backend, dir := range map[string]string{"claude-code": "claude", "codex": "codex", "copilot": "copilot"} {
		each.Go(func() { // ends with its runs
			for seed := range seeds {
				all.add(oddRun(t, r, backend, dir, seed))
			}
		})
	}
	each.Wait()
	for line := range strings.Lines(r.Log()) {
		if strings.Contains(line, `"panic`) {
			t.Errorf("the server panicked: %s", line)
		}
	}
	result(t, fmt.Sprintf("%d runs of agents that say %d odd things each in their own protocols", 3*seeds, oddThings), all.sum, time.Since(began))
}

const oddThings = 1500

func oddRun(t *testing.T, r *rig, backend, dir string, seed int) ledger.Result {
	transcripts, err := filepath.Abs(filepath.Join("..", "testdata", dir))
	if err != nil {
		t.Error(err)
	}
	k := &talk{r: r, backend: backend, context: fmt.Sprintf("odd-%s-%d", backend, seed)}
	p := k.orders(t, fmt.Sprintf("say half; odd %s %d %d; say the-rest", transcripts, oddThings, seed), "")
	l := ledger.New()
	task := p.TaskID()
	ended := make(chan struct{})
	go func() { // ends with the run
		defer close(ended)
		p.Whole()
	}()
	// Requests that nobody answers may be open, and the orders' end may come to nothing.
	server.Eventually(t, "the agent has said it all, or the run is over", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		for _, d := range server.Of[events.MessageDelta](p) {
			if strings.Contains(d.Delta, "the-rest") {
				return true
			}
		}
		return false
	})
	r.as(t, r.Key(), "/tasks/"+task+":cancel", map[string]any{}) // it may be over
	<-ended
	end := p.End()
	if f := p.Failure(); f != nil && end.State != events.Completed {
		oneEnd(t, p, f.ErrorType)
	} else {
		oneEnd(t, p, "")
	}
	taped(l, fmt.Sprintf("%s, seed %d", backend, seed), p).Whole()
	r.late(l, "late", task)
	again := k.orders(t, "say again", "").Completed()
	if !strings.Contains(again.Text(), "again") {
		t.Errorf("%s, seed %d: then it says %q", backend, seed, again.Text())
	}
	return r.compare(l, task)
}
