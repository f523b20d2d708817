package codex_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/codex"
	"innerd/events"
	"innerd/test/codexscript"
	"innerd/test/modelstub"
)

// open opens a conversation with the real CLI on a scenario of its own.
func (b *bench) open(t *testing.T, cfg backends.Config, turns ...modelstub.Turn) (backends.Conversation, *seat) {
	t.Helper()
	s := b.seat(t)
	s.says(turns...)
	return b.with(t, s, cfg), s
}

func (s *seat) says(turns ...modelstub.Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = nil
	for _, turn := range turns {
		s.queue = append(s.queue, codexscript.Turn{Turn: turn})
	}
}

// with opens a conversation on a seat.
func (b *bench) with(t *testing.T, s *seat, cfg backends.Config) backends.Conversation {
	t.Helper()
	c := s.Config()
	c.ID, c.Dir, c.Grace, c.Session, c.AddDirs, c.MCP = orID(cfg.ID), cfg.Dir, 3*time.Second, cfg.Session, cfg.AddDirs, cfg.MCP
	c.Save, c.Stray = cfg.Save, cfg.Stray
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
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
	return conv
}

func orID(id string) string {
	if id == "" {
		return idA
	}
	return id
}

func text(s string) modelstub.Turn { return modelstub.Say(modelstub.Text(s)) }

func shell(command string) modelstub.Block {
	return modelstub.Tool("exec_command", map[string]any{"cmd": command})
}

// TestSettingsOfTurns: tools and system text change in one process and one
// thread, which keeps its memory; so do model and effort, and back.
func TestSettingsOfTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var saved []backends.Session
	c, s := b.open(t, backends.Config{Save: func(x backends.Session) error { saved = append(saved, x); return nil }},
		text("one"), text("two"), text("three"), text("four"))
	other := tool("alpha")
	other.Description = "another one"
	for _, set := range []backends.Settings{
		{System: "first-text", Effort: "high"},
		{System: "second-text", Tools: []backends.Tool{tool("alpha")}, Effort: "low"},
		{Tools: []backends.Tool{other}},
		{Model: "gpt-5.4"},
	} {
		if _, _, err := run(t, c, backendtest.Turn{}, set); err != nil {
			t.Fatal(err)
		}
	}
	if st := b.last.Probe(t.Context()); !slices.Contains(st.Models, codexscript.Model) {
		t.Errorf("models %q", st.Models)
	}
	rs := s.sc.Requests()
	for i, want := range []struct {
		effort, model, system, tool string
	}{
		{"high", "gpt-5.5", "first-text", ""},
		{"low", "gpt-5.5", "second-text", "For tests: alpha"},
		{"medium", "gpt-5.5", "", "another one"},
		{"medium", "gpt-5.4", "", ""},
	} {
		seen, got := codexscript.Seen(rs[i]), rs[i]
		spec, _ := got.Tool("alpha")
		if seen.Effort != want.effort && i < 3 || seen.Model != want.model || spec.Description != want.tool {
			t.Errorf("turn %d: effort %q, model %q, tool %q", i+1, seen.Effort, seen.Model, spec.Description)
		}
		for _, text := range []string{"first-text", "second-text"} {
			if strings.Contains(string(got.Body), text) != (text == want.system) {
				t.Errorf("turn %d: %s is told, or is not", i+1, text)
			}
		}
		for j, said := range []string{"one", "two", "three"} {
			if j < i && !strings.Contains(codexscript.Heard(got), said) {
				t.Errorf("turn %d does not know turn %d", i+1, j+1)
			}
		}
	}
	if n := len(s.started()); n != 1 || len(saved) != 1 {
		t.Errorf("%d processes, %d sessions", n, len(saved))
	}
}

