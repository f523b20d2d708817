//go:build linux

package faults_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// Fifty conversations with the real agents at once, and ten with simulate, each
// with a word of its own in all that is said, asked and answered, and all with the same native
// id of their calls; half of Codex's over the second road of the host's tools, which no other
// has. The agents share processes and a model. No word is anywhere but in its own run's log,
// its own conversation's files, the agent's and the server's, and its own requests to the model.
func TestConversationsAreApart(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := newRig(t)
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	var all []*apart
	for _, part := range []struct {
		v vendor
		n int
	}{{claudeCLI, pick(1, 10)}, {codexCLI, pick(30, 20)}, {copilotCLI, pick(19, 20)}} {
		r.Env = append(r.Env, part.v.path(t))
		m := &manyFold{asked: map[string]int{}}
		sc := stub.Scenario()
		sc.Func(m.next)
		for i := range part.n {
			all = append(all, &apart{v: part.v, m: m, sc: sc, word: fmt.Sprintf("word-%s-%03d-end", strings.ReplaceAll(part.v.backend, "-", ""), i), mcp: i%2 == 1})
		}
	}
	for i := range 10 {
		all = append(all, &apart{v: vendor{backend: "simulate"}, word: fmt.Sprintf("word-simulate-%03d-end", i)})
	}
	r.start()
	var sum tally
	for range pick(1, 3) {
		togetherApart(t, r, all, &sum)
	}
	for _, c := range all {
		if c.m != nil {
			c.m.report(t)
		}
	}
	keptApart(t, r, all)
	result(t, fmt.Sprintf("%d conversations at once, equal call ids (simulate, 3 real CLIs; tools over both roads with Codex, the one that has two): no word elsewhere", len(all)), sum.sum, time.Since(began))
}

// apart is one of the conversations.
type apart struct {
	history
	v    vendor
	m    *manyFold
	sc   *modelstub.Scenario
	word string
	mcp  bool // the second road, where the agent has it
	runs []string
}

// second reports whether its tools come over MCP, where an agent's own id of a
// call is not told.
func (c *apart) second() bool { return c.mcp && c.v.backend == codexCLI.backend }

func togetherApart(t *testing.T, r *rig, all []*apart, sum *tally) {
	t.Helper()
	var each, open sync.WaitGroup
	open.Add(len(all))
	ready := make(chan struct{})
	for _, c := range all {
		each.Go(func() { c.talk(t, r, open.Done, ready, sum) }) // ends with its two runs
	}
	open.Wait()
	close(ready)
	each.Wait()
	for _, c := range all {
		for _, task := range c.runs {
			if where := foreign(t, r.runDir(task), c.word); len(where) > 0 {
				t.Errorf("the log of %s has words of others: %q", c.word, where)
			}
		}
	}
}

// talk is two runs; the call of the first is open when ready is closed.
func (c *apart) talk(t *testing.T, r *rig, open func(), ready <-chan struct{}, sum *tally) {
	once := sync.OnceFunc(open)
	defer once()
	p := c.post(t, r, "ask "+c.word)
	b := r.book(t, p)
	req := server.Until[events.ToolRequest](p, 1)
	once()
	<-ready
	if !strings.Contains(string(req.Arguments), c.word) {
		t.Errorf("%s was asked with %s", c.word, req.Arguments)
	}
	if native := map[bool]string{true: "", false: "call_same"}[c.second()]; c.m != nil && req.NativeID != native {
		t.Errorf("%s: the native id is %q, not %q", c.word, req.NativeID, native)
	}
	r.Result(req.ToolCallID, map[string]any{"result": "result " + c.word})
	sum.add(b.closed(t, ""))
	if c.m == nil && !strings.Contains(p.Text(), "result "+c.word) { // the others say it to their model
		t.Errorf("%s was given another result: %q", c.word, p.Text())
	}
	resolvedOnce(t, p, req.ToolCallID)
	p2 := c.post(t, r, "once more "+c.word)
	b2 := r.book(t, p2)
	sum.add(b2.closed(t, ""))
	c.runs = append(c.runs, b.task, b2.task)
	for text, in := range map[string]string{"then " + c.word: p.Text(), "last " + c.word: p2.Text()} {
		if !strings.Contains(in, text) {
			t.Errorf("%s said %q", c.word, in)
		}
	}
}

func (c *apart) post(t *testing.T, r *rig, text string) *server.Tape {
	t.Helper()
	if c.m == nil {
		steps := fmt.Sprintf(`[{"text":"say %[1]s. "},{"call":{"tool":"look","arguments":{"of":"arg %[1]s"}}},{"text":"then %[1]s. "}]`, c.word)
		if strings.HasPrefix(text, "once more") {
			steps = fmt.Sprintf(`[{"text":"last %s. "}]`, c.word)
		}
		c.last = r.Post(t, in("context "+c.word, c.request(simulate(steps, map[string]any{"native_tool_schemas": lookSchemas}), text)))
		return c.last
	}
	meta := map[string]any{
		"model": c.v.model, "credentials": map[string]any{"api_key": c.sc.Key(), "base_url": c.v.base(c.sc)}, "timeout_s": 600,
		"native_tool_schemas": lookSchemas,
	}
	if c.second() {
		meta["agent_options"] = map[string]any{"tools": "mcp"}
	}
	c.last = r.Post(t, in("context "+c.word, c.request(body(c.v.backend, "", meta), text)))
	return c.last
}

// manyFold is the model of many conversations, which it tells apart by their
// words.
type manyFold struct {
	mu    sync.Mutex
	asked map[string]int // requests by word
	wrong []string
}

var wordForm = regexp.MustCompile(`word-[a-z]+-[0-9]{3}-end`)

func (m *manyFold) next(r modelstub.Request) modelstub.Turn {
	words := map[string]bool{}
	for _, w := range wordForm.FindAllString(string(r.Body), -1) {
		words[w] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(words) != 1 {
		m.wrong = append(m.wrong, fmt.Sprintf("a request to the model has the words %v", words))
		return modelstub.Say(modelstub.Text("(no word)"))
	}
	for w := range words {
		m.asked[w]++
		switch m.asked[w] % 3 {
		case 1:
			return modelstub.Say(modelstub.Text("say "+w+". "), look("arg "+w).block(r))
		case 2:
			if got := r.ToolResult(); !strings.Contains(got, "result "+w) {
				m.wrong = append(m.wrong, fmt.Sprintf("%s was given the result %q", w, got))
			}
			return modelstub.Say(modelstub.Text("then " + w + ". "))
		default:
			return modelstub.Say(modelstub.Text("last " + w + ". "))
		}
	}
	return modelstub.Empty()
}

func (m *manyFold) report(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.wrong {
		t.Error(w)
	}
	m.wrong = nil
	for w, n := range m.asked {
		if n%3 != 0 {
			t.Errorf("for %s the model was asked %d times", w, n)
		}
	}
}

// foreign are the words of others in the files of a folder.
func foreign(t *testing.T, dir, own string) (found []string) {
	t.Helper()
	n := 0
	for path, words := range wordsIn(t, dir) {
		for w := range words {
			n++
			if w != own {
				found = append(found, filepath.Base(path)+": "+w)
			}
		}
	}
	if n == 0 {
		t.Errorf("%s: no word is in the log", own)
	}
	return found
}
