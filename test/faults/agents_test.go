//go:build linux

package faults_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/hostile"
	"innerd/test/ledger"
	"innerd/test/server"
)

// This program is the hostile agents too.
func init() { hostile.Main() }

// agentFault is something that an agent's process does in the middle of a turn.
type agentFault struct {
	name   string
	orders string // of test/hostile
	script string // what simulate does for it; "": nothing that is alike
	cancel bool   // the host cancels when it has seen the first words
	want   string // error type; "": the run is a success
	signal string // that ended the process
	exit   int    // its exit code, where no signal did
	check  func(*testing.T, *server.Tape)
	stalls bool // the watchdog has to see it
}

func agentFaults() []agentFault {
	crashed := events.ErrBackendCrashed
	return []agentFault{ // the one that takes longest first
		{name: "stopped, stalled", orders: "say half; stop", script: `{"stall":true}`, want: events.ErrStalled, stalls: true},
		{name: "kill -9", orders: "say half; kill", want: crashed, signal: "killed"},
		{name: "out of memory, exit 137", orders: "say half; exit 137", script: `{"crash":{"exit_code":137,"stderr":"Killed"}}`, want: crashed, exit: 137},
		{name: "exit 0 in a turn", orders: "say half; exit 0", script: `{"crash":{"exit_code":0}}`, want: crashed},
		{name: "half a line, then exit", orders: "say half; print half; exit 3", want: crashed, exit: 3},
		{name: "stdout closed", orders: "say half; close stdout; hang", want: crashed, signal: "killed", check: says("closed its stdout")},
		{name: "stdin closed", orders: "say half; close stdin; call look call_same x", want: crashed, signal: "terminated", check: says("closed its stdin")},
		{name: "stopped, canceled", orders: "say half; stop", script: `{"stall":true}`, cancel: true, want: events.ErrCanceled},
		{name: "deaf, canceled", orders: "say half; hang", cancel: true, want: events.ErrCanceled},
		{name: "stderr flooded, 100 MiB", orders: "say half; stderr 100; say rest"},
		{name: "a line of 65 MiB", orders: "say half; print long; say rest", check: notices("it begins with", "too long")},
		{name: "a message of " + fmt.Sprint(big()) + " MiB in one line", orders: fmt.Sprintf("say half; big %d; say rest", big()), check: whole(big() << 20)},
		{name: "no UTF-8", orders: "say half; print utf8; text utf8; say rest", check: notices("no text at all")},
		{name: "NUL", orders: "say half; print nul; text nul; say rest", check: notices("\x00", `\x00`)},
		{name: "a character across byte 200", orders: "say half; print rune; say rest", check: notices("xxxxxxxx")},
	}
}

// says wants words in the error.
func says(words string) func(*testing.T, *server.Tape) {
	return func(t *testing.T, p *server.Tape) {
		t.Helper()
		if f := p.Failure(); f == nil || !strings.Contains(f.Message, words) {
			t.Errorf("the error does not say %q: %+v", words, f)
		}
	}
}

// notices wants a notice with one of the words.
func notices(words ...string) func(*testing.T, *server.Tape) {
	return func(t *testing.T, p *server.Tape) {
		t.Helper()
		for _, s := range server.Of[events.Status](p) {
			for _, w := range words {
				if s.State == events.StateNotice && strings.Contains(s.Detail, w) {
					return
				}
			}
		}
		t.Errorf("no notice says any of %q:\n%s", words, p)
	}
}

// whole wants a text of so many bytes at least.
func whole(n int) func(*testing.T, *server.Tape) {
	return func(t *testing.T, p *server.Tape) {
		t.Helper()
		deltas := 0
		for _, d := range server.Of[events.MessageDelta](p) {
			deltas += len(d.Delta)
		}
		if got := len(p.Text()); got < n || deltas < n {
			t.Errorf("of %d bytes there are %d, in deltas %d", n, got, deltas)
		}
	}
}

// What an agent's process does ends its run with one terminal event that says
// what it was, or harms nothing; the log has what every reader was given; and
// the next run of the conversation works. With the hostile agent in the words
// of every CLI, and with simulate where that can do something alike. The real
// ones are killed in agents_real_test.go, and in test/parity each of them.
func TestAgentFaults(t *testing.T) {
	t.Parallel()
	began := time.Now()
	shared, stalling := newRig(t), newRig(t)
	for _, r := range []*rig{shared, stalling} {
		r.Env = append(r.Env, hostile.Install(t)...)
	}
	stalling.Args = append(stalling.Args, "--stall-timeout", "20s") // no start of an agent takes that long
	shared.start()
	stalling.start()
	var all tally
	var rows sync.WaitGroup
	places := make(chan struct{}, 5) // most of a row is waiting
	for _, f := range agentFaults() {
		rows.Go(func() { // ends with its row
			places <- struct{}{}
			defer func() { <-places }()
			r := shared
			if f.stalls {
				r = stalling
			}
			t.Run(f.name, func(t *testing.T) { f.everybody(t, r, &all) })
		})
	}
	rows.Wait()
	result(t, fmt.Sprintf("%d faults of an agent's process (claude, codex and copilot by a fake; simulate)", len(agentFaults())), all.sum, time.Since(began))
}

