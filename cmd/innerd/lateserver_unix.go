//go:build linux || darwin

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"innerd/adapter"
	"innerd/image/entrypoint"
)

// awaits says whether this server waits for its configuration, and the key
// that is asked for.
func (a *app) awaits(ctx context.Context, set *resolved) (key string, wait bool, err error) {
	if key = strings.TrimSpace(a.getenv("INNERD_INIT_KEY")); key != "" {
		return key, true, nil
	}
	if path := set.str("init-key-file"); path != "" {
		raw, err := a.readInput(ctx, path)
		if err != nil {
			return "", false, usageError{fmt.Errorf("--init-key-file: %w", err)}
		}
		if key = strings.TrimSpace(string(raw)); key == "" {
			return "", false, usageError{fmt.Errorf("--init-key-file %s: there is no key in it", path)}
		}
		return key, true, nil
	}
	return "", set.str("await-init") == "true", nil
}

// lateSettings waits for the configuration and puts it into cfg. A server that
// took another's place gets it from process 1, and does not wait.
func (s *server) lateSettings(ctx context.Context) error {
	key, wait, err := s.app.awaits(ctx, s.cfg.set)
	conn, connErr := inherited(entrypoint.LateVar)
	if err = errors.Join(err, connErr); err != nil || !wait {
		if conn != nil {
			_ = conn.Close()
		}
		return err
	}
	if conn != nil {
		s.late = conn // process 1 sees our end by it
		defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
		kept, err := bufio.NewReader(conn).ReadBytes('\n')
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx) // a stop, and no fault of process 1
		}
		if err != nil {
			return fmt.Errorf("ask process 1 for the configuration: %w", err)
		}
		if len(bytes.TrimSpace(kept)) > 0 {
			cfg, err := keptLate(kept)
			if err != nil {
				return fmt.Errorf("the configuration that process 1 kept: %w", err)
			}
			s.log.Info("configured as the server before this one")
			return s.configure(cfg)
		}
	}
	return s.await(ctx, key, conn)
}

// await serves the gate until it has been passed.
func (s *server) await(ctx context.Context, key string, conn *net.UnixConn) error {
	g := newGate(key, s.log)
	s.show(g.outside())
	if key == "" {
		path := filepath.Join(s.cfg.stateDir, "init.sock")
		stop, err := s.serveSocket(path, g)
		if err != nil {
			return err
		}
		defer stop()
		s.log.Info("waiting for POST /init", "socket", path)
	} else {
		s.log.Info("waiting for POST /init", "url", s.url())
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case got := <-g.got:
		if conn != nil {
			var line bytes.Buffer
			if err := json.Compact(&line, got.raw); err != nil {
				return err
			}
			if _, err := conn.Write(append(line.Bytes(), '\n')); err != nil {
				s.log.Warn("process 1 has not kept the configuration: after a crash it must be sent again", "error", err)
			}
		}
		return s.configure(got.cfg)
	}
}

// serveSocket serves the gate on a socket whose file only this user can open.
func (s *server) serveSocket(path string, g *gate) (stop func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	_ = os.Remove(path) // of a server that was killed
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for POST /init: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	inside := &http.Server{Handler: g.inside(), ReadHeaderTimeout: 10 * time.Second}
	s.wg.Go(func() { _ = inside.Serve(l) }) // ends with stop
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = inside.Shutdown(ctx)
		_ = inside.Close()
	}, nil
}

// configure puts a late configuration in the place of what was not there.
func (s *server) configure(c *lateConfig) error {
	s.app.getenv = c.getenv(s.app.getenv) // agents are made from it, after this
	token := s.cfg.access.token           // its key stays, so it is still a secret
	s.cfg.access = &access{keys: append(slices.Clone(s.cfg.access.keys), adapter.ParseKeys(strings.Join(c.Keys, ","))...), token: token}
	s.cfg.agentEnv = c.Env
	s.lateSecrets = c.secrets()
	s.front.late.Store(true)
	if c.Workspace != "" {
		s.cfg.set.text["workspace"] = c.Workspace
	}
	return nil
}
