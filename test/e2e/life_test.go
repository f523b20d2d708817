//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"innerd/events"
)

// A server that is stopped tells every reader why, and ends cleanly in time,
// whatever is open and whoever does not read.
func TestStopInTheMiddle(t *testing.T) {
	s := serve(t)
	all := map[string]any{"events": "all"}
	var tapes []*tape
	for steps, until := range map[string]events.Type{
		`[{"text":"some words","chunk_bytes":2,"delay_ms":600000}]`: events.TypeMessageDelta,
		`[{"reasoning":"so","chunk_bytes":1,"delay_ms":600000}]`:    events.TypeReasoningDelta,
		`[{"calls":[{"tool":"a"},{"tool":"b"}]}]`:                   events.TypeToolRequest,
		`[{"tool":{"name":"shell","input":{},"ms":600000}}]`:        events.TypeToolCall,
		`[{"stall":true}]`: events.TypeTaskID,
	} {
		p := s.post(script(steps, all), nil)
		p.until(t, until)
		tapes = append(tapes, p)
	}
	deaf := s.dial("HTTP/1.1", script(`[{"flood":{"deltas":100000,"bytes":900}},{"stall":true}]`, map[string]any{"task_id": "nobody-reads"}))
	deaf.answer()
	s.follow("who sees the flood", "nobody-reads", 0).until(t, events.TypeMessageDelta)
	began := time.Now()
	s.Stop()
	// Whoever does not read is waited for 2 s; otherwise it would be --write-timeout, a minute.
	if took := time.Since(began); took > 45*time.Second {
		t.Errorf("the stop took %v", took)
	}
	for _, p := range tapes {
		p.whole(t)
		checkOrder(t, p.events())
		if f := p.failure(); f == nil || f.ErrorType != events.ErrShutdown {
			t.Errorf("ended with %+v\n%s", f, p)
		}
		s.equal(s.journal(p.taskID()), true, p)
	}
	s.Start()
	again := s.follow("afterwards", "nobody-reads", 0)
	again.whole(t)
	if f := again.failure(); f == nil || f.ErrorType != events.ErrShutdown {
		t.Errorf("ended with %+v", f)
	}
}

// A state directory belongs to one server at a time.
func TestTwoServersOnOneState(t *testing.T) {
	s := serve(t)
	second := s.Launch()
	if s.ExitCode(second) == 0 {
		t.Error("the second ended well")
	}
	if says := second.Log(); !strings.Contains(says, fmt.Sprint(s.Pid())) {
		t.Errorf("it does not name the first, %d: %s", s.Pid(), says)
	}
	p := s.post(prompt("simulate", "unharmed", nil), nil)
	completed(t, p)
}

// A server needs no stdin, no stdout and no stderr.
func TestStartWithoutStdio(t *testing.T) {
	s := newServer(t)
	s.Through = []string{"/bin/sh", "-c", `exec "$0" "$@" <&- >&-`}
	s.Start()
	completed(t, s.post(prompt("simulate", "hello", nil), nil))
	s.Stop()
}

// Where the state can't be kept there is one warning, and everything else works.
func TestStateThatCannotBeWritten(t *testing.T) {
	s := newServer(t)
	usual := s.State
	s.State = "/proc/innerd"
	s.Start()
	p := s.post(script(`[{"text":"one"},{"call":{"tool":"t","arguments":{}}},{"text":"two"}]`, map[string]any{"events": "all"}), nil)
	call := p.until(t, events.TypeToolRequest).Data.(events.ToolRequest).ToolCallID
	s.Do(http.MethodPost, "/tools/"+call+"/result", `{"result":"r"}`, nil)
	completed(t, p)
	again := s.follow("from the beginning", p.taskID(), 0)
	completed(t, again)
	s.equal(p.lines, true, again)
	checkOrder(t, p.events())
	s.Stop()
	if n := strings.Count(s.Log(), `"level":"WARN"`); n != 1 {
		t.Errorf("%d warnings:\n%s", n, s.Log())
	}
	if _, err := os.Stat(usual); err == nil {
		t.Error("something was written all the same")
	}
}
