// Package backendtest is the conformance suite that every backend passes:
// what an agent must do for a host, whichever agent it is.
//
// A Case is data: a neutral script for the agent (Step), how the host behaves
// (Host), and what must come out (Want). Run plays All cases against a Backend
// with a Recorder in the place of the run. Tests of the whole server play
// Cases, those that need no more than a host has, over HTTP: they arrange the script, behave as Host says, and give
// what they read to Want.Check and CheckOrder.
//
// A Rig says how one agent is brought to do a script. The simulated agent
// takes the steps as they are:
//
//	backendtest.Run(t, backendtest.Rig{
//		Name:    "simulate",
//		Backend: func(testing.TB) backends.Backend { return simulate.New(&simulate.Options{StateDir: dir}) },
//		Seat:    func(t testing.TB, c backendtest.Case) backendtest.Seat { return &seat{} },
//		Lacks:   map[backendtest.Need]string{backendtest.NeedProcess: "it has no process of its own"},
//	})
//
//	func (s *seat) Arrange(steps []backendtest.Step) backendtest.Setup {
//		return backendtest.Setup{Settings: backends.Settings{Options: backendtest.Script(steps)}}
//	}
//
// A real agent needs a scripted model. Its seat has a scenario of its own on a
// model server of the test, which Config names as the credential, and Arrange
// translates: each run of text and reasoning up to the next call is one model
// turn, a call ends it.
//
//	func (s *seat) Config() backends.Config {
//		return backends.Config{Credential: &backends.Credential{Key: s.scenario.Key(), BaseURL: s.scenario.BaseURL()}}
//	}
//
//	func (s *seat) Arrange(steps []backendtest.Step) backendtest.Setup {
//		for _, step := range steps {
//			switch {
//			case step.Text != "":
//				s.scenario.Add(modelstub.Say(modelstub.Text(step.Text).Chunk(step.ChunkBytes)))
//			case step.Tool != nil: // the suite's "shell" is the agent's own tool of that kind
//				s.scenario.Add(modelstub.Say(modelstub.Tool("Bash", step.Tool.Input)))
//			case step.Call != nil:
//				s.scenario.Add(modelstub.Say(modelstub.Tool("mcp__host__"+step.Call.Tool, step.Call.Arguments)))
//			…
//		}
//		return backendtest.Setup{}
//	}
//
//	// Heard is all that the model was sent last: system text, messages, results.
//	func (s *seat) Heard() string { return flatten(last(s.scenario.Requests())) }
//
// A seat may also implement Killer, Starter, Waiter, Viewer and Counter.
//
// # The table
//
// Each case is part of a Row of the table of agents, docs/agents.md. Run keeps
// what it found in the file Rig.Table, "ok" or the reason why the agent cannot
// (Rig.Lacks, Rig.Skip), and fails where the file says otherwise; -update
// writes it. What failed is never written, what was not played not compared.
// Capabilities that a backend claims must be those that its table shows.
//
// A case that is added needs a row, a mutant that it finds, and, where it
// needs a new kind of Step, its words in the script of the simulated agent and
// in the translators to the real ones, which refuse what they do not know.
package backendtest
