package runs_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"innerd/backends"
	"innerd/backends/simulate"
	"innerd/runs"
)

// TestProjectInstructions: what a repository offers as its instructions is
// read from inside it alone, and never waited for.
func TestProjectInstructions(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) func(dir string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	}
	link := func(name, target string) func(dir string) error {
		return func(dir string) error { return os.Symlink(target, filepath.Join(dir, name)) }
	}
	pipe := func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "CLAUDE.md"), 0o600) }
	for name, c := range map[string]struct {
		make []func(string) error
		want string
	}{
		"none":                     {nil, ""},
		"CLAUDE.md before AGENTS":  {[]func(string) error{file("CLAUDE.md", "FROM-CLAUDE"), file("AGENTS.md", "FROM-AGENTS")}, "FROM-CLAUDE"},
		"AGENTS.md alone":          {[]func(string) error{file("AGENTS.md", "FROM-AGENTS")}, "FROM-AGENTS"},
		"a link inside":            {[]func(string) error{link("CLAUDE.md", "AGENTS.md"), file("AGENTS.md", "FROM-AGENTS")}, "FROM-AGENTS"},
		"a link that leads out":    {[]func(string) error{link("CLAUDE.md", secret), file("AGENTS.md", "FROM-AGENTS")}, "FROM-AGENTS"},
		"a pipe nobody writes to":  {[]func(string) error{pipe, file("AGENTS.md", "FROM-AGENTS")}, "FROM-AGENTS"},
		"more than is read of one": {[]func(string) error{file("AGENTS.md", strings.Repeat("x", 70<<10)+"END")}, "cut at 64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range c.make {
				if err := f(dir); err != nil {
					t.Fatal(err)
				}
			}
			w := newWorld(t)
			task := w.run(script(`[{"told":true}]`), func(s *runs.Spec) { s.Dir = dir })
			got := answer(task)
			if !strings.Contains(got, c.want) || strings.Contains(got, "SECRET") || strings.Contains(got, "END") {
				t.Errorf("%s: %.300s", task.State, got)
			}
		})
	}
}

// slow is an agent whose process takes long to go.
type slow struct {
	*simulate.Backend
	alive, most atomic.Int64
	closing     chan struct{} // one for each Close that began
	let         chan struct{} // closed: they may end
}

type slowConversation struct {
	backends.Conversation
	b *slow
}

func (s *slow) Name() string { return "slow" }

func (s *slow) Open(ctx context.Context, cfg backends.Config) (backends.Conversation, error) {
	n := s.alive.Add(1)
	s.most.Store(max(s.most.Load(), n))
	c, err := s.Backend.Open(ctx, cfg)
	return slowConversation{c, s}, err
}

func (c slowConversation) Close(ctx context.Context) error {
	c.b.closing <- struct{}{}
	<-c.b.let
	defer c.b.alive.Add(-1)
	return c.Conversation.Close(ctx)
}

// TestOneAgentPerSession: an agent that is still closing holds the session.
// Two on one session lose each other's turns.
func TestOneAgentPerSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{closing: make(chan struct{}, 8), let: make(chan struct{})}
		w := newWorld(t, func(w *world) {
			s.Backend = simulate.New(&simulate.Options{StateDir: w.home})
			w.other, w.lim.Idle = []backends.Backend{s}, 20*time.Millisecond
		})
		in := func(spec *runs.Spec) { spec.Backend, spec.ContextID = "slow", "c" }
		w.run(in)
		<-s.closing // idle for too long
		second := w.begin(in)
		synctest.Wait()
		select {
		case <-second.Done():
			t.Error("the second run did not wait for the agent before it")
		default:
		}
		close(s.let)
		if task := w.await(second); task.State != "completed" {
			t.Errorf("%s %s", task.State, errorType(task))
		}
		if n := s.most.Load(); n != 1 {
			t.Errorf("%d agents at once", n)
		}
	})
}