// TestSettingsOfNewModels: the same for a model that writes programs.
func TestSettingsOfNewModels(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{}, text("one"), text("two"), modelstub.Say(modelstub.Custom("exec", "text(await tools.alpha({}))")), text("three"))
	for _, set := range []backends.Settings{
		{System: "first-text"}, {System: "second-text", Tools: []backends.Tool{tool("beta")}}, {System: "third-text", Tools: []backends.Tool{tool("alpha")}},
	} {
		set.Model = "gpt-6.2-sol"
		turn := backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{{
			Kind: events.KindTool, Tool: "alpha", Answer: events.Answer{Outcome: events.OutcomeOK, Result: "from alpha"},
		}}}}
		if _, _, err := run(t, c, turn, set); err != nil {
			t.Fatal(err)
		}
		r, _ := s.last()
		for _, text := range []string{"first-text", "second-text", "third-text"} {
			if strings.Contains(string(r.Body), text) != (text == set.System) {
				t.Errorf("%s: %s is told, or is not", set.System, text)
			}
		}
	}
	if heard := s.Heard(); !strings.Contains(heard, "from alpha") || !strings.Contains(heard, "two") {
		t.Errorf("the model heard %q", heard)
	}
}

// TestShared: conversations of one environment and one key share a process and
// nothing else; the process ends with the last of them.
func TestShared(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.seat(t)
	const n = 10
	s.sc.Func(func(r modelstub.Request) modelstub.Turn {
		if r.ToolResult() != "" {
			return text("done " + r.Prompt() + " " + r.ToolResult())
		}
		return modelstub.Say(modelstub.Tool("lookup", map[string]any{"who": r.Prompt()}).ID("call_0"))
	})
	backend := backendtest.Governed{Backend: b.backend()}
	var all sync.WaitGroup
	for i := range n {
		who := fmt.Sprintf("caller-%d", i)
		cfg := s.Config()
		cfg.ID, cfg.Dir, cfg.Grace = fmt.Sprintf("01SHARED%018d", i), t.TempDir(), time.Second
		c, err := backend.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer c.Close(context.Background()) //nolint:errcheck // seen below
			turn := backendtest.Turn{Prompt: who, Host: backendtest.Host{Replies: []backendtest.Reply{{
				Kind: events.KindTool, Answer: events.Answer{Outcome: events.OutcomeOK, Result: "for-" + who},
			}}}}
			evs, _, err := run(t, c, turn, backends.Settings{Tools: []backends.Tool{tool("lookup")}})
			if want := "done " + who + " for-" + who; err != nil || !slices.Equal(texts(evs), []string{want}) {
				t.Errorf("%q, %v; want %q", texts(evs), err, want)
			}
			for _, e := range evs {
				if d, ok := e.Data.(events.ToolRequest); ok && !strings.Contains(string(d.Arguments), who) {
					t.Errorf("%s was asked %s", who, d.Arguments)
				}
			}
		})
	}
	all.Wait()
	pids := s.started()
	if len(pids) != 1 {
		t.Fatalf("%d processes", len(pids))
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pids[0])); err == nil {
		t.Error("the process outlives its conversations")
	}
}

// TestCommandsEnd: a canceled turn leaves nothing of its own in a shared
// process, and everything of the others.
func TestCommandsEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.seat(t)
	s.sc.Func(func(r modelstub.Request) modelstub.Turn {
		if r.ToolResult() != "" {
			return text("over")
		}
		return modelstub.Say(shell("setsid sleep 31" + r.Prompt() + " & sleep 2"))
	})
	backend := backendtest.Governed{Backend: b.backend()}
	open := func(id string) backends.Conversation {
		cfg := s.Config()
		cfg.ID, cfg.Dir, cfg.Grace = id, t.TempDir(), time.Second
		c, err := backend.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	c, d := open(idA), open(idB)
	var both sync.WaitGroup
	begun := make(chan struct{})
	both.Go(func() {
		turn := backendtest.Turn{Prompt: "17", Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeToolCall}}}
		if _, _, err := runIn(t.Context(), t, d, turn, backends.Settings{}, func() { close(begun) }); err != nil {
			t.Error(err)
		}
	})
	<-begun
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { // ends when the command runs, or with the test
		for len(sleeping("3118")) == 0 && t.Context().Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		cancel(backends.ErrCanceled)
	}()
	if _, _, err := runIn(ctx, t, c, backendtest.Turn{Prompt: "18"}, backends.Settings{}, nil); !errors.Is(err, backends.ErrCanceled) {
		t.Error(err)
	}
	if left := sleeping("3118"); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
	if len(sleeping("3117")) == 0 {
		t.Error("the other conversation's command was ended")
	}
	both.Wait()
}

