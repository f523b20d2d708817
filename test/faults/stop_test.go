//go:build linux

package faults_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/ledger"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// state is what a run is doing when its server is told to stop: how it is
// brought there, and how that is seen.
type state struct {
	body  map[string]any
	there func(*server.Tape)
	last  bool // it begins when the others are there
	over  bool // it may have ended first
	alone bool // its host has hung up, and nobody follows it

	canceled bool // or it was, while the server stopped
}

func sees[T any](n int) func(*server.Tape) { return func(p *server.Tape) { server.Until[T](p, n) } }

func simulatedStates() map[string]state {
	const forever = "600000"
	out := map[string]state{
		"text":        {body: simulate(`[{"text":"half a sentence","chunk_bytes":4,"delay_ms":`+forever+`}]`, nil), there: sees[events.MessageDelta](1)},
		"reasoning":   {body: simulate(`[{"reasoning":"half a thought","chunk_bytes":4,"delay_ms":`+forever+`}]`, nil), there: sees[events.ReasoningDelta](1)},
		"flood":       {body: simulate(`[{"flood":{"deltas":100000000,"per_second":2000}}]`, nil), there: sees[events.MessageDelta](100)},
		"native tool": {body: simulate(`[{"tool":{"name":"shell","input":{},"ms":`+forever+`}}]`, nil), there: sees[events.ToolCall](1)},
		"calls":       {body: simulate(`[{"calls":[{"tool":"a"},{"tool":"b"}]}]`, nil), there: sees[events.ToolRequest](2)},
		"permission":  {body: simulate(`[{"permission":{"tool":"shell","input":{}}}]`, map[string]any{"permission_mode": "ask"}), there: sees[events.PermissionRequest](1)},
		"question":    {body: simulate(`[{"ask":{"message":"which?"}}]`, map[string]any{"interactive": true}), there: sees[events.InputRequired](1)},
		"background":  {body: simulate(`[{"background":{"command":"make","ms":`+forever+`}},{"background":{"done":true}},{"text":"done"}]`, map[string]any{"background": "wait"}), there: sees[events.ToolCall](1)},
		"retrying":    {body: simulate(`[{"retry":{"text":"said again","wait_ms":`+forever+`}}]`, nil), there: sees[events.Discarded](1)},
		"nothing":     {body: simulate(`[{"text":"a"},{"stall":true}]`, nil), there: sees[events.Message](1)},
		"running":     {body: in("one after another", simulate(`[{"stall":true}]`, nil)), there: sees[events.TaskID](1)},
		"then queued": {body: in("one after another", simulate(`[{"text":"never"}]`, nil)), there: sees[events.Status](1)},
	}
	out["nobody there"] = hungUp(simulate(`[{"text":"a"},{"stall":true}]`, nil))
	for i := range 12 {
		steps := fmt.Sprintf(`[{"tool":{"name":"t","input":{},"ms":%d}},{"text":"over"}]`, i*4)
		out[fmt.Sprintf("ending %d", i)] = state{body: simulate(steps, nil), there: sees[events.TaskID](1), last: true, over: true}
	}
	return out
}

// hungUp is a run in the time that it has without a reader.
func hungUp(b map[string]any) state {
	b["metadata"].(map[string]any)["detach"] = false
	b["metadata"].(map[string]any)["detach_grace_s"] = 600
	return state{body: b, alone: true, there: func(p *server.Tape) {
		server.Until[events.MessageDelta](p, 1)
		p.HangUp()
	}}
}