// tally adds results up. Its methods may be called at the same time.
type tally struct {
	mu  sync.Mutex
	sum ledger.Result
}

func (a *tally) add(res ledger.Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sum.Add(res)
}

func (f agentFault) everybody(t *testing.T, r *rig, all *tally) {
	backends := []string{"claude-code", "codex", "copilot"}
	if f.script != "" {
		backends = append(backends, "simulate")
	}
	var each sync.WaitGroup
	for _, b := range backends {
		each.Go(func() { all.add(f.hit(t, r.For(t), b)) }) // ends with its three runs
	}
	each.Wait()
}

// talk is a conversation with a hostile agent, whose process it has for itself.
type talk struct {
	history
	r       *rig
	backend string
	context string
}

func (r *rig) talk(t testing.TB, backend string) *talk {
	id := strings.ReplaceAll(t.Name()+"/"+backend, " ", "-")
	return &talk{r: r, backend: backend, context: id}
}

// orders is a run in which the agent obeys; simulate plays steps.
func (k *talk) orders(t testing.TB, orders, steps string) *server.Tape {
	t.Helper()
	meta := map[string]any{
		"credentials":         map[string]any{"api_key": "sk-" + k.context, "base_url": "http://127.0.0.1:9/v1"},
		"native_tool_schemas": lookSchemas,
	}
	b := body(k.backend, "", meta)
	if k.backend == "simulate" {
		b = simulate("["+steps+"]", nil)
	}
	k.last = k.r.Post(t, in(k.context, k.request(b, "Please <<"+orders+">>")))
	return k.last
}

// hit has the fault happen between two runs that must be fine.
func (f agentFault) hit(t *testing.T, r *rig, backend string) ledger.Result {
	k := r.talk(t, backend)
	hello := k.orders(t, "say hello", `{"text":"hello"}`).Completed()
	if !strings.Contains(hello.Text(), "hello") {
		t.Errorf("%s: before the fault it says %q", backend, hello.Text())
	}
	l := ledger.New()
	p := k.orders(t, f.orders, `{"text":"half"},`+f.script)
	task := p.TaskID()
	beside := r.attached(l, backend, task, 0)
	server.Until[events.MessageDelta](p, 1)
	if strings.Contains(f.orders, "call ") {
		r.Result(server.Until[events.ToolRequest](p, 1).ToolCallID, map[string]any{"result": "found"})
	}
	if f.cancel {
		p.Cancel()
	}
	f.verdict(t, backend, p.Whole())
	beside.Whole()
	beside.clean()
	taped(l, "the POST of "+backend, p).Whole()
	r.late(l, "late, "+backend, task)
	res := r.compare(l, task)
	again := k.orders(t, "say again", `{"text":"again"}`).Completed()
	if !strings.Contains(again.Text(), "again") {
		t.Errorf("%s: after the fault it says %q", backend, again.Text())
	}
	return res
}

// verdict looks at how the run ended.
func (f agentFault) verdict(t *testing.T, backend string, p *server.Tape) {
	t.Helper()
	oneEnd(t, p, f.want)
	end := p.End()
	if f.want == events.ErrBackendCrashed && backend != "simulate" {
		if end.Signal != f.signal || f.signal == "" && (end.ExitCode == nil || *end.ExitCode != f.exit) {
			t.Errorf("%s: the end says signal %q, exit code %v, stderr %q", backend, end.Signal, end.ExitCode, end.StderrTail)
		}
	}
	if f.want == "" && (!strings.Contains(p.Text(), "half") || !strings.Contains(p.Text(), "rest")) {
		t.Errorf("%s: it said %.200q", backend, p.Text())
	}
	if f.check != nil && backend != "simulate" {
		f.check(t, p)
	}
}

// oneEnd fails the test unless the run has one terminal event, the last, and
// one error right before it where it is no success: of this type.
func oneEnd(t testing.TB, p *server.Tape, errorType string) {
	t.Helper()
	all := p.Events()
	ends, failures := server.Of[events.End](p), server.Of[events.Error](p)
	state := map[string]string{"": events.Completed, events.ErrCanceled: events.Canceled}[errorType]
	if state == "" {
		state = events.Failed
	}
	if len(ends) != 1 || all[len(all)-1].Type() != events.TypeEnd || ends[0].State != state {
		t.Errorf("the terminal events are %+v, the last event is %s; it should be %s %s\n%s", ends, all[len(all)-1].Type(), state, errorType, p)
		return
	}
	switch {
	case errorType == "" && len(failures) > 0:
		t.Errorf("it is a success with %+v", failures)
	case errorType == "":
	case len(failures) != 1 || failures[0].ErrorType != errorType || all[len(all)-2].Type() != events.TypeError:
		t.Errorf("the errors are %+v, not one %s before the end\n%s", failures, errorType, p)
	}
}

// big is how many MiB one message has: nearly the longest line there may be.
func big() int { return pick(2, 60) }
