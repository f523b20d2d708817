//go:build linux || darwin

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"innerd/adapter"
	"innerd/events/journal"
	"innerd/host"
)

// privateWordDelay makes an echo readable as it streams.
const privateWordDelay = 15 * time.Millisecond

// startPrivate starts a server for one command, on a free port of loopback and
// with a key that only this process knows. Its state is its own, so that
// conversations can go on; where another such server holds it, a new one.
func (a *app) startPrivate(ctx context.Context, _ *runFlags) (*host.Client, func(), error) {
	set, err := resolve(&cobra.Command{}, serveSettings(), a.getenv, a.warn)
	if err != nil {
		return nil, nil, err
	}
	level := "error"
	if set.from["log-level"] != fromDefault {
		level = set.str("log-level")
	}
	key := rand.Text()
	cfg := &serverConfig{
		set: set, listen: "127.0.0.1:0", wordDelay: privateWordDelay,
		access: &access{keys: []adapter.Key{adapter.NewKey(adapter.DefaultOwner, key)}},
	}
	s, cleanup, err := a.startPrivateIn(ctx, cfg, level)
	if err != nil {
		return nil, nil, err
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 12*time.Second)
		defer cancel()
		if err := s.stop(ctx); err != nil {
			a.warn("private server: " + err.Error())
		}
		cleanup()
	}
	c, err := host.New(s.url(), &host.Options{Key: key})
	if err != nil {
		stop()
		return nil, nil, err
	}
	return c, stop, nil
}

func (a *app) startPrivateIn(ctx context.Context, cfg *serverConfig, level string) (*server, func(), error) {
	log := newLogger(a.err, cfg.set.str("log-format"), level)
	root := defaultPrivateDir(a.getenv)
	cfg.stateDir, cfg.agentHome = filepath.Join(root, "state"), filepath.Join(root, "agents")
	s, err := a.startServer(ctx, cfg, log)
	if !errors.Is(err, journal.ErrLocked) {
		return s, func() {}, err
	}
	if root, err = os.MkdirTemp("", "innerd-"); err != nil {
		return nil, nil, err
	}
	cleanup := func() { _ = os.RemoveAll(root) }
	cfg.stateDir, cfg.agentHome = filepath.Join(root, "state"), filepath.Join(root, "agents")
	if s, err = a.startServer(ctx, cfg, log); err != nil {
		cleanup()
	}
	return s, cleanup, err
}
