package claudecode_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/modelstub"
)

// TestCancelWhileWaiting: a run that only waits for background work ends at
// once, and the work with it.
func TestCancelWhileWaiting(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conv, s := b.open(t, backends.Config{})
	in := map[string]any{"command": "sleep 141421", "description": "x", "run_in_background": true}
	s.queue = []arranged{{turn: modelstub.Say(modelstub.Tool("Bash", in))}, {turn: text("It runs.")}, {turn: text("Again.")}}
	turn := backendtest.Turn{Host: backendtest.Host{Cancel: backendtest.Cancel{On: events.TypeMessage}}}
	ctx, cancel := context.WithCancelCause(t.Context())
	evs, _, err := runIn(ctx, t, conv, turn, backends.Settings{Background: backends.BackgroundWait}, func() { cancel(backends.ErrCanceled) })
	if !errors.Is(err, backends.ErrCanceled) || !slices.Equal(texts(evs), []string{"It runs."}) {
		t.Fatal(texts(evs), err)
	}
	gone(t, "sleep 141421")
	evs, _, err = run(t, conv, backendtest.Turn{}, backends.Settings{Background: backends.BackgroundWait})
	if err != nil || !slices.Equal(texts(evs), []string{"Again."}) {
		t.Error(texts(evs), err)
	}
	if n := len(s.started()); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// TestHostileRepository: what a directory, or one that is added, says of
// commands, skills, agents and rules is not loaded, nor can it be called.
func TestHostileRepository(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	evil := t.TempDir()
	for name, content := range map[string]string{
		".claude/commands/evil.md":      "---\ndescription: EVIL-COMMAND\n---\nEVIL-COMMAND-BODY",
		".claude/skills/evil/SKILL.md":  "---\nname: evil\ndescription: EVIL-SKILL\n---\nEVIL-SKILL-BODY",
		".claude/agents/evil.md":        "---\nname: evil\ndescription: EVIL-AGENT\n---\nEVIL-AGENT-BODY",
		".claude/rules/evil.md":         "EVIL-RULE",
		"CLAUDE.local.md":               "EVIL-LOCAL",
		"sub/CLAUDE.md":                 "EVIL-NESTED",
		"sub/.claude/skills/e/SKILL.md": "---\nname: e\ndescription: EVIL-NESTED\n---\nx",
		"sub/plain.txt":                 "plain",
	} {
		path := filepath.Join(evil, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, added := range []bool{false, true} {
		s := b.seat(t)
		cfg := s.Config()
		cfg.ID, cfg.Dir, cfg.Grace = "01TESTTESTTESTTESTTESTTEST", evil, 3*time.Second
		if added {
			cfg.Dir, cfg.AddDirs = t.TempDir(), []string{evil}
		}
		conv, err := backendtest.Governed{Backend: b.backend()}.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.queue = []arranged{
			{turn: modelstub.Say(
				modelstub.Tool("Skill", map[string]any{"skill": "evil"}),
				modelstub.Tool("Agent", map[string]any{"description": "x", "prompt": "x", "subagent_type": "evil"}),
				modelstub.Tool("Read", map[string]any{"file_path": filepath.Join(evil, "sub", "plain.txt")}))},
			{turn: text("Over.")},
			{turn: text("Over.")},
		}
		for _, prompt := range []string{"Go.", "/evil"} {
			if _, _, err := run(t, conv, backendtest.Turn{Prompt: prompt}, backends.Settings{}); err != nil {
				t.Error(err)
			}
		}
		for _, r := range s.sc.Requests() {
			if i := strings.Index(string(r.Body), "EVIL-"); i >= 0 {
				t.Errorf("added %v: the model was told %s", added, r.Body[max(i-100, 0):min(i+100, len(r.Body))])
			}
		}
		if h := s.Heard(); !strings.Contains(h, "Unknown skill: evil") || !strings.Contains(h, "'evil' not found") || !strings.Contains(h, evil) || !strings.Contains(h, "/evil") {
			t.Errorf("added %v: the model was not told as expected", added)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := conv.Close(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

// TestRetryAfter: the time of a limit that the CLI has waited for once.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conv, s := b.open(t, backends.Config{})
	s.queue = []arranged{{turn: modelstub.RateLimited(2 * time.Second), lasts: true}}
	_, _, err := run(t, conv, backendtest.Turn{}, backends.Settings{})
	var e *backends.Error
	if !errors.As(err, &e) || e.Type != events.ErrRateLimit || e.RetryAfter != 2*time.Second || e.Status != 429 {
		t.Errorf("%+v", err)
	}
	if n := s.Asks(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// TestBridgedInSubagent: a sub-agent has the host's tools too, and their calls
// are requests like all others.
func TestBridgedInSubagent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conv, s := b.open(t, backends.Config{},
		modelstub.Say(modelstub.Tool("Agent", map[string]any{"description": "x", "prompt": "SUBTASK", "subagent_type": "general-purpose"})),
		modelstub.Say(modelstub.Tool("mcp__host__lookup", map[string]any{"n": 1})), text("Found."), text("Done."))
	turn := backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{
		{Kind: events.KindTool, Tool: "lookup", Answer: events.Answer{Outcome: events.OutcomeOK, Result: "THE-RESULT"}},
	}}}
	evs, _, err := run(t, conv, turn, backends.Settings{Tools: []backends.Tool{tool("lookup")}})
	if err != nil || !slices.Equal(texts(evs), []string{"Done."}) {
		t.Fatal(texts(evs), err)
	}
	asked := 0
	for _, e := range evs {
		switch d := e.Data.(type) {
		case events.ToolRequest:
			asked++
			var in struct{ N int }
			if json.Unmarshal(d.Arguments, &in) != nil || in.N != 1 {
				t.Errorf("%s", d.Arguments)
			}
		case events.ToolUpdate:
			t.Errorf("the call is also told as the agent's own: %+v", d)
		}
	}
	if asked != 1 || !strings.Contains(claudeHeard(s, 2), "THE-RESULT") {
		t.Errorf("asked %d times", asked)
	}
}

// claudeHeard is the body of one of the seat's requests.
func claudeHeard(s *seat, n int) string { return string(s.sc.Requests()[n].Body) }
