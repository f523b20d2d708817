package copilot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/copilot"
	"innerd/test/agents"
	"innerd/test/copilotscript"
	"innerd/test/modelstub"
)

// benchKey is the key of all conversations of a bench: a process is shared by
// those that have the same.
const benchKey = "sk-bench"

// bench is what a test with the real CLI stands on: a model server, a folder
// for sessions, a supervisor.
type bench struct {
	stub     *modelstub.Server
	home     string
	pids     string // of the processes that are shared
	wrapper  string // a script that notes its pid and becomes copilot
	children *backends.Children
	copilot  string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	pinned := agents.Copilot(t)
	b := &bench{stub: modelstub.New(), home: t.TempDir(), copilot: pinned.Path, pids: filepath.Join(t.TempDir(), "pids")}
	b.children = backends.NewChildren(backends.ChildrenOptions{})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.children.Close(ctx); err != nil {
			t.Error(err)
		}
		b.stub.Close()
	})
	dir := t.TempDir()
	b.wrapper = filepath.Join(dir, "copilot")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n[ -n \"$TEST_PIDS\" ] && echo $$ >> \"$TEST_PIDS\"\n"+
		"[ -n \"$TEST_NOISE\" ] && exec %q \"$@\"\nexec %q \"$@\"\n", self, b.copilot)
	agents.WriteProgram(t, b.wrapper, script)
	// What lies beside the binary lies beside the script.
	for _, name := range []string{"package.json", "pkg-cache"} {
		if err := os.Symlink(filepath.Join(filepath.Dir(pinned.Path), name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// backend makes one whose own key is a dummy; conversations bring theirs.
func (b *bench) backend() *copilot.Backend { return b.backendIn(b.home) }

func (b *bench) backendIn(home string) *copilot.Backend {
	return copilot.New(&copilot.Options{
		Path: b.wrapper, Home: home, Children: b.children, MaxRetries: 1,
		Getenv: env(map[string]string{"INNERD_COPILOT_API_KEY": "sk-dummy"}),
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
	base string // of the model's address, where it is not the scenario's

	mu    sync.Mutex
	asked int                  // requests before the last Arrange
	queue []copilotscript.Turn // what the model does next
}

// next answers a request of the CLI.
func (s *seat) next(r modelstub.Request) modelstub.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	var t modelstub.Turn
	t, s.queue = copilotscript.Take(s.queue, r)
	return t
}

func (b *bench) seat(t testing.TB) *seat {
	s := &seat{t: t, b: b, sc: b.stub.Scenario(), pids: b.pids, env: map[string]string{"TEST_PIDS": b.pids}}
	s.sc.Accept(benchKey)
	s.sc.Func(s.next)
	return s
}

// of gives the seat what a case wants of its copilot: one of its own where it
// is killed or noisy, a model that is not there.
func (s *seat) of(c backendtest.Case) *seat {
	own := c.Uses(func(step backendtest.Step) bool { return step.Crash != nil || step.Noise != "" })
	for _, turn := range slices.Concat(c.Turns, c.Beside) {
		own = own || turn.Before != backendtest.BeforeNothing
		for _, step := range turn.Steps {
			if step.Noise != "" {
				s.env["TEST_NOISE"], s.env["TEST_REAL"], s.env["COPILOTTEST_ROLE"] = string(step.Noise), s.b.copilot, "proxy"
			}
		}
	}
	if own {
		s.pids = filepath.Join(s.t.TempDir(), "pids")
		s.env["TEST_PIDS"] = s.pids
	}
	if c.Uses(func(step backendtest.Step) bool { return step.Refused }) {
		s.base = "http://127.0.0.1:9/v1"
	}
	return s
}

// Config implements backendtest.Seat.
func (s *seat) Config() backends.Config {
	base := s.base
	if base == "" {
		base = s.sc.V1()
	}
	return backends.Config{
		Credential: &backends.Credential{Key: benchKey, BaseURL: base, Model: copilotscript.Model, Provider: "openai"}, Env: s.env,
	}
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
// first run, which brings what its session must be told: it counts as started
// before.
func (s *seat) Starts() int { return max(len(s.started()), 1) }

// Kill implements backendtest.Killer.
func (s *seat) Kill() error {
	all := s.started()
	if len(all) == 0 {
		return fmt.Errorf("no copilot was started")
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

// Asks implements backendtest.Counter.
func (s *seat) Asks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sc.Count() - s.asked
}

func (s *seat) last() (modelstub.Request, bool) {
	all := s.sc.Requests()
	for _, r := range slices.Backward(all) {
		if !copilotscript.Summarizes(r) {
			return r, true
		}
	}
	return modelstub.Request{}, false
}

// Heard implements backendtest.Seat.
func (s *seat) Heard() string {
	r, ok := s.last()
	if !ok {
		return ""
	}
	return copilotscript.Heard(r)
}

// Seen implements backendtest.Viewer.
func (s *seat) Seen() backendtest.Seen {
	r, _ := s.last()
	return copilotscript.Seen(r)
}

// Arrange implements backendtest.Seat.
func (s *seat) Arrange(steps []backendtest.Step) backendtest.Setup {
	p := copilotscript.New(s.t, steps, s.Kill)
	s.mu.Lock()
	s.asked, s.queue = s.sc.Count(), slices.Clone(p.Turns())
	s.mu.Unlock()
	if p.Unasked() {
		return backendtest.Setup{Settings: backends.Settings{Options: backendtest.AutoOptions}}
	}
	return backendtest.Setup{}
}