// stopped brings a server's runs where they shall be, has it told to stop, and
// starts it again. Every run ended properly, and its log is as its readers saw it.
func stopped(t *testing.T, r *rig, states map[string]state, then func()) ledger.Result {
	names := slices.Sorted(maps.Keys(states))
	tapes, ledgers := map[string]*server.Tape{}, map[string]*ledger.Ledger{}
	var followers []*reading
	for _, last := range []bool{false, true} {
		for _, name := range names {
			if states[name].last == last {
				p := r.Post(t, states[name].body)
				tapes[name], ledgers[name] = p, ledger.New()
				if !states[name].alone {
					followers = append(followers, r.attached(ledgers[name], name+": a follower", p.TaskID(), 0))
				}
			}
		}
		for _, name := range names {
			if states[name].last == last {
				states[name].there(tapes[name])
			}
		}
	}
	began := time.Now()
	r.Stop() // the fault; any other exit code than 0 is an error
	took := time.Since(began)
	if took > time.Minute { // --stop-timeout and a little, of which the exit code tells; a turn has 15 minutes
		t.Errorf("the server took %v to stop", took)
	}
	if left := r.Marked(); len(left) > 0 {
		t.Errorf("the server has stopped, and what it started is there: %s", server.Describe(left))
	}
	for _, p := range followers {
		p.Whole()
		p.clean()
	}
	then()
	r.start()
	var all ledger.Result
	for _, name := range names {
		p := tapes[name]
		if states[name].alone {
			taped(ledgers[name], name+": who hung up", p)
			p = r.Follow(t, p.TaskID(), "0")
		}
		states[name].ended(t, name, p.Whole())
		taped(ledgers[name], name+": to the end", p).Whole()
		r.late(ledgers[name], name+": afterwards", p.TaskID())
		all.Add(r.compare(ledgers[name], p.TaskID()))
	}
	t.Logf("stopped in %v", took)
	return all
}

// ended fails the test unless the run ended as one of a server that stops.
func (s state) ended(t testing.TB, name string, p *server.Tape) {
	t.Helper()
	f, end := p.Failure(), p.End()
	switch {
	case f != nil && f.ErrorType == events.ErrShutdown && end.State == events.Failed && end.Reason == events.ErrShutdown:
	case s.over && f == nil && end.State == events.Completed:
	case s.canceled && f != nil && f.ErrorType == events.ErrCanceled && end.State == events.Canceled:
		t.Logf("%s: it was canceled", name)
	default:
		t.Errorf("%s: the run ended with %+v, %+v\n%s", name, f, end, p)
	}
}

// A server that is told to stop ends every run, whatever it is doing, and its
// readers see the end.
func TestStopInEveryState(t *testing.T) {
	r := newRig(t)
	states := simulatedStates()
	// Nobody waits for a place: one that says nothing keeps that of its start.
	r.Args = append(r.Args, "--max-warm", fmt.Sprint(len(states)), "--max-spawns", fmt.Sprint(len(states)))
	r.start()
	began := time.Now()
	res := stopped(t, r, states, func() {})
	result(t, fmt.Sprintf("SIGTERM with runs in %d states (simulate)", len(states)), res, time.Since(began))
}

// claudeStates are what the real Claude Code may be doing.
type claudeStates struct {
	r         *rig
	stub      *modelstub.Server
	scenarios []*modelstub.Scenario
	gate      *modelstub.Gate // is never passed
	file      grown           // is written to by its commands
	other     grown           // by the one whose run is canceled
}

func (c *claudeStates) state(meta map[string]any, there func(*server.Tape), turns ...modelstub.Turn) state {
	sc := c.stub.Scenario(turns...)
	c.scenarios = append(c.scenarios, sc)
	all := map[string]any{"credentials": map[string]any{"api_key": sc.Key(), "base_url": sc.BaseURL()}}
	maps.Copy(all, meta)
	return state{body: body("claude-code", "Go on.", all), there: there}
}

func (c *claudeStates) bash(file grown, more map[string]any) modelstub.Block {
	input := map[string]any{"command": file.command, "description": "A loop"}
	maps.Copy(input, more)
	return modelstub.Tool("Bash", input)
}

