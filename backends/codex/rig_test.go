package codex_test

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
	"innerd/backends/codex"
	"innerd/test/agents"
	"innerd/test/codexscript"
	"innerd/test/modelstub"
)

// bench is what a test with the real CLI stands on: a model server, a folder
// for sessions, a supervisor.
type bench struct {
	stub     *modelstub.Server
	home     string
	wrapper  string // a script that notes its pid and becomes codex, which takes no setting that it does not know
	children *backends.Children
	codex    string
	last     *codex.Backend // that a conversation was opened with
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{stub: modelstub.New(), home: t.TempDir(), codex: agents.Codex(t).Path}
	b.children = backends.NewChildren(backends.ChildrenOptions{})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.children.Close(ctx); err != nil {
			t.Error(err)
		}
		b.stub.Close()
	})
	b.wrapper = filepath.Join(t.TempDir(), "codex")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = app-server ] && set -- \"$@\" --strict-config\n[ -n \"$TEST_PIDS\" ] && echo $$ >> \"$TEST_PIDS\"\n"+
		"[ -n \"$TEST_NOISE$TEST_RECORD\" ] && exec %q \"$@\"\nexec %q \"$@\"\n", self, b.codex)
	agents.WriteProgram(t, b.wrapper, script)
	return b
}

// backend makes one whose own key is a dummy; conversations bring theirs.
func (b *bench) backend() *codex.Backend { return b.backendIn(b.home) }

func (b *bench) backendIn(home string) *codex.Backend {
	return codex.New(&codex.Options{
		Path: b.wrapper, Home: home, Children: b.children, MaxRetries: 2,
		Getenv: env(map[string]string{"OPENAI_API_KEY": "sk-dummy"}),
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
	asked int                // requests before the last Arrange
	queue []codexscript.Turn // what the model does next
}

// next answers a request of the CLI.
func (s *seat) next(r modelstub.Request) modelstub.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	var t modelstub.Turn
	t, s.queue = codexscript.Take(s.queue, r)
	return t
}

func (b *bench) seat(t testing.TB) *seat {
	s := &seat{t: t, b: b, sc: b.stub.Scenario(), pids: filepath.Join(t.TempDir(), "pids"), env: map[string]string{}}
	s.env["TEST_PIDS"] = s.pids
	s.env["HOME"] = t.TempDir() // commands run in login shells, and a profile may be slow
	s.sc.Func(s.next)
	return s
}

// of gives the seat what a case wants of its codex: noise on its stdout, a
// model that is not there.
func (s *seat) of(c backendtest.Case) *seat {
	if recorded(c.Name) {
		s.record(*recordTo, c.Name)
	}
	for _, turn := range c.Turns {
		for _, step := range turn.Steps {
			if step.Noise != "" {
				s.env["TEST_NOISE"], s.env["TEST_REAL"], s.env["CODEX_TEST_ROLE"] = string(step.Noise), s.b.codex, "proxy"
			}
		}
	}
	if c.Uses(func(step backendtest.Step) bool { return step.Refused }) {
		s.base = "http://127.0.0.1:9/v1"
	}
	return s
}

// record keeps what goes between the backend and codex in a file of the case's name.
func (s *seat) record(dir, name string) {
	if dir == "" {
		return
	}
	path := filepath.Join(dir, name+".jsonl")
	_ = os.Remove(path)
	s.env["TEST_RECORD"], s.env["TEST_REAL"], s.env["CODEX_TEST_ROLE"] = path, s.b.codex, "proxy"
}

// Config implements backendtest.Seat.
func (s *seat) Config() backends.Config {
	base := s.base
	if base == "" {
		base = s.sc.V1()
	}
	return backends.Config{
		Credential: &backends.Credential{Key: s.sc.Key(), BaseURL: base, Model: codexscript.Model}, Env: s.env,
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
// first run, which brings what its thread must be told: it counts as started
// before.
func (s *seat) Starts() int { return max(len(s.started()), 1) }

// Kill implements backendtest.Killer.
func (s *seat) Kill() error {
	all := s.started()
	if len(all) == 0 {
		return fmt.Errorf("no codex was started")
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
	if len(all) == 0 {
		return modelstub.Request{}, false
	}
	return all[len(all)-1], true
}

// Heard implements backendtest.Seat.
func (s *seat) Heard() string {
	r, ok := s.last()
	if !ok {
		return ""
	}
	return codexscript.Heard(r)
}

// Seen implements backendtest.Seer.
func (s *seat) Seen() backendtest.Seen {
	r, _ := s.last()
	return codexscript.Seen(r)
}

// Arrange implements backendtest.Seat.
func (s *seat) Arrange(steps []backendtest.Step) backendtest.Setup {
	p := codexscript.New(s.t, steps, s.Kill)
	s.mu.Lock()
	s.asked, s.queue = s.sc.Count(), slices.Clone(p.Turns())
	s.mu.Unlock()
	if p.Unasked() {
		return backendtest.Setup{Settings: backends.Settings{Options: backendtest.AutoOptions}}
	}
	return backendtest.Setup{}
}