func sleeping(seconds string) (out []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range all {
		if raw, _ := os.ReadFile(f); string(raw) == "sleep\x00"+seconds+"\x00" {
			out = append(out, f)
		}
	}
	return out
}

// TestKeyIsNowhere looks for the key where an agent's shell could find it, and
// in all that codex has written.
func TestKeyIsNowhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{},
		modelstub.Say(shell("env; cat /proc/$PPID/environ /proc/$PPID/cmdline | tr '\\0' '\\n'; echo END")), text("done"))
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range evs {
		if d, ok := e.Data.(events.ToolComplete); ok && (!strings.Contains(d.Result, "END") || strings.Contains(d.Result, s.sc.Key())) {
			t.Errorf("the shell says:\n%s", d.Result)
		}
	}
	for _, file := range []string{"environ", "cmdline"} {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.started()[0], file))
		if err != nil || bytes.Contains(raw, []byte(s.sc.Key())) {
			t.Errorf("the key is in %s: %v", file, err)
		}
	}
	err = filepath.WalkDir(b.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(s.sc.Key())) {
			t.Errorf("the key is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSubagentsOfNewModels: they are told in another way than those of the
// suite's model, and are seen alike.
func TestSubagentsOfNewModels(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{})
	asked := map[string]int{}
	s.sc.Func(func(r modelstub.Request) modelstub.Turn {
		s.mu.Lock()
		defer s.mu.Unlock()
		who := "main"
		if bytes.Contains(r.Body, []byte(`\"agent_name\":\"/root/helper\"`)) {
			who = "helper"
		}
		asked[who]++
		turns := map[string][]modelstub.Turn{
			"main": {
				modelstub.Say(modelstub.Tool("spawn_agent", map[string]any{"task_name": "helper", "message": "Look."}).Namespace("collaboration")),
				modelstub.Say(modelstub.Tool("wait_agent", map[string]any{"timeout_ms": 20_000}).Namespace("collaboration")),
				text("My helper is back."),
			},
			"helper": {
				modelstub.Say(modelstub.Custom("exec", `const r = await tools.exec_command({cmd: "echo below"}); text(r.output)`)),
				text("Nothing there."),
			},
		}[who]
		return turns[min(asked[who], len(turns))-1]
	})
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{Model: "gpt-6.2-sol"})
	if err != nil || !slices.Equal(texts(evs), []string{"My helper is back."}) {
		t.Fatal(texts(evs), err)
	}
	var seen []string
	call := ""
	for _, e := range evs {
		switch d := e.Data.(type) {
		case events.ToolCall:
			if d.Name == "spawn_agent" {
				call = d.ID
			}
		case events.SubagentStart:
			seen = append(seen, "start "+d.Name+" of its call: "+fmt.Sprint(d.ParentID == call && call != ""))
		case events.SubagentDelta:
			seen = append(seen, "says "+d.Text)
		case events.ToolComplete:
			if d.ParentID != "" {
				seen = append(seen, d.Name+" "+d.Result+fmt.Sprint(d.ParentID == call))
			}
		case events.SubagentComplete:
			seen = append(seen, "complete "+d.Result)
		}
	}
	want := []string{
		"start /root/helper of its call: true", "exec_command below\ntrue", "says Nothing ther", "says e.", "complete Nothing there.",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("%q", seen)
	}
}

// TestSubagentIsEnded: a sub-agent that nobody waits for does not outlive its
// turn, nor do its commands.
func TestSubagentIsEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{})
	s.sc.Func(func(r modelstub.Request) modelstub.Turn {
		switch {
		case bytes.Contains(r.Body, []byte(`\"agent_name\":\"/root/helper\"`)):
			return modelstub.Say(modelstub.Custom("exec", `await tools.exec_command({cmd: "sleep 3119"}); text("woken")`))
		case r.ToolResult() == "":
			return modelstub.Say(modelstub.Tool("spawn_agent", map[string]any{"task_name": "helper", "message": "Sleep."}).Namespace("collaboration"))
		}
		for len(sleeping("3119")) == 0 && t.Context().Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		return text("I do not wait.")
	})
	began := time.Now()
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{Model: "gpt-6.2-sol"})
	if err != nil || !slices.Equal(texts(evs), []string{"I do not wait."}) {
		t.Fatal(texts(evs), err)
	}
	ended := 0
	for _, e := range evs {
		switch d := e.Data.(type) {
		case events.SubagentComplete:
			ended++
		case events.ToolComplete:
			if d.ParentID != "" && d.Success {
				t.Errorf("%s of a sub-agent that was ended succeeded", d.Name)
			}
		}
	}
	if left := sleeping("3119"); ended != 1 || len(left) > 0 {
		t.Errorf("%d ends; still there: %v", ended, left)
	}
	t.Logf("it took %v", time.Since(began))
}

