package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"syscall"
	"testing"

	"innerd/image/entrypoint"
)

// A signal that ends process 1 while it makes something counts, also where that
// is made nevertheless.
func TestSignalsBeforeTheServerCount(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	_, err := untilSignal(t.Context(), signals, func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 1, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a signal was lost: %v", err)
	}
}

// A stop while process 1 is asked for the configuration is a stop, no failure.
func TestStopWhileProcess1IsAsked(t *testing.T) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(ends[0]) })
	t.Setenv(entrypoint.LateVar, strconv.Itoa(ends[1]))
	a := &app{getenv: func(name string) string { return map[string]string{"INNERD_INIT_KEY": "key"}[name] }}
	s := &server{cfg: &serverConfig{}, app: a, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.lateSettings(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a stop became %v", err)
	}
	if s.late != nil {
		_ = s.late.Close()
	}
}
