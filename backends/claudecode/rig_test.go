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
	"innerd/test/agents"
	"innerd/test/claudescript"
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
	limit    time.Duration // of background work
	last     *claudecode.Backend
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
	agents.WriteProgram(t, b.wrapper, script)
	return b
}

// backend makes one whose own key is a dummy; conversations bring theirs.
func (b *bench) backend() *claudecode.Backend {
	return b.backendWith(env(map[string]string{"ANTHROPIC_API_KEY": "sk-dummy"}))
}

func (b *bench) backendWith(getenv func(string) string) *claudecode.Backend {
	return claudecode.New(&claudecode.Options{
		Path: b.wrapper, Home: b.home, Children: b.children, MaxRetries: 1, BackgroundLimit: b.limit,
		Getenv: getenv,
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
	dir  string // of its conversation, where open made it
	env  map[string]string

	refused bool // its model's address is a closed port
	mu      sync.Mutex
	asked   int        // requests before the last Arrange
	all     int        // and those of any kind
	queue   []arranged // what the model does next
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
	s.env["HOME"] = t.TempDir() // or login shells do what this machine's user likes, however long
	s.sc.Func(s.next)
	return s
}

// Seen implements backendtest.Viewer.
func (s *seat) Seen() backendtest.Seen {
	rs := s.sc.Requests()
	if len(rs) == 0 {
		return backendtest.Seen{}
	}
	r := rs[len(rs)-1]
	var body struct {
		Output struct{ Effort string } `json:"output_config"`
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		s.t.Error(err)
	}
	seen := backendtest.Seen{Model: r.Model, Effort: body.Output.Effort}
	for _, t := range r.Tools {
		if host, ok := strings.CutPrefix(t.Name, "mcp__host__"); ok {
			seen.Tools = append(seen.Tools, host)
		} else {
			seen.Natives = append(seen.Natives, t.Name)
		}
	}
	return seen
}

// Asks implements backendtest.Counter.
func (s *seat) Asks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sc.Count() + len(s.sc.Side()) - s.all
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
	url := s.sc.BaseURL()
	if s.refused {
		url = "http://127.0.0.1:9" // nobody listens there
	}
	return backends.Config{Credential: &backends.Credential{Key: s.sc.Key(), BaseURL: url}, Env: s.env}
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
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
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
	return claudescript.Heard(all[len(all)-1])
}

// Arrange implements backendtest.Seat.
func (s *seat) Arrange(steps []backendtest.Step) backendtest.Setup {
	p := claudescript.New(s.t, steps, s.Kill)
	s.mu.Lock()
	s.asked, s.all, s.queue = s.sc.Count(), s.sc.Count()+len(s.sc.Side()), nil
	for _, m := range p.Turns() {
		s.queue = append(s.queue, arranged{turn: m.Turn, lasts: m.Lasts})
	}
	s.mu.Unlock()
	if p.Unasked() {
		return backendtest.Setup{Settings: backends.Settings{Options: backendtest.AutoOptions}}
	}
	return backendtest.Setup{}
}
