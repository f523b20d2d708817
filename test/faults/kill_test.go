//go:build linux

package faults_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// The server is killed at a random moment of a flood that sixteen readers
// follow. What any of them was given is in the log afterwards, as it was; who
// comes back gets the rest, and the run ends.
func TestServerIsKilledUnderLoad(t *testing.T) {
	began := time.Now()
	r := newRig(t).start()
	var all ledger.Result
	var slowest time.Duration
	var rates []int
	for i := range pick(5, 50) {
		res, ready, rate := killInFlood(t, r, i)
		all.Add(res)
		slowest = max(slowest, ready)
		if rate > 0 { // else it was killed before there was a flood
			rates = append(rates, rate)
		}
	}
	if slices.Sort(rates); len(rates) == 0 {
		t.Fatal("there was no flood")
	}
	result(t, fmt.Sprintf("server killed %d times, 16 readers (simulate); %d events/s asked for, %d written (median; %d to %d); ready again within %d ms",
		pick(5, 50), floodRate(), rates[len(rates)/2], rates[0], rates[len(rates)-1], slowest.Milliseconds()), all, time.Since(began))
}

func floodRate() int { return pick(5_000, 100_000) }

// rateOf is how many events a second a log took in its flood, by their times;
// 0 where the flood was too short to say.
func rateOf(t testing.TB, r *rig, task string) int {
	t.Helper()
	n, first, last := 0, int64(0), int64(0)
	for line := range bytes.Lines(r.left(task)) {
		var e struct{ TS int64 }
		if ledger.TypeOf(line) != events.TypeMessageDelta || json.Unmarshal(line, &e) != nil {
			continue
		}
		if n++; first == 0 {
			first = e.TS
		}
		last = e.TS
	}
	if last == first {
		return 0
	}
	return int(int64(n) * 1000 / (last - first))
}

// left is all of a run's log, as it is on the disk.
func (r *rig) left(task string) (all []byte) {
	files, _ := filepath.Glob(filepath.Join(r.runDir(task), "*.jsonl"))
	for _, path := range files { // named by their first ids, so in order
		raw, err := os.ReadFile(path)
		if err != nil {
			r.T.Error(err)
		}
		all = append(all, raw...)
	}
	return all
}

func killInFlood(t *testing.T, r *rig, round int) (res ledger.Result, ready time.Duration, rate int) {
	steps := fmt.Sprintf(`[{"reasoning":"now"},{"tool":{"name":"shell","input":{}}},{"sleep_ms":200},{"flood":{"deltas":10000000,"per_second":%d}}]`, floodRate())
	post := r.Post(t, simulate(steps, map[string]any{"events": []string{"session.task_id", "session.end"}}))
	task := post.TaskID()
	l := ledger.New()
	readers := sixteen(r, l, task)
	readers[rand.N(len(readers))].reaches(rand.Int64N(500) + 1)
	time.Sleep(rand.N(400 * time.Millisecond)) // the fault: any moment
	ready = r.killed()
	post.Broken()
	for i, p := range readers {
		if i < attachedReaders {
			p.broken()
		} else {
			p.clean()
		}
	}
	r.late(l, "who comes late", task)
	res = r.compare(l, task)
	r.endedBy(t, task, events.ErrAdapterRestarted)
	rate = rateOf(t, r, task)
	t.Logf("round %d: %v; %d events/s; ready in %v", round, res, rate, ready)
	return res, ready, rate
}

const attachedReaders = 10

// sixteen are readers of a run: ten with one connection each, and six that
// come back.
func sixteen(r *rig, l *ledger.Ledger, task string) (all []*reading) {
	for i := range 16 {
		if i < attachedReaders {
			all = append(all, r.attached(l, fmt.Sprintf("attached %d", i), task, 0))
		} else {
			all = append(all, r.returning(l, fmt.Sprintf("returning %d", i), task))
		}
	}
	return all
}

// endedBy fails the test unless a run has failed with an error type.
func (r *rig) endedBy(t testing.TB, task, errorType string) {
	t.Helper()
	p := r.Follow(t, task, "0").Whole()
	if f, end := p.Failure(), p.End(); f == nil || f.ErrorType != errorType || end.State != events.Failed || end.Reason != errorType {
		t.Errorf("run %s ended with %+v, %+v", task, f, end)
	}
}

// The same with the real Claude Code, whose command writes to a file and whose
// model talks on: after the restart no process of it is there, the model is
// asked nothing and the file does not grow.
func TestServerIsKilledUnderClaude(t *testing.T) {
	began := time.Now()
	r := newRig(t)
	sc := r.claude()
	r.start()
	var all ledger.Result
	rounds := pick(1, 50)
	for i := range rounds {
		all.Add(killInClaude(t, r, sc, i))
	}
	result(t, fmt.Sprintf("server killed %d times, 16 readers (Claude Code)", rounds), all, time.Since(began))
}

func killInClaude(t *testing.T, r *rig, sc *modelstub.Scenario, round int) ledger.Result {
	file := growing(r, round)
	sc.Add(
		modelstub.Say(modelstub.Thinking("A loop, then."), modelstub.Text("I start it."), modelstub.Tool("Bash", map[string]any{"command": file.command, "description": "A loop", "run_in_background": true})),
		modelstub.Say(modelstub.Flood(1_000_000, 40).Every(time.Millisecond)),
	)
	post := r.Post(t, body("claude-code", "Go on.", map[string]any{"timeout_s": 300}))
	server.Until[events.ToolCall](post, 1)
	task := post.TaskID()
	l := ledger.New()
	readers := sixteen(r, l, task)
	server.Eventually(t, "the command runs", func() bool { return file.size() > 2 })
	if err := sc.Await(t.Context(), 2*round+2); err != nil {
		t.Fatal(err)
	}
	readers[0].reaches(20)
	time.Sleep(rand.N(300 * time.Millisecond)) // the fault: any moment
	r.killed()
	size, asked := file.size(), sc.Count()+len(sc.Side())
	post.Broken()
	taped(l, "the POST", post)
	for i, p := range readers {
		if i < attachedReaders {
			p.broken()
		} else {
			p.clean()
		}
	}
	r.late(l, "who comes late", task)
	res := r.compare(l, task)
	r.endedBy(t, task, events.ErrAdapterRestarted)
	time.Sleep(100 * time.Millisecond) // nothing tells of what does not happen; the loop wrote every 20 ms
	if left := file.holders(); len(left) > 0 || file.size() != size {
		t.Errorf("the file grew by %d after the restart: %s", file.size()-size, server.Describe(left))
	}
	if now := sc.Count() + len(sc.Side()); now != asked {
		t.Errorf("the model was asked %d times after the restart", now-asked)
	}
	return res
}