func (c *claudeStates) all() map[string]state {
	half := modelstub.Text("half a sentence and ").Hold(c.gate).Add("the rest")
	question := map[string]any{"questions": []any{map[string]any{"question": "Which?", "header": "One", "multiSelect": false, "options": []any{
		map[string]any{"label": "a", "description": "the first"}, map[string]any{"label": "b", "description": "the second"},
	}}}}
	out := map[string]state{
		"text":        c.state(nil, sees[events.MessageDelta](2), modelstub.Say(half)),
		"reasoning":   c.state(nil, sees[events.ReasoningDelta](1), modelstub.Say(modelstub.Thinking("half a thought and ").Hold(c.gate).Add("the rest"))),
		"native tool": c.state(nil, sees[events.ToolCall](1), modelstub.Say(c.bash(c.file, nil))),
		"background":  c.state(map[string]any{"background": "wait"}, sees[events.Message](1), modelstub.Say(c.bash(c.file, map[string]any{"run_in_background": true})), modelstub.Say(modelstub.Text("It runs.")).Forever()),
		"call":        c.state(map[string]any{"native_tool_schemas": lookSchemas}, sees[events.ToolRequest](1), modelstub.Say(modelstub.Tool("mcp__host__look", map[string]any{}))),
		"permission":  c.state(map[string]any{"permission_mode": "ask"}, sees[events.PermissionRequest](1), modelstub.Say(c.bash(c.file, nil))),
		"question":    c.state(map[string]any{"interactive": true}, sees[events.InputRequired](1), modelstub.Say(modelstub.Tool("AskUserQuestion", question))),
		"retrying":    c.state(nil, seesStatus(events.StateRetrying), modelstub.RateLimited(time.Minute), modelstub.Say(modelstub.Text("too late"))),
		"running":     c.state(nil, sees[events.MessageDelta](1), modelstub.Say(half)),
		"then queued": c.state(nil, seesStatus(events.StateQueued), modelstub.Say(modelstub.Text("never"))),
	}
	for _, name := range []string{"running", "then queued"} {
		in("one after another", out[name].body)
	}
	out["nobody there"] = hungUp(c.state(nil, nil, modelstub.Say(half)).body)
	canceling := c.state(nil, func(p *server.Tape) {
		server.Until[events.ToolCall](p, 1)
		c.cancels(p)
	}, modelstub.Say(c.bash(c.other, nil)))
	canceling.last, canceling.canceled = true, true
	out["canceling"] = canceling
	for name, there := range map[string]func(*server.Tape){"opening": sees[events.Status](1), "ending": sees[events.Message](1)} {
		last := c.state(nil, there, modelstub.Say(modelstub.Text("too late")))
		last.last, last.over = true, true
		out[name] = last
	}
	return out
}

// cancels has a run canceled, whose command does not hear of it, and returns
// when that is on its way.
func (c *claudeStates) cancels(p *server.Tape) {
	t, task := c.r.T, p.TaskID()
	server.Eventually(t, "the command runs", func() bool { return c.other.size() > 2 })
	over := make(chan struct{})
	go func() { // ends with the run, or the server
		defer close(over)
		req, err := http.NewRequest(http.MethodPost, c.r.URL()+"/tasks/"+task+":cancel", strings.NewReader("{}"))
		if err != nil {
			return
		}
		req.Header.Set("Authorization", "Bearer "+c.r.Key())
		if resp, err := client.Do(req); err == nil { // how it is answered is others' test
			_ = resp.Body.Close()
		}
	}()
	t.Cleanup(func() { <-over })
	server.Eventually(t, "the run is being canceled", func() bool {
		var now struct {
			Canceling bool
			Status    struct{ State string }
		}
		c.r.Do(http.MethodGet, "/tasks/"+task, nil, &now)
		return now.Canceling || now.Status.State == events.Canceled
	})
}

func seesStatus(state string) func(*server.Tape) {
	return func(p *server.Tape) {
		for n := 1; server.Until[events.Status](p, n).State != state; n++ {
		}
	}
}

func (c *claudeStates) asked() (n int) {
	for _, sc := range c.scenarios {
		n += sc.Count() + len(sc.Side())
	}
	return n
}

// The same with the real Claude Code.
func TestStopInEveryStateOfClaude(t *testing.T) {
	r := newRig(t)
	r.claude()
	c := &claudeStates{r: r, stub: modelstub.New(), gate: modelstub.NewGate(), file: growing(r, 0), other: growing(r, 1)}
	t.Cleanup(c.stub.Close)
	t.Cleanup(c.gate.Release)
	states := c.all()
	r.Args = append(r.Args, "--max-warm", fmt.Sprint(len(states))) // nobody waits for a place
	r.start()
	began := time.Now()
	before, size, otherSize := 0, int64(0), int64(0)
	res := stopped(t, r, states, func() { before, size, otherSize = c.asked(), c.file.size(), c.other.size() })
	for file, was := range map[grown]int64{c.file: size, c.other: otherSize} {
		if left := file.holders(); was == 0 || file.size() != was || len(left) > 0 {
			t.Errorf("after the stop %s grew from %d to %d; %s", file.path, was, file.size(), server.Describe(left))
		}
	}
	if n := c.asked(); n != before {
		t.Errorf("after the stop the model was asked %d times", n-before)
	}
	result(t, fmt.Sprintf("SIGTERM with runs in %d states (Claude Code)", len(states)), res, time.Since(began))
}
