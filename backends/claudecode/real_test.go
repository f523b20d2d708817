package claudecode_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/modelstub"
)

// open opens a conversation with the real CLI on a scenario of its own.
func (b *bench) open(t *testing.T, cfg backends.Config, turns ...modelstub.Turn) (backends.Conversation, *seat) {
	t.Helper()
	s := b.seat(t)
	for _, turn := range turns {
		s.queue = append(s.queue, arranged{turn: turn})
	}
	c := s.Config()
	s.dir = t.TempDir()
	c.ID, c.Dir, c.Grace, c.Session, c.AddDirs = "01TESTTESTTESTTESTTESTTEST", s.dir, 3*time.Second, cfg.Session, cfg.AddDirs
	c.Save, c.Stray = cfg.Save, cfg.Stray
	b.last = b.backend()
	conv, err := backendtest.Governed{Backend: b.last}.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := conv.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return conv, s
}

func text(s string) modelstub.Turn { return modelstub.Say(modelstub.Text(s)) }

func names(r modelstub.Request) []string {
	var out []string
	for _, t := range r.Tools {
		out = append(out, t.Name)
	}
	return out
}

func tool(name string) backends.Tool {
	return backends.Tool{Name: name, Description: "For tests: " + name, Schema: json.RawMessage(`{"type":"object"}`), Parallel: true}
}

