//go:build linux

package faults_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"innerd/events"
	"innerd/test/agents"
	"innerd/test/ledger"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// vendor is a real CLI, and how it is given a model.
type vendor struct {
	backend, model string
	path           func(testing.TB) string
	base           func(*modelstub.Scenario) string
}

var (
	claudeCLI = vendor{
		"claude-code", "claude-sonnet-4-5",
		func(t testing.TB) string { return "INNERD_CLAUDE_CODE_PATH=" + agents.Claude(t).Path }, (*modelstub.Scenario).BaseURL,
	}
	codexCLI = vendor{
		"codex", "gpt-5.5",
		func(t testing.TB) string { return "INNERD_CODEX_PATH=" + agents.Codex(t).Path }, (*modelstub.Scenario).V1,
	}
	copilotCLI = vendor{
		"copilot", "gpt-5.4",
		func(t testing.TB) string { return "INNERD_COPILOT_PATH=" + agents.Copilot(t).Path }, (*modelstub.Scenario).V1,
	}
)

// vendors are those that a test is done with: Claude Code, and all of them in
// its long form.
func vendors() []vendor { return pick([]vendor{claudeCLI}, []vendor{claudeCLI, codexCLI, copilotCLI}) }

// actor is a conversation with simulate, or with a real CLI whose model is
// scripted.
type actor struct {
	r       *rig
	v       vendor
	sc      *modelstub.Scenario // nil: simulate
	context string

	history
	idle int // how often the model was asked up to the end of the last run
	seen int // the same at the beginning of the run

	mu   sync.Mutex
	acts []act
	run  string // what the prompt of the run says
}

// history is what a host sends with every run of a conversation: all that was
// said.
type history struct {
	messages []any
	last     *server.Tape // of the last run; nil: there was none, or it is in messages
}

// request puts a prompt behind what was said before.
func (h *history) request(b map[string]any, text string) map[string]any {
	if h.last != nil && h.last.End().State == events.Completed {
		all := server.Of[events.Message](h.last)
		h.messages = append(h.messages, map[string]any{"role": "assistant", "content": all[len(all)-1].Content})
	}
	h.messages = append(h.messages, map[string]any{"role": "user", "content": text})
	b["messages"] = slices.Clone(h.messages)
	return b
}

// act is one thing that the agent is brought to do.
type act struct {
	block func(modelstub.Request) modelstub.Block
	turn  *modelstub.Turn // in the place of a block: one whole answer of the model
	ends  bool            // the agent asks its model again
	sim   string          // simulate's steps
}

func say(text string) act {
	return act{block: func(modelstub.Request) modelstub.Block { return modelstub.Text(text) }, sim: fmt.Sprintf(`{"text":%q}`, text)}
}

// look calls a tool of the host's, under a native id that all share.
func look(arg string) act {
	return act{ends: true, block: func(r modelstub.Request) modelstub.Block {
		for _, t := range r.Tools {
			if t.Name == "look" || strings.HasSuffix(t.Name, "_look") {
				return modelstub.Tool(t.Name, map[string]any{"of": arg}).Namespace(t.Namespace).ID("call_same")
			}
		}
		// Codex has its model search for the tools of MCP servers, and takes their calls unasked.
		return modelstub.Tool("look", map[string]any{"of": arg}).Namespace("mcp__host").ID("call_same")
	}, sim: fmt.Sprintf(`{"call":{"tool":"look","arguments":{"of":%q}}}`, arg)}
}

// shell runs a command with the agent's own tool; simulate only waits.
func shell(command string) act {
	return act{ends: true, block: func(r modelstub.Request) modelstub.Block {
		for _, t := range r.Tools {
			switch t.Name {
			case "Bash", "bash":
				return modelstub.Tool(t.Name, map[string]any{"command": command, "description": "A command"})
			case "exec_command":
				return modelstub.Tool(t.Name, map[string]any{"cmd": command, "yield_time_ms": 30000})
			}
		}
		return modelstub.Text("(no shell is offered)")
	}, sim: fmt.Sprintf(`{"tool":{"name":"shell","input":{"command":%q},"ms":600000}}`, command)}
}

// answers is one whole answer of the model, with what simulate does instead.
func answers(t modelstub.Turn, sim string) act { return act{turn: &t, sim: sim} }

// actor makes one. v nil is simulate; stub is the models' server.
func (r *rig) actor(t testing.TB, v *vendor, stub *modelstub.Server) *actor {
	a := &actor{r: r.For(t), context: strings.ReplaceAll(t.Name(), " ", "-")}
	if v != nil {
		a.v, a.sc = *v, stub.Scenario()
		a.sc.Func(a.next)
	} else {
		a.v.backend = "simulate"
	}
	a.context += "/" + a.v.backend
	return a
}

