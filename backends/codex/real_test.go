package codex_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
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
