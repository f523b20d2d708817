//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/simulate"
	"innerd/test/agents"
	"innerd/test/claudescript"
	"innerd/test/modelstub"
)

// rig is one agent that the cases are played with.
type rig struct {
	backend string
	lacks   map[backendtest.Need]string
	skip    map[string]string
	server  func(testing.TB) *server // not started
	seat    func(testing.TB, *server, string) seat
	share   bool // cases that harm neither server nor agent have them in common: a start is dear
}

// conform plays every case over HTTP, each on a server of its own, or on a
// common one.
func conform(t *testing.T, r rig) {
	var common *server
	if r.share {
		common = r.server(t)
		common.Start()
	}
	for _, c := range backendtest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if why := r.impossible(c); why != "" {
				t.Skip(why)
			}
			t.Parallel()
			var s *server
			shared := common != nil && !harms(c)
			if shared {
				s = common.of(t)
			} else {
				s = r.server(t)
				s.Start()
			}
			main := &talk{t: t, s: s, backend: r.backend, contextID: c.Name + "-main", seat: r.seat(t, s, c.Name+"-main"), shared: shared}
			var beside sync.WaitGroup
			if len(c.Beside) > 0 {
				k := &talk{t: t, s: s, backend: r.backend, contextID: c.Name + "-beside", seat: r.seat(t, s, c.Name+"-beside"), shared: shared}
				beside.Go(func() { k.play(c.Beside) })
			}
			main.play(c.Turns)
			beside.Wait()
		})
	}
}

// harms reports whether a case ends the server, or an agent that others share.
func harms(c backendtest.Case) bool {
	for _, turn := range slices.Concat(c.Turns, c.Beside) {
		if turn.Before == backendtest.BeforeRestart || turn.Before == backendtest.BeforeKill {
			return true
		}
	}
	return c.Uses(func(s backendtest.Step) bool { return s.Crash != nil })
}

func (r rig) impossible(c backendtest.Case) string {
	if c.Long && !long() {
		return "takes over a minute; set " + backendtest.LongEnv + "=1"
	}
	if why := r.skip[c.Name]; why != "" {
		return why
	}
	for _, need := range c.Needs {
		if why := r.lacks[need]; why != "" {
			return string(need) + ": " + why
		}
	}
	return ""
}

func TestConformanceOfSimulate(t *testing.T) {
	conform(t, rig{
		backend: "simulate",
		lacks: map[backendtest.Need]string{
			backendtest.NeedProcess: "it lives in the server",
			backendtest.NeedLines:   "it has no output that could be spoilt",
		},
		server: newServer,
		seat: func(t testing.TB, s *server, contextID string) seat {
			return &simulateSeat{t: t, s: s, contextID: contextID}
		},
	})
}

// simulateSeat reads what simulate was told from its session on disk.
type simulateSeat struct {
	t         testing.TB
	s         *server
	contextID string
}

func (p *simulateSeat) arrange(steps []backendtest.Step) map[string]any {
	return map[string]any{"agent_options": backendtest.Script(steps)}
}

func (p *simulateSeat) asked(context.Context) error { return nil }

func (p *simulateSeat) heard() string {
	files, _ := filepath.Glob(filepath.Join(p.s.State, "conversations", "*", "state.json"))
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			p.t.Error(err)
		}
		var state struct {
			ContextID string `json:"context_id"`
			Session   struct{ ID string }
		}
		if json.Unmarshal(raw, &state) != nil || state.ContextID != p.contextID {
			continue
		}
		told, err := simulate.New(&simulate.Options{StateDir: filepath.Join(p.s.Agents, "simulate")}).Told(state.Session.ID)
		if errors.Is(err, backends.ErrNoSession) {
			return "" // the turn was canceled before it was told anything
		} else if err != nil {
			p.t.Errorf("the session of %s: %v", p.contextID, err)
		}
		heard := []string{told.System}
		for _, e := range told.Entries {
			heard = append(heard, e.Text)
			for _, part := range e.Parts {
				heard = append(heard, part.Text, part.Data)
			}
		}
		return strings.Join(heard, "\n")
	}
	p.t.Errorf("conversation %q has no state", p.contextID)
	return ""
}

// The real Claude Code, with a scripted model.
func TestConformanceOfClaudeCode(t *testing.T) {
	claude := agents.Claude(t).Path
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	conform(t, rig{
		backend: "claude-code",
		lacks:   map[backendtest.Need]string{backendtest.NeedLines: "nothing stands between the server and the real one that could spoil its lines"},
		skip: map[string]string{
			"error-internal": "no failure of a provider is the server's own: a 500 is worth another try, so it is overloaded",
		},
		server: func(t testing.TB) *server { return withClaude(t, claude) },
		seat: func(t testing.TB, s *server, _ string) seat {
			return &claudeSeat{t: t, s: s, sc: stub.Scenario()}
		},
	})
}

// withClaude makes a server whose Claude Code has no key of its own.
func withClaude(t testing.TB, path string) *server {
	s := newServer(t)
	s.Env = append(s.Env, "INNERD_CLAUDE_CODE_PATH="+path, "ANTHROPIC_API_KEY=sk-dummy-of-the-server")
	return s
}

// claudeSeat has a scenario of its own on the model server.
type claudeSeat struct {
	t  testing.TB
	s  *server
	sc *modelstub.Scenario

	before int // requests before the last arrange
}

func (p *claudeSeat) arrange(steps []backendtest.Step) map[string]any {
	p.before = p.sc.Count()
	p.sc.Func(claudescript.New(p.t, steps, p.s.killAgent).Next)
	return map[string]any{"credentials": map[string]any{"api_key": p.sc.Key(), "base_url": p.sc.BaseURL()}}
}

func (p *claudeSeat) asked(ctx context.Context) error { return p.sc.Await(ctx, p.before+1) }

func (p *claudeSeat) heard() string {
	all := p.sc.Requests()
	if len(all) == 0 {
		return ""
	}
	return claudescript.Heard(all[len(all)-1])
}

// killAgent ends the server's one agent process with SIGKILL.
func (s *server) killAgent() error {
	pids := s.Marked()
	if len(pids) == 0 {
		return fmt.Errorf("no agent runs")
	}
	return syscall.Kill(pids[0], syscall.SIGKILL)
}