// each does every row with one conversation of simulate and one of each vendor,
// the rows of a conversation one after another: the run after a fault is the
// one before the next.
func (r *rig) each(t *testing.T, names []string, do func(*testing.T, *actor, int)) {
	t.Helper()
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	var parts sync.WaitGroup
	part := func(v *vendor, name string) {
		t.Run(name, func(t *testing.T) {
			a := r.actor(t, v, stub)
			a.fine(t, "hello")
			for i, row := range names {
				t.Run(row, func(t *testing.T) {
					a.r = r.For(t)
					do(t, a, i)
					if i == len(names)-1 || long() {
						a.fine(t, "again")
					}
				})
			}
		})
	}
	parts.Go(func() { part(nil, "simulate") }) // these end with their rows
	for _, v := range vendors() {
		parts.Go(func() { part(&v, v.backend) })
	}
	parts.Wait()
}

// withVendors has the server find the real CLIs, and starts it.
func (r *rig) withVendors() *rig {
	r.T.Helper()
	for _, v := range vendors() {
		r.Env = append(r.Env, v.path(r.T))
	}
	return r.start()
}

// next is the model.
func (a *actor) next(r modelstub.Request) modelstub.Turn {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !strings.Contains(r.Prompt(), a.run) { // what was said before may stand in front of it
		return modelstub.Say(modelstub.Text("(of another run)")) // on its way when that was ended
	}
	var blocks []modelstub.Block
	for len(a.acts) > 0 {
		now := a.acts[0]
		if now.turn != nil && len(blocks) > 0 {
			break
		}
		a.acts = a.acts[1:]
		if now.turn != nil {
			return *now.turn
		}
		blocks = append(blocks, now.block(r))
		if now.ends {
			break
		}
	}
	if len(blocks) == 0 {
		return modelstub.Say(modelstub.Text("(script over)"))
	}
	return modelstub.Say(blocks...)
}

// lookSchemas is the tool that hosts lend.
var lookSchemas = []any{map[string]any{"name": "look", "description": "A tool.", "parameters": map[string]any{"type": "object"}}}

// does is a run in which the agent does these.
func (a *actor) does(t testing.TB, meta map[string]any, acts ...act) *server.Tape {
	t.Helper()
	all := map[string]any{"native_tool_schemas": lookSchemas}
	prompt := fmt.Sprintf("Go on, %d.", len(a.messages))
	if a.sc != nil {
		if n := a.asked() - a.idle; n != 0 && a.idle > 0 {
			t.Errorf("the model was asked %d times after the end of the run before", n)
		}
		a.idle, a.seen = 0, a.asked()
		all["model"] = a.v.model
		all["credentials"] = map[string]any{"api_key": a.sc.Key(), "base_url": a.v.base(a.sc)}
		a.mu.Lock()
		a.acts, a.run = acts, prompt
		a.mu.Unlock()
	} else {
		var steps []string
		for _, s := range acts {
			if s.sim != "" {
				steps = append(steps, s.sim)
			}
		}
		all["agent_options"] = map[string]any{"script": json.RawMessage("[" + strings.Join(steps, ",") + "]")}
	}
	for k, v := range meta {
		all[k] = v
	}
	a.last = a.r.Post(t, in(a.context, a.request(body(a.v.backend, "", all), prompt)))
	return a.last
}

// fine is a run that must say something and succeed.
func (a *actor) fine(t testing.TB, text string) {
	t.Helper()
	if got := a.does(t, nil, say(text)).Completed().Text(); !strings.Contains(got, text) {
		t.Errorf("%s was to say %q and said %q", a.v.backend, text, got)
	}
}

// ended is called at a run's end: from then on the model must not be listened
// to, and is not asked until the next run.
func (a *actor) ended(t testing.TB) {
	t.Helper()
	if a.sc == nil {
		return
	}
	if err := a.sc.AwaitIdle(t.Context()); err != nil {
		t.Errorf("the model is still listened to: %v", err)
	}
	if n := a.asked(); n > a.seen { // else a first request may still be on its way
		a.idle = n
	}
}

// asked is how often the model was.
func (a *actor) asked() int {
	if a.sc == nil {
		return 0
	}
	return a.sc.Count() + len(a.sc.Side())
}

// book is the ledger of one run whose POST is read to its end.
type book struct {
	r      *rig
	l      *ledger.Ledger
	task   string
	post   *server.Tape
	beside *reading
}

// book begins one; a second reader follows the run from now on.
func (r *rig) book(t testing.TB, p *server.Tape) *book {
	t.Helper()
	b := &book{r: r, l: ledger.New(), task: p.TaskID(), post: p}
	b.beside = r.attached(b.l, "beside", b.task, 0)
	b.beside.Whole()
	return b
}

// closed waits for the run's one end, which must be of this error type, has a
// third reader read it all afterwards, and compares.
func (b *book) closed(t testing.TB, errorType string) ledger.Result {
	t.Helper()
	oneEnd(t, b.post.Whole(), errorType)
	b.beside.clean()
	taped(b.l, "the POST", b.post).Whole()
	b.r.late(b.l, "late", b.task)
	return b.r.compare(b.l, b.task)
}