// TestUnaskedToolsAreOff: what codex does without asking is not there where
// permissions are asked for.
func TestUnaskedToolsAreOff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{}, text("one"), text("two"), text("three"))
	for i, set := range []backends.Settings{
		{Permission: backends.PermissionAuto},
		{Permission: backends.PermissionAsk},
		{Permission: backends.PermissionDeny, Options: json.RawMessage(`{"web_search":"cached"}`)},
	} {
		if _, _, err := run(t, c, backendtest.Turn{}, set); err != nil {
			t.Fatal(err)
		}
		seen := codexscript.Seen(s.sc.Requests()[i])
		if got := slices.Contains(seen.Natives, "view_image"); got != (i == 0) {
			t.Errorf("%s: view_image %v", set.Permission, got)
		}
		if got := bytes.Contains(s.sc.Requests()[i].Body, []byte(`"type":"web_search"`)); got != (i != 1) {
			t.Errorf("%s: web_search %v", set.Permission, got)
		}
	}
}

// TestToolChoice: codex leaves its model free; the host's word is kept all the
// same.
func TestToolChoice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{}, text("one"), text("two"), modelstub.Say(shell("touch done")), text("three"), text("four"))
	tools := []backends.Tool{tool("lookup"), tool("exec_command")}
	for _, x := range []struct {
		choice, told string
		offered      []string
	}{
		{`"required"`, "You must call at least one tool", []string{"lookup", "host_exec_command"}},
		{`{"type":"function","function":{"name":"exec_command"}}`, "You must call the tool host_exec_command", []string{"host_exec_command"}},
		{`"none"`, "Call no tool", nil},
		{`7`, "", []string{"lookup", "host_exec_command"}},
	} {
		evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{Tools: tools, ToolChoice: json.RawMessage(x.choice)})
		if err != nil {
			t.Fatal(err)
		}
		r, _ := s.last()
		if x.told != "" && !strings.Contains(codexscript.Heard(r), x.told) {
			t.Errorf("%s: the model was not told %q", x.choice, x.told)
		}
		for _, name := range []string{"lookup", "host_exec_command"} {
			if _, got := r.Tool(name); got != slices.Contains(x.offered, name) {
				t.Errorf("%s: %s offered: %v", x.choice, name, got)
			}
		}
		for _, e := range evs {
			if d, ok := e.Data.(events.ToolComplete); ok && d.Success {
				t.Errorf("%s: %s ran", x.choice, d.Name)
			}
		}
	}
}

// TestWebSearch: a search of the model's own is a call.
func TestWebSearch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, _ := b.open(t, backends.Config{}, modelstub.Say(
		modelstub.Raw(`{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"what is innerd"}}`),
		modelstub.Text("Found."),
	))
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	for _, e := range evs {
		if d, ok := e.Data.(events.ToolCall); ok {
			calls = append(calls, d.Name+" "+string(d.Input))
		}
	}
	if len(calls) != 1 || !strings.HasPrefix(calls[0], "web_search ") || !strings.Contains(calls[0], "what is innerd") {
		t.Errorf("calls %q", calls)
	}
}

// TestContentFilter: a provider that cuts an answer is not one that fails.
func TestContentFilter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	filtered := text("I was about to").Stops("content_filter")
	c, s := b.open(t, backends.Config{}, filtered, filtered, filtered, filtered)
	_, out, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil || out.Reason != backends.ReasonRefusal {
		t.Error(out, err)
	}
	if n := s.sc.Count(); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}

