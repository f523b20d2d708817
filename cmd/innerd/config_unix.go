//go:build linux || darwin

package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"innerd/adapter"
	"innerd/runs"
)

// serverConfig is what a server is started with.
type serverConfig struct {
	set       *resolved
	listen    string
	stateDir  string
	agentHome string
	access    *access
	wordDelay time.Duration // of the simulated agent's echo
	agentEnv  map[string]string
}

// serverConfig finds where a server listens, keeps its state, and who may call.
func (a *app) serverConfig(ctx context.Context, set *resolved) (*serverConfig, error) {
	c := &serverConfig{set: set, listen: listenAddress(set)}
	var err error
	if c.stateDir, err = dirOf(set.str("state-dir"), defaultStateDir(a.getenv)); err != nil {
		return nil, err
	}
	if c.agentHome, err = dirOf(set.str("agent-home"), defaultAgentHome(a.getenv)); err != nil {
		return nil, err
	}
	if below(c.agentHome, c.stateDir) {
		return nil, usageError{fmt.Errorf("--agent-home %s is in --state-dir %s, which agents have no business with", c.agentHome, c.stateDir)}
	}
	_, port, err := net.SplitHostPort(c.listen)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("--listen %q: must be host:port", c.listen)}
	}
	if c.access, err = a.access(ctx, set, c.stateDir); err != nil {
		return nil, err
	}
	return c, nil
}

func dirOf(s, def string) (string, error) {
	if s == "" {
		s = def
	}
	return filepath.Abs(s)
}

func below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// limits are the times and counts of runs.
func (c *serverConfig) limits() runs.Limits {
	s := c.set
	l := runs.Limits{
		Turn:  map[string]time.Duration{"": s.dur("turn-timeout")},
		Stall: map[string]time.Duration{"": s.dur("stall-timeout")},
		Grace: s.dur("grace"), Open: s.dur("open-timeout"), Idle: s.dur("idle-timeout"),
		Warm: s.int("max-warm"), Spawns: s.int("max-spawns"), Queue: s.int("max-queue"),
		DetachGrace: s.dur("detach-grace"), Input: s.dur("question-timeout"),
	}
	for _, b := range []string{"claude-code", "codex", "copilot"} {
		l.Turn[b] = s.dur(b + "-timeout") // 0 is the general one
		l.Stall[b] = s.dur(b + "-stall-timeout")
		if l.Turn[b] == 0 {
			l.Turn[b] = l.Turn[""]
		}
		if l.Stall[b] == 0 {
			l.Stall[b] = l.Stall[""]
		}
	}
	if l.Warm == 0 {
		l.Warm = warmFor(memoryLimit())
	}
	return l
}

// places is how many streams and connections there may be at once, over all
// listeners; nil: any number. Connections are half of the descriptors, since
// agents and the log need theirs, and streams three quarters of them, unless
// it is said how many.
func (c *serverConfig) places() *adapter.Places {
	streams, all := min(c.set.int("max-connections"), math.MaxInt32), 0
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err == nil && lim.Cur <= math.MaxInt32 {
		all = int(lim.Cur / 2)
	}
	switch {
	case streams > 0:
		return adapter.NewPlaces(streams, min(max(all, streams+streams/4), streams+beside))
	case all > 0:
		return adapter.NewPlaces(all*3/4, all)
	}
	return nil
}

// beside is how many connections there may be beside the streams that are said
// in numbers: those that wait to be one, and short calls.
const beside = 4096

// warmFor is how many agents fit: an agent takes about 400 MB.
func warmFor(memory int64) int { return int(max(2, memory/400e6)) }

// workspace is the directory of runs that name none; "" is the server's own.
func (c *serverConfig) workspace() (string, error) {
	if dir := c.set.str("workspace"); dir != "" {
		return filepath.Abs(dir)
	}
	if info, err := os.Stat("/workspace"); err == nil && info.IsDir() {
		return "/workspace", nil
	}
	return "", nil
}
