//go:build linux

package e2e_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"innerd/backends/backendtest"
	"innerd/test/agents"
	"innerd/test/codexscript"
	"innerd/test/copilotscript"
	"innerd/test/modelstub"
)

// agentKey is the key of every conversation of an agent whose conversations
// share a process where they have it in common. The model server tells them
// apart by their addresses.
const agentKey = "sk-dummy-of-all"

// The real Codex, with a scripted model.
func TestConformanceOfCodex(t *testing.T) {
	path := agents.Codex(t).Path
	conform(t, rig{
		backend: "codex", share: true,
		lacks: map[backendtest.Need]string{backendtest.NeedLines: "nothing stands between the server and the real one that could spoil its lines"},
		skip: map[string]string{
			"error-internal": "no failure of a provider is the server's own: a 500 is worth another try, so it is overloaded",
			"reason-refusal": "it drops what a model says as a refusal: the turn ends like any other, and nothing was said",
		},
		server: func(t testing.TB) *server {
			s := newServer(t)
			s.Env = append(s.Env, "INNERD_CODEX_PATH="+path)
			return s
		},
		seat: openAISeats(t, codexscript.Model, "", func(t testing.TB, steps []backendtest.Step, kill func() error) *asked[codexscript.Turn] {
			return &asked[codexscript.Turn]{queue: slices.Clone(codexscript.New(t, steps, kill).Turns()), take: codexscript.Take}
		}, codexscript.Heard),
	})
}

// The real Copilot, with a scripted model.
func TestConformanceOfCopilot(t *testing.T) {
	path := agents.Copilot(t).Path
	conform(t, rig{
		backend: "copilot", share: true,
		lacks: map[backendtest.Need]string{backendtest.NeedLines: "nothing stands between the server and the real one that could spoil its lines"},
		skip: map[string]string{
			"error-internal": "no failure of a provider is the server's own: a 500 is worth another try, so it is overloaded",
		},
		server: func(t testing.TB) *server {
			s := newServer(t)
			s.Env = append(s.Env, "INNERD_COPILOT_PATH="+path)
			return s
		},
		seat: openAISeats(t, copilotscript.Model, "openai", func(t testing.TB, steps []backendtest.Step, kill func() error) *asked[copilotscript.Turn] {
			return &asked[copilotscript.Turn]{queue: slices.Clone(copilotscript.New(t, steps, kill).Turns()), take: copilotscript.Take}
		}, copilotscript.Heard),
	})
}

// asked is what a model still has to answer.
type asked[T any] struct {
	mu    sync.Mutex
	queue []T
	take  func([]T, modelstub.Request) (modelstub.Turn, []T)
}

func (a *asked[T]) next(r modelstub.Request) modelstub.Turn {
	a.mu.Lock()
	defer a.mu.Unlock()
	var t modelstub.Turn
	t, a.queue = a.take(a.queue, r)
	return t
}

// openAISeats makes the seats of an agent that speaks to a model as OpenAI has it.
func openAISeats[T any](t testing.TB, model, provider string,
	script func(testing.TB, []backendtest.Step, func() error) *asked[T], heard func(modelstub.Request) string,
) func(testing.TB, *server, string) seat {
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	return func(t testing.TB, s *server, _ string) seat {
		sc := stub.Scenario()
		sc.Accept(agentKey)
		return &openAISeat{
			t: t, s: s, sc: sc, model: model, provider: provider, words: heard,
			script: func(steps []backendtest.Step) func(modelstub.Request) modelstub.Turn {
				return script(t, steps, s.killAgent).next
			},
		}
	}
}

type openAISeat struct {
	t               testing.TB
	s               *server
	sc              *modelstub.Scenario
	model, provider string
	script          func([]backendtest.Step) func(modelstub.Request) modelstub.Turn
	words           func(modelstub.Request) string

	before int // requests before the last arrange
}

func (p *openAISeat) arrange(steps []backendtest.Step) map[string]any {
	p.before = p.sc.Count()
	p.sc.Func(p.script(steps))
	base := p.sc.V1()
	if slices.ContainsFunc(steps, func(s backendtest.Step) bool { return s.Refused }) {
		base = "http://127.0.0.1:9/v1"
	}
	return map[string]any{"credentials": map[string]any{
		"api_key": agentKey, "base_url": base, "model": p.model, "provider": p.provider,
	}}
}

func (p *openAISeat) asked(ctx context.Context) error { return p.sc.Await(ctx, p.before+1) }

func (p *openAISeat) heard() string {
	all := p.sc.Requests()
	if len(all) == 0 {
		return ""
	}
	return p.words(all[len(all)-1])
}
