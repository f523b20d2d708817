//go:build linux

package hosts_test

import (
	"cmp"
	"context"
	"testing"

	"innerd/backends/backendtest"
	"innerd/test/agents"
	"innerd/test/claudescript"
	"innerd/test/codexscript"
	"innerd/test/copilotscript"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// seat has the agent of one conversation do a script.
type seat interface {
	arrange(steps []backendtest.Step) (metadata map[string]any)
	asked(context.Context) error // returns when the model was asked since the last arrange
}

// rig is an agent that the cases are played with.
type rig struct {
	backend string
	env     []string // of the server
	lacks   map[backendtest.Need]string
	skip    map[string]string // cases that the agent can't be brought to, and why
	large   bool              // an agent takes long to start: cases share one where they can
	seat    func(t testing.TB, s *server.Server) seat
}

const noLines = "nothing stands between the server and the real one that could spoil its lines"

func simulated() rig {
	return rig{
		backend: "simulate",
		lacks: map[backendtest.Need]string{
			backendtest.NeedProcess: "it lives in the server",
			backendtest.NeedLines:   "it has no output that could be spoilt",
		},
		seat: func(testing.TB, *server.Server) seat { return simulateSeat{} },
	}
}

type simulateSeat struct{}

func (simulateSeat) arrange(steps []backendtest.Step) map[string]any {
	return map[string]any{"agent_options": backendtest.Script(steps)}
}

func (simulateSeat) asked(context.Context) error { return nil }

// modelSeat has a scenario of its own on the model server.
type modelSeat struct {
	t        testing.TB
	s        *server.Server
	sc       *modelstub.Scenario
	script   func(testing.TB, []backendtest.Step, func() error) func(modelstub.Request) modelstub.Turn
	key      string // "": the scenario's own
	base     string
	model    string
	provider string
	before   int // requests before the last arrange
}

func (p *modelSeat) arrange(steps []backendtest.Step) map[string]any {
	p.before = p.sc.Count()
	p.sc.Func(p.script(p.t, steps, p.s.KillAgents))
	c := map[string]any{"api_key": cmp.Or(p.key, p.sc.Key()), "base_url": p.base, "model": p.model, "provider": p.provider}
	return map[string]any{"credentials": c}
}

func (p *modelSeat) asked(ctx context.Context) error { return p.sc.Await(ctx, p.before+1) }

func claudeCode(t testing.TB, stub *modelstub.Server) rig {
	return rig{
		backend: "claude-code", large: true,
		env:   []string{"INNERD_CLAUDE_CODE_PATH=" + agents.Claude(t).Path},
		lacks: map[backendtest.Need]string{backendtest.NeedLines: noLines},
		skip: map[string]string{
			"error-internal": "no failure of a provider is the server's own: a 500 is worth another try, so it is overloaded",
		},
		seat: func(t testing.TB, s *server.Server) seat {
			sc := stub.Scenario()
			return &modelSeat{t: t, s: s, sc: sc, base: sc.BaseURL(), script: func(t testing.TB, steps []backendtest.Step, kill func() error) func(modelstub.Request) modelstub.Turn {
				return claudescript.New(t, steps, kill).Next
			}}
		},
	}
}

func codex(t testing.TB, stub *modelstub.Server) rig {
	return rig{
		backend: "codex", large: true,
		env:   []string{"INNERD_CODEX_PATH=" + agents.Codex(t).Path},
		lacks: map[backendtest.Need]string{backendtest.NeedLines: noLines},
		seat: func(t testing.TB, s *server.Server) seat {
			sc := stub.Scenario()
			return &modelSeat{t: t, s: s, sc: sc, base: sc.V1(), model: codexscript.Model, script: func(t testing.TB, steps []backendtest.Step, kill func() error) func(modelstub.Request) modelstub.Turn {
				return codexscript.New(t, steps, kill).Next
			}}
		},
	}
}

// copilotKey is the key of every conversation: those that have it in common
// share a process. The model server tells them apart by their addresses.
const copilotKey = "sk-dummy-of-all"

func copilot(t testing.TB, stub *modelstub.Server) rig {
	return rig{
		backend: "copilot", large: true,
		env:   []string{"INNERD_COPILOT_PATH=" + agents.Copilot(t).Path},
		lacks: map[backendtest.Need]string{backendtest.NeedLines: noLines},
		skip: map[string]string{
			"error-internal": "no failure of a provider is the server's own: a 500 is worth another try, so it is overloaded",
		},
		seat: func(t testing.TB, s *server.Server) seat {
			sc := stub.Scenario()
			sc.Accept(copilotKey)
			return &modelSeat{t: t, s: s, sc: sc, key: copilotKey, base: sc.V1(), model: copilotscript.Model, provider: "openai", script: func(t testing.TB, steps []backendtest.Step, kill func() error) func(modelstub.Request) modelstub.Turn {
				return copilotscript.New(t, steps, kill).Next
			}}
		},
	}
}