// TestMCPRoad: the host's tools can come over the second road.
func TestMCPRoad(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	srv := newMCP(t)
	c, s := b.open(t, backends.Config{MCP: &backends.MCPEndpoint{URL: srv.url, Token: "mcp-secret"}},
		modelstub.Say(modelstub.Tool("lookup", map[string]any{"a": 1}).Namespace("mcp__host")), text("Over MCP."))
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{
		Options: json.RawMessage(`{"tools":"mcp","test":"auto"}`), Tools: []backends.Tool{tool("lookup")},
	})
	if err != nil || !slices.Equal(texts(evs), []string{"Over MCP."}) {
		t.Fatal(texts(evs), err)
	}
	if !strings.Contains(s.Heard(), "from the second road") {
		t.Errorf("the model heard %q", s.Heard())
	}
	for _, e := range evs {
		if d, ok := e.Data.(events.ToolCall); ok {
			t.Errorf("a bridged call is also a call of the agent's: %s", d.Name)
		}
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
	for _, want := range []string{"the notes say so", file, "evil.bin", "x.svg"} {
		if !strings.Contains(heard, want) {
			t.Errorf("the model was not told %q", want)
		}
	}
	kept, _ := filepath.Glob(filepath.Join(b.home, "codex", "attachments", "*", "*"))
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
	s := b.seat(t)
	for _, id := range []string{threadX, "../../etc/passwd", "*"} {
		cfg := s.Config()
		cfg.Session = backends.Session{ID: id}
		if _, err := b.backend().Open(t.Context(), cfg); !errors.Is(err, backends.ErrNoSession) {
			t.Errorf("%s: %v", id, err)
		}
	}
	// A session that nobody will find again is not begun.
	c := b.with(t, s, backends.Config{Save: func(backends.Session) error { return errors.New("disk full") }})
	if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{}); class(err) != events.ErrStorage {
		t.Error(err)
	}
	if s.sc.Count() != 0 {
		t.Error("the model was asked all the same")
	}
}

// TestMovedHome: codex's folder may be somewhere else, all of it.
func TestMovedHome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var session backends.Session
	save := func(x backends.Session) error { session = x; return nil }
	c, s := b.open(t, backends.Config{Save: save}, text("kept"), text("and on"))
	if _, _, err := run(t, c, backendtest.Turn{Prompt: "Remember quincunx."}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := b.home
	b.home = t.TempDir()
	if err := os.CopyFS(b.home, os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(old); err != nil {
		t.Fatal(err)
	}
	c = b.with(t, s, backends.Config{Save: save, Session: session})
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(texts(evs), []string{"and on"}) || !strings.Contains(s.Heard(), "quincunx") {
		t.Error(texts(evs), err)
	}
}

// TestCompactCold: a conversation that was put away can be shortened before
// anything else is done with it; one that has said nothing needs nothing.
func TestCompactCold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var session backends.Session
	cfg := backends.Config{Save: func(x backends.Session) error { session = x; return nil }}
	c, s := b.open(t, cfg, text("syzygy"))
	if err := c.(backends.Compacter).Compact(t.Context()); err != nil {
		t.Error(err)
	}
	set := backends.Settings{System: "the system text", Tools: []backends.Tool{tool("alpha")}}
	if _, _, err := run(t, c, backendtest.Turn{Prompt: "Remember quincunx."}, set); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	states := make(chan string, 10)
	cfg.Session = session
	cfg.Stray = func(e events.Event) {
		if d, ok := e.Data.(events.Status); ok {
			states <- d.State
		}
	}
	c = b.with(t, s, cfg)
	s.says(text("The user wants quincunx kept."), text("I go on."))
	if err := c.(backends.Compacter).Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-states; got != events.StateCompacting {
		t.Errorf("state %q", got)
	}
	evs, _, err := run(t, c, backendtest.Turn{}, set)
	if err != nil || !slices.Equal(texts(evs), []string{"I go on."}) {
		t.Fatal(texts(evs), err)
	}
	r, _ := s.last()
	heard := codexscript.Heard(r)
	if _, ok := r.Tool("alpha"); !ok || !strings.Contains(heard, "wants quincunx kept") || strings.Contains(heard, "syzygy") || strings.Count(heard, "the system text") != 1 {
		t.Errorf("tools %v; heard %q", ok, heard)
	}
	for _, e := range evs {
		if u, ok := e.Data.(events.Usage); ok && *u.OutputTokens > 10 {
			t.Errorf("the run is billed for more than its own: %d", *u.OutputTokens)
		}
	}
}

