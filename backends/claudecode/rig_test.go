package claudecode_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/claudecode"
	"innerd/events"
	"innerd/test/agents"
	"innerd/test/modelstub"
)

// bench is what a test with the real CLI stands on: a model server, a folder
// for sessions, a supervisor.
type bench struct {
	stub     *modelstub.Server
	home     string
	wrapper  string // a script that notes its pid and becomes claude
	children *backends.Children
	claude   string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{stub: modelstub.New(), home: t.TempDir(), claude: agents.Claude(t).Path}
	b.children = backends.NewChildren(backends.ChildrenOptions{})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.children.Close(ctx); err != nil {
			t.Error(err)
		}
		b.stub.Close()
	})
	b.wrapper = filepath.Join(t.TempDir(), "claude")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n[ -n \"$TEST_PIDS\" ] && echo $$ >> \"$TEST_PIDS\"\n"+
		"[ -n \"$TEST_NOISE\" ] && exec %q \"$@\"\nexec %q \"$@\"\n", self, b.claude)
	if err := os.WriteFile(b.wrapper, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

// backend makes one whose own key is a dummy; conversations bring theirs.
func (b *bench) backend() *claudecode.Backend {
	return claudecode.New(&claudecode.Options{
		Path: b.wrapper, Home: b.home, Children: b.children, MaxRetries: 1,
		Getenv: env(map[string]string{"ANTHROPIC_API_KEY": "sk-dummy"}),
	})
}

func env(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

// seat is one conversation's scenario.
type seat struct {
	t    testing.TB
	b    *bench
	sc   *modelstub.Scenario
	pids string
	env  map[string]string

	mu    sync.Mutex
	asked int        // requests before the last Arrange
	queue []arranged // what the model does next
}

// arranged is a model turn; one that lasts answers all that come.
type arranged struct {
	turn  modelstub.Turn
	lasts bool
}

// next answers a request of the CLI.
func (s *seat) next(modelstub.Request) modelstub.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return modelstub.Say(modelstub.Text("(script over)"))
	}
	a := s.queue[0]
	if !a.lasts {
		s.queue = s.queue[1:]
	}
	return a.turn
}

func (b *bench) seat(t testing.TB) *seat {
	s := &seat{t: t, b: b, sc: b.stub.Scenario(), pids: filepath.Join(t.TempDir(), "pids"), env: map[string]string{}}
	s.env["TEST_PIDS"] = s.pids
	s.sc.Func(s.next)
	return s
}

// noisy gives the seat's claude what a case wants on its stdout.
func (s *seat) noisy(turns []backendtest.Turn) *seat {
	for _, turn := range turns {
		for _, step := range turn.Steps {
			if step.Noise != "" {
				s.env["TEST_NOISE"], s.env["TEST_REAL"], s.env["CLAUDECODE_TEST_ROLE"] = string(step.Noise), s.b.claude, "proxy"
			}
		}
	}
	return s
}

// Config implements backendtest.Seat.
func (s *seat) Config() backends.Config {
	return backends.Config{Credential: &backends.Credential{Key: s.sc.Key(), BaseURL: s.sc.BaseURL()}, Env: s.env}
}

func (s *seat) started() []int {
	raw, _ := os.ReadFile(s.pids)
	var out []int
	for _, f := range strings.Fields(string(raw)) {
		if n, err := strconv.Atoi(f); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// Starts implements backendtest.Starter. The first process starts with the
// first run, which brings what it must be told at its start: it counts as
// started before.
func (s *seat) Starts() int { return max(len(s.started()), 1) }

// Kill implements backendtest.Killer.
func (s *seat) Kill() error {
	all := s.started()
	if len(all) == 0 {
		return fmt.Errorf("no claude was started")
	}
	pid := all[len(all)-1]
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(raw), ") Z ") {
			return nil
		}
	}
	return fmt.Errorf("%d does not die", pid)
}

// Asked implements backendtest.Waiter.
func (s *seat) Asked(ctx context.Context) error {
	s.mu.Lock()
	n := s.asked
	s.mu.Unlock()
	return s.sc.Await(ctx, n+1)
}

// Heard implements backendtest.Seat.
func (s *seat) Heard() string {
	all := s.sc.Requests()
	if len(all) == 0 {
		return ""
	}
	r := all[len(all)-1]
	var b strings.Builder
	b.WriteString(r.System + "\n")
	for _, m := range r.Messages {
		hear(&b, m.Parts)
	}
	return b.String()
}

func hear(b *strings.Builder, parts []modelstub.Part) {
	for _, p := range parts {
		if len(p.Parts) > 0 {
			hear(b, p.Parts)
			continue
		}
		b.WriteString(p.Text + p.Data + "\n")
	}
}

// Arrange implements backendtest.Seat.
func (s *seat) Arrange(steps []backendtest.Step) backendtest.Setup {
	p := &script{seat: s}
	p.steps(steps)
	p.flush()
	s.mu.Lock()
	s.asked, s.queue = s.sc.Count(), p.turns
	s.mu.Unlock()
	if p.unasked {
		return backendtest.Setup{Settings: backends.Settings{Options: autoOptions}}
	}
	return backendtest.Setup{}
}

// script turns steps into model turns: text and reasoning up to a call are one.
type script struct {
	seat   *seat
	turns  []arranged
	blocks []modelstub.Block
	usage  *modelstub.Usage
	finish string
	text   bool // the last block is text

	unasked bool // it has a tool that asks nobody
}

