//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
)

// serve runs a server until a signal. What stdin is does not matter: it is
// never read.
func (a *app) serve(cmd *cobra.Command) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, stopSignals()...)
	defer signal.Stop(signals)
	survivePipes() // a log that nobody reads must not end a server

	var warnings []string
	set, err := resolve(cmd, serveSettings(), a.getenv, func(w string) { warnings = append(warnings, w) })
	if err != nil {
		return err
	}
	log := newLogger(a.err, set.str("log-format"), set.str("log-level"))
	for _, w := range warnings {
		log.Warn(w)
	}
	sampleMemory(set.bool("pprof"))
	limitMemory(a.getenv)
	s, err := a.startUntil(cmd.Context(), set, log, signals)
	if s == nil || err != nil {
		return err
	}
	s.announce()
	trim()
	var failure error
	select {
	case sig := <-signals:
		log.Info("stopping", "signal", sig.String())
	case failure = <-s.failed:
		log.Error("the listener broke", "error", failure)
	case <-cmd.Context().Done():
	}
	return errors.Join(failure, s.stopOnSignal(signals))
}

// startUntil starts a server; a signal meanwhile ends that, and there is none:
// it may wait for long, for a file that is a pipe, for its configuration or for
// what an earlier one left. What does not end with it in --stop-timeout, or by a
// second signal, ends with the process.
func (a *app) startUntil(ctx context.Context, set *resolved, log *slog.Logger, signals <-chan os.Signal) (*server, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var s *server
	started := make(chan error, 1)
	go func() { // ends when it has started, or soon after ctx
		cfg, err := a.serverConfig(ctx, set)
		if err == nil {
			s, err = a.startServer(ctx, cfg, log)
		}
		started <- err
	}()
	select {
	case err := <-started:
		return s, err
	case sig := <-signals:
		log.Info("stopping", "signal", sig.String())
		cancel()
		select {
		case err := <-started:
			if err != nil && !errors.Is(err, context.Canceled) {
				return nil, err
			}
		case <-signals:
			return nil, exitError{exitFailed, errors.New("ended by a second signal")}
		case <-time.After(set.dur("stop-timeout")):
			return nil, exitError{exitFailed, errors.New("the start did not end in time")}
		}
		if s == nil {
			return nil, nil
		}
		return nil, s.stopOnSignal(signals)
	}
}

// afterStop is what a stop whose time is over may take to say what was left.
const afterStop = 2 * time.Second

// stopOnSignal stops within --stop-timeout; a second signal ends at once, and
// so does the time: agents end with this process.
func (s *server) stopOnSignal(signals <-chan os.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.set.dur("stop-timeout"))
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop(ctx) }() // ends soon after ctx, or with the process
	select {
	case err := <-stopped:
		s.log.Info("stopped")
		return err
	case sig := <-signals:
		s.log.Warn("ended by a second signal", "signal", sig.String())
		return exitError{exitFailed, errors.New("ended by a second signal")}
	case <-time.After(s.cfg.set.dur("stop-timeout") + afterStop):
		return exitError{exitFailed, errors.New("not everything ended in time")}
	}
}

// announce says once where the server is and who may call.
func (s *server) announce() {
	attrs := []any{"url", s.url(), "version", versionString(), "state_dir", s.store.Dir(), "pid", os.Getpid()}
	acc := s.cfg.access
	switch {
	case acc.token != "":
		attrs = append(attrs, "auth", "token", "token_file", acc.token)
	case !acc.open:
		attrs = append(attrs, "auth", fmt.Sprintf("%d keys", len(acc.keys)))
	default:
		attrs = append(attrs, "auth", "off")
	}
	s.log.Info("innerd is ready", attrs...)
	if acc.open {
		why := "--auth=off"
		if acc.field {
			why = "SANDBOX_ADAPTER_ENABLED or SANDBOX_ADAPTER_BACKEND is set and no keys are given"
		}
		s.log.Log(context.Background(), slog.LevelWarn,
			"EVERYBODY WHO REACHES THIS PORT MAY RUN COMMANDS HERE: no key is asked for", "address", s.listen.Addr().String(), "why", why)
	}
}
