//go:build linux

package parity_test

import (
	"testing"
	"time"

	"innerd/backends/backendtest"
	"innerd/test/agents"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// agent is one that the rows are tried with.
type agent struct {
	name   string
	env    []string                         // of the server: where the program is
	vendor string                           // INNERD_<vendor>_API_KEY and _BASE_URL are the agent's
	base   func(*modelstub.Scenario) string // the model's address; nil: it has no model
	model  string
	cannot map[string]string // rows that the agent itself cannot do, with the reason
	partly map[string]string // rows that it does but for something
	untold time.Duration     // of a rate limit that it tells without its time
}

// row is something that a host sees of an agent.
type row struct {
	name string
	try  func(*world)
}

// world is what one row has: a server, and conversations of its own.
type world struct {
	*testing.T
	a *agent
	s *server.Server // shared by rows that do not end it or its agents
}

// alone gives the row a server of its own.
func (w *world) alone() {
	w.s = w.a.server(w.T)
	w.s.Start()
}

func (a *agent) server(t testing.TB) *server.Server {
	s := server.New(t, innerd)
	s.Env = append(s.Env, a.env...)
	return s
}

func rows() []row {
	var out []row
	for _, more := range [][]row{bridgeRows, askRows, settingRows, memoryRows, manyRows, errorRows, lifeRows, safetyRows} {
		out = append(out, more...)
	}
	return out
}

// parity tries every row with an agent.
func parity(t *testing.T, a *agent) {
	t.Parallel()
	all := rows()
	names := backendtest.HTTPNames()
	for _, r := range all {
		names = append(names, r.name)
	}
	tb := backendtest.OpenTable(t, "testdata/table-"+a.name+".json", a.name, names)
	shared := a.server(t)
	shared.Start()
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) {
			why := a.cannot[r.name]
			defer func() {
				if but := a.partly[r.name]; but != "" && !t.Failed() {
					tb.But(r.name, but, false)
					return
				}
				tb.Ended(t, r.name, why, false)
			}()
			if why != "" {
				t.Skip(why)
			}
			t.Parallel()
			r.try(&world{T: t, a: a, s: shared.For(t)})
		})
	}
}

// agentsOf are those that are installed; one that is missing fails the test.
func agentsOf(t testing.TB) []*agent {
	return []*agent{simulated(), claudeCode(t), codex(t), copilot(t)}
}

func simulated() *agent {
	return &agent{name: "simulate", cannot: map[string]string{
		"error-bad-key":            "it needs no key",
		"error-no-login":           "it needs no login",
		"error-refused-connection": "it has no model to connect to",
		"error-cut-stream":         "it has no model whose stream could be cut",
		"canary-key":               "it needs no key",
	}}
}

func claudeCode(t testing.TB) *agent {
	return &agent{
		name: "claude-code", vendor: "CLAUDE_CODE", env: []string{"INNERD_CLAUDE_CODE_PATH=" + agents.Claude(t).Path},
		base: (*modelstub.Scenario).BaseURL, model: "claude-sonnet-4-5",
		untold: 2 * time.Minute,
		partly: map[string]string{"error-rate-limit": "the time of a limit of over a minute is not told: the CLI gives up and keeps it to itself"},
	}
}

func codex(t testing.TB) *agent {
	return &agent{
		name: "codex", vendor: "CODEX", env: []string{"INNERD_CODEX_PATH=" + agents.Codex(t).Path},
		base: (*modelstub.Scenario).V1, model: "gpt-5.5",
		cannot: map[string]string{"max-cost-usd": "it does not know what a token costs"},
	}
}

func copilot(t testing.TB) *agent {
	return &agent{
		name: "copilot", vendor: "COPILOT", env: []string{"INNERD_COPILOT_PATH=" + agents.Copilot(t).Path},
		base: (*modelstub.Scenario).V1, model: "gpt-5.4",
		cannot: map[string]string{"max-cost-usd": "it does not know what a token of a provider costs"},
	}
}

func TestSimulate(t *testing.T)   { parity(t, simulated()) }
func TestClaudeCode(t *testing.T) { parity(t, claudeCode(t)) }
func TestCodex(t *testing.T)      { parity(t, codex(t)) }
func TestCopilot(t *testing.T)    { parity(t, copilot(t)) }