func (p *script) add(t modelstub.Turn)    { p.turns = append(p.turns, arranged{turn: t}) }
func (p *script) always(t modelstub.Turn) { p.turns = append(p.turns, arranged{turn: t, lasts: true}) }

func (p *script) flush() {
	if len(p.blocks) == 0 {
		return
	}
	t := modelstub.Say(p.blocks...)
	if p.usage != nil {
		t = t.Uses(*p.usage)
	}
	if p.finish != "" {
		t = t.Stops(p.finish)
	}
	p.add(t)
	switch p.finish { // claude asks the model to go on
	case backends.ReasonMaxTokens:
		p.always(modelstub.Empty().Stops(p.finish))
	case backends.ReasonRefusal:
		p.always(t)
	}
	p.blocks, p.usage, p.text = nil, nil, false
}

// say adds text. Two texts in a row would be one message, so that something
// is thought between them.
func (p *script) say(b modelstub.Block) {
	if p.text {
		p.blocks = append(p.blocks, modelstub.Thinking("And then."))
	}
	p.blocks, p.text = append(p.blocks, b), true
}

func (p *script) other(b modelstub.Block) { p.blocks, p.text = append(p.blocks, b), false }

func (p *script) steps(steps []backendtest.Step) {
	for _, s := range steps {
		p.step(s)
	}
}

func (p *script) step(s backendtest.Step) {
	delay := time.Duration(s.DelayMS) * time.Millisecond
	switch {
	case s.Text != "":
		b := modelstub.Text(s.Text).Every(delay)
		if s.ChunkBytes > 0 {
			b = b.Chunk(s.ChunkBytes)
		}
		p.say(b)
	case s.Reasoning != "":
		p.other(modelstub.Thinking(s.Reasoning).Every(delay))
	case s.Flood != nil:
		size := s.Flood.Bytes
		if size == 0 {
			size = 40
		}
		p.say(modelstub.Flood(s.Flood.Deltas, size))
	case s.Tool != nil:
		p.unasked = true
		p.call(modelstub.Tool("Bash", bashInput(s.Tool.Input)))
	case s.Permission != nil:
		p.call(modelstub.Tool("Bash", bashInput(s.Permission.Input)))
	case s.Call != nil:
		p.call(hostCall(*s.Call))
	case len(s.Calls) > 0:
		var calls []modelstub.Block
		for _, c := range s.Calls {
			calls = append(calls, hostCall(c))
		}
		p.call(calls...)
	case s.Ask != nil:
		p.call(modelstub.Tool("AskUserQuestion", map[string]any{"questions": []any{map[string]any{
			"question": s.Ask.Message, "header": "Question", "multiSelect": false,
			"options": []any{map[string]any{"label": "Red", "description": "r"}, map[string]any{"label": "Blue", "description": "b"}},
		}}}))
	case s.Usage != nil:
		p.usage = &modelstub.Usage{Input: int(*s.Usage.InputTokens), Output: int(*s.Usage.OutputTokens)}
	case s.SleepMS > 0:
		p.other(modelstub.Control().Sleep(time.Duration(s.SleepMS) * time.Millisecond))
	case s.Retry != nil:
		p.flush()
		half := len(s.Retry.Text) / 2
		p.add(modelstub.Say(modelstub.Text(s.Retry.Text[:half]).Sleep(300 * time.Millisecond).Cut(modelstub.CutReset)))
		p.add(modelstub.Say(modelstub.Text(s.Retry.Text)))
	case s.Error != nil:
		p.always(failing(s.Error.Type))
	case s.Stall:
		p.always(modelstub.NoAnswer())
	case s.Empty:
		p.always(modelstub.Empty())
	case s.Crash != nil:
		gate := modelstub.NewGate()
		p.other(modelstub.Control().Hold(gate))
		go func() { // ends with the test at the latest
			select {
			case <-gate.Reached():
				_ = p.seat.Kill()
			case <-p.seat.t.Context().Done():
			}
			gate.Release()
		}()
	case s.Finish != "":
		p.finish = s.Finish
	case s.Noise != "": // the proxy makes it
	default:
		p.seat.t.Errorf("the rig has no way to do %+v", s)
	}
}

// call ends a model turn with calls.
func (p *script) call(calls ...modelstub.Block) {
	p.blocks = append(p.blocks, calls...)
	p.flush()
}

func hostCall(c backendtest.Call) modelstub.Block {
	args := c.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	return modelstub.Tool("mcp__host__"+c.Tool, args)
}

func bashInput(in json.RawMessage) map[string]any {
	var m map[string]any
	_ = json.Unmarshal(in, &m)
	if m == nil {
		m = map[string]any{}
	}
	m["description"] = "A command"
	return m
}

// failing is a model that fails in the way of a class.
func failing(class string) modelstub.Turn {
	switch class {
	case events.ErrAuth:
		return modelstub.Fail(401)
	case events.ErrRateLimit:
		return modelstub.RateLimited(0)
	case events.ErrQuota:
		return modelstub.NoCredit()
	case events.ErrInvalidRequest:
		return modelstub.Fail(400)
	case events.ErrContextLength:
		return modelstub.ContextTooLong()
	case events.ErrModelUnavailable:
		return modelstub.Fail(404)
	}
	return modelstub.Fail(529)
}
