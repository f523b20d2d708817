package codex_test

import (
	"context"
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
	"innerd/test/codexscript"
	"innerd/test/modelstub"
)

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
		if took := time.Since(began); took > atOnce {
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