// TestHostileRoot: what lies above the working directory, at the root of its
// repository, starts nothing either; nor does codex come to trust it.
func TestHostileRoot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	root := t.TempDir()
	dir := filepath.Join(root, "below", "here")
	ran := filepath.Join(root, "ran")
	config := fmt.Sprintf("model = \"evil\"\nnotify = [\"touch\", %q]\n[mcp_servers.evil]\ncommand = \"touch\"\nargs = [%q]\n", ran, ran)
	// A bare .git folder is no root to codex: it would not look above dir.
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", root).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	for _, d := range []string{filepath.Join(root, ".codex"), filepath.Join(dir, ".codex")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "config.toml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, link} {
		c, s := b.open(t, backends.Config{Dir: d}, text("one"), text("two"))
		for i := range 2 { // the second one is loaded anew
			if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{System: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
			if r, _ := s.last(); r.Model != codexscript.Model {
				t.Errorf("%s was asked", r.Model)
			}
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program of the repository was started")
	}
	if raw, err := os.ReadFile(filepath.Join(b.home, "codex", "config.toml")); err == nil && bytes.Contains(raw, []byte("trusted")) {
		t.Errorf("codex has noted: %s", raw)
	}
}

// TestCancelAtOnce: a turn that is canceled before codex can be told to stop it
// leaves nothing behind.
func TestCancelAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{}, text("warm"))
	if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	s.says(text("never"), text("never"), text("never"), text("never"))
	for i := range 4 {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Duration(i)*5*time.Millisecond, func() { cancel(backends.ErrCanceled) })
		began := time.Now()
		if _, _, err := runIn(ctx, t, c, backendtest.Turn{}, backends.Settings{}, nil); !errors.Is(err, backends.ErrCanceled) && err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("it took %v", took)
		}
	}
	s.says(text("at last"), text("at last"))
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(texts(evs), []string{"at last"}) {
		t.Error(texts(evs), err)
	}
	if n := len(s.started()); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// TestWarmTurn measures what a warm turn costs from the input to its first
// delta, with a model that answers at once.
func TestWarmTurn(t *testing.T) {
	b := newBench(t)
	const turns = 12
	c, s := b.open(t, backends.Config{})
	s.queue = []codexscript.Turn{{Turn: text("hello"), Lasts: true}}
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

// TestLoginIsUsed: a login that `codex login` made reaches the model, by a copy.
func TestLoginIsUsed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.seat(t)
	s.says(text("logged in"))
	user := t.TempDir()
	if err := os.MkdirAll(filepath.Join(user, ".codex"), 0o700); err != nil {
		t.Fatal(err)
	}
	auth := fmt.Sprintf(`{"auth_mode":"apikey","OPENAI_API_KEY":%q}`, s.sc.Key())
	if err := os.WriteFile(filepath.Join(user, ".codex", "auth.json"), []byte(auth), 0o600); err != nil {
		t.Fatal(err)
	}
	backend := codex.New(&codex.Options{
		Path: b.wrapper, Home: b.home, Children: b.children,
		Getenv: env(map[string]string{"HOME": user, "OPENAI_BASE_URL": s.sc.V1(), "INNERD_CODEX_MODEL": codexscript.Model}),
	})
	if st := backend.Probe(t.Context()); !st.Usable || st.Login != "login" || st.Version != codex.Version {
		t.Errorf("%+v", st)
	}
	c, err := backend.Open(t.Context(), backends.Config{ID: idA, Dir: t.TempDir(), Env: map[string]string{"HOME": user}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // seen by the supervisor
	evs, _, err := run(t, c, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(texts(evs), []string{"logged in"}) {
		t.Error(texts(evs), err)
	}
	if info, err := os.Stat(filepath.Join(b.home, "codex", "auth.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	for _, r := range s.sc.Side() {
		t.Errorf("a further request: %s %s", r.Method, r.Path)
	}
}