// TestToolsChange: what is new is there at the next turn, what is gone is not
// offered any more, and comes back; a tool that is described in another way
// takes another process. The effort stays what it was.
func TestToolsChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	beta := tool("beta")
	beta.Schema = json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}}}`)
	other := beta
	other.Description = "another one"
	c, s := b.open(t, backends.Config{}, text("one"), text("two"), text("three"),
		modelstub.Say(modelstub.Tool("mcp__host__alpha", map[string]any{})), text("four"), text("five"), text("six"))
	sets := []struct {
		tools []backends.Tool
		want  []string
	}{
		{nil, nil},
		{[]backends.Tool{tool("alpha"), tool("beta")}, []string{"alpha", "beta"}},
		{[]backends.Tool{beta, tool("gamma")}, []string{"beta", "gamma"}},
		{[]backends.Tool{beta}, []string{"beta"}},
		{[]backends.Tool{tool("alpha")}, []string{"alpha"}},
		{[]backends.Tool{other}, []string{"beta"}},
	}
	for i, set := range sets {
		evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{Tools: set.tools, Effort: "low"})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range evs {
			if d, ok := e.Data.(events.ToolRequest); ok {
				t.Errorf("%s was called, which is not offered any more", d.ToolName)
			}
		}
		if n := len(s.started()); n != 1 && i < 5 || n > 2 {
			t.Errorf("turn %d: %d processes", i+1, n)
		}
		rs := s.sc.Requests()
		r := rs[len(rs)-1]
		var got []string
		for _, name := range names(r) {
			if host, ok := strings.CutPrefix(name, "mcp__host__"); ok {
				got = append(got, host)
			}
		}
		if !slices.Equal(got, set.want) {
			t.Errorf("turn %d: offered %q, want %q", i+1, got, set.want)
		}
		if !bytes.Contains(r.Body, []byte(`"effort":"low"`)) {
			t.Errorf("turn %d: the effort is another", i+1)
		}
		if x, _ := r.Tool("mcp__host__beta"); i == 2 && !strings.Contains(string(x.Schema), `"x"`) {
			t.Errorf("the changed tool has the schema %s", x.Schema)
		}
		if x, _ := r.Tool("mcp__host__beta"); i == 5 && x.Description != "another one" {
			t.Errorf("the changed tool is %q", x.Description)
		}
	}
}

func TestHostToolNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{},
		modelstub.Say(modelstub.Tool("mcp__host__a_b", map[string]any{"n": 1}), modelstub.Tool("mcp__host__a_b_2", map[string]any{"n": 2}),
			modelstub.Tool("mcp__host__Bash", map[string]any{"command": "date"})),
		text("done"))
	turn := backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{
		{Kind: events.KindTool, Tool: "a.b", Answer: events.Answer{Outcome: events.OutcomeOK, Result: "from a.b"}},
		{Kind: events.KindTool, Tool: "a_b", Answer: events.Answer{Outcome: events.OutcomeOK, Result: "from a_b"}},
		{Kind: events.KindTool, Tool: "Bash", Answer: events.Answer{Outcome: events.OutcomeOK, Result: "from the host"}},
	}}}
	evs, _, err := run(t, c, turn, backends.Settings{Tools: []backends.Tool{tool("a.b"), tool("a_b"), tool("Bash")}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range evs {
		switch d := e.Data.(type) {
		case events.ToolRequest:
			got[d.ToolName] = string(d.Arguments)
		case events.ToolCall:
			t.Errorf("a bridged call is also a call of the agent's: %s", d.Name)
		}
	}
	if got["a.b"] != `{"n":1}` || got["a_b"] != `{"n":2}` || got["Bash"] != `{"command":"date"}` {
		t.Errorf("%v", got)
	}
	r := s.sc.Requests()[0]
	if slices.Contains(names(r), "Bash") {
		t.Error("claude's own Bash is still there")
	}
	if !strings.Contains(r.System+fmt.Sprint(r.Messages), "they mean the tool mcp__host__NAME") {
		t.Error("the model is not told how the host's tools are called")
	}
}

// TestKeyIsNowhere looks for the key where an agent's shell could find it.
func TestKeyIsNowhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{},
		modelstub.Say(modelstub.Tool("Bash", map[string]any{
			"command":     "env; cat /proc/$PPID/environ /proc/$PPID/cmdline | tr '\\0' '\\n'; grep -r sk-stub . /proc/$PPID/fd 2>/dev/null; echo END",
			"description": "x",
		})), text("done"))
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range evs {
		if d, ok := e.Data.(events.ToolComplete); ok {
			if !strings.Contains(d.Result, "END") || strings.Contains(d.Result, s.sc.Key()) {
				t.Errorf("the shell says:\n%s", d.Result)
			}
		}
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.started()[0]))
	if err != nil || bytes.Contains(raw, []byte(s.sc.Key())) {
		t.Error("the key is in the environment", err)
	}
}

func TestCancelAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{}, text("warm"), text("after"), text("after"))
	if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the input may be withdrawn, or begun with
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(backends.ErrCanceled) })
		began := time.Now()
		_, _, err := runIn(ctx, t, c, backendtest.Turn{}, backends.Settings{}, nil)
		if !errors.Is(err, backends.ErrCanceled) {
			t.Fatal(err)
		}
		if took := time.Since(began); took > atOnce {
			t.Errorf("it took %v", took)
		}
	}
	s.mu.Lock()
	// More than one: a request that was given up may reach the provider late,
	// and takes a turn with it.
	s.queue = []arranged{{turn: text("at last")}, {turn: text("at last")}, {turn: text("at last")}}
	s.mu.Unlock()
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(texts(evs), []string{"at last"}) {
		t.Error(texts(evs), err)
	}
	if n := len(s.started()); n != 1 {
		t.Errorf("%d processes", n)
	}
}

func TestAttachments(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{}, text("seen"))
	parts, file := backendtest.Attachments(t)
	rec := backendtest.NewRecorder(backendtest.Turn{}, nil, nil)
	defer rec.Close()
	_, err := c.Run(t.Context(), backends.Input{Parts: parts}, rec)
	if err != nil {
		t.Fatal(err)
	}
	heard := s.Heard()
	for _, want := range []string{"the notes say so", file, "evil.bin]", "x.svg]"} {
		if !strings.Contains(strings.ReplaceAll(heard, " (application/octet-stream)", ""), want) {
			t.Errorf("the model was not told %q", want)
		}
	}
	kept, _ := filepath.Glob(filepath.Join(b.home, "claude", "attachments", "*", "*-*"))
	if len(kept) != 2 {
		t.Errorf("kept: %q", kept)
	}
	if _, err := c.Run(t.Context(), backends.Input{Parts: []events.Part{{Type: events.PartFile, Data: "no base64!"}}}, rec); class(err) != events.ErrInvalidRequest {
		t.Error(err)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var mu sync.Mutex
	var saved []backends.Session
	c, s := b.open(t, backends.Config{Save: func(x backends.Session) error {
		mu.Lock()
		defer mu.Unlock()
		saved = append(saved, x)
		return nil
	}}, text("one"), text("two"))
	for range 2 {
		if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(saved) != 1 {
		t.Errorf("saved %v", saved)
	}
	for _, id := range []string{"99999999-1234-4234-8234-123456789abc", "../../etc/passwd", "*"} {
		cfg := s.Config()
		cfg.Session = backends.Session{ID: id}
		if _, err := b.backend().Open(t.Context(), cfg); !errors.Is(err, backends.ErrNoSession) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestSaveFails: a session that nobody will find again is told nothing.
func TestSaveFails(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{Save: func(backends.Session) error { return errors.New("disk full") }}, text("one"))
	if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{}); class(err) != events.ErrStorage {
		t.Error(err)
	}
	if n := s.Asks(); n != 0 {
		t.Errorf("the model was asked %d times all the same", n)
	}
}

// TestWarmTurn measures what a warm turn costs from the input to its first
// delta, with a model that answers at once.
func TestWarmTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const turns = 12
	c, s := b.open(t, backends.Config{})
	s.queue = []arranged{{turn: text("hello"), lasts: true}}
	var took []time.Duration
	for range turns {
		began := time.Now()
		var first time.Duration
		turn := backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessageDelta}}}
		if _, _, err := runIn(t.Context(), t, c, turn, backends.Settings{}, func() { first = time.Since(began) }); err != nil {
			t.Fatal(err)
		}
		took = append(took, first)
	}
	cold := took[0]
	slices.Sort(took)
	t.Logf("first delta: cold %v; warm, %d turns: median %v, fastest %v", cold, turns-1, took[(turns-1)/2], took[0])
}
