//go:build linux || darwin

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"innerd/backends"
	"innerd/backends/claudecode"
	"innerd/backends/codex"
	"innerd/backends/copilot"
	"innerd/backends/simulate"
)

// makeAgents makes every agent of this build. Adding one is a line here and in
// backendNames.
func (s *server) makeAgents(ctx context.Context) ([]backends.Backend, error) {
	sim, err := s.simulated(ctx)
	if err != nil {
		return nil, err
	}
	claude := claudecode.New(&claudecode.Options{
		Path: s.cfg.set.str("claude-code-path"), Home: s.cfg.agentHome,
		Children: s.children, Getenv: s.app.getenv, Logger: s.log.With("backend", "claude-code"),
	})
	openai := codex.New(&codex.Options{
		Path: s.cfg.set.str("codex-path"), Home: s.cfg.agentHome,
		Children: s.children, Getenv: s.app.getenv, Logger: s.log.With("backend", "codex"),
	})
	github := copilot.New(&copilot.Options{
		Path: s.cfg.set.str("copilot-path"), Home: s.cfg.agentHome,
		Children: s.children, Getenv: s.app.getenv, Logger: s.log.With("backend", "copilot"),
	})
	return []backends.Backend{claude, openai, github, sim}, nil
}

const crashCommand = "simulated-crash"

func (s *server) simulated(ctx context.Context) (backends.Backend, error) {
	o := &simulate.Options{WordDelay: s.cfg.wordDelay, Children: s.children}
	if s.store != nil && !s.store.MemoryOnly() {
		o.StateDir = filepath.Join(s.cfg.agentHome, "simulate")
	}
	if self, err := os.Executable(); err == nil {
		o.CrashCommand = []string{self, crashCommand}
	}
	if path := s.cfg.set.str("simulate-script"); path != "" {
		raw, err := s.app.readInput(ctx, path)
		if err != nil {
			return nil, usageError{fmt.Errorf("--simulate-script: %w", err)}
		}
		if err := simulate.CheckScript(raw); err != nil {
			return nil, usageError{fmt.Errorf("--simulate-script %s: %w", path, err)}
		}
		o.Script = raw
	}
	return simulate.New(o), nil
}

// hiddenCommands are the commands that innerd starts itself.
func hiddenCommands(a *app) []*cobra.Command {
	return []*cobra.Command{{
		Use: crashCommand, Hidden: true,
		RunE: func(*cobra.Command, []string) error { return exitError{code: simulate.CrashChild(a.err)} },
	}}
}
