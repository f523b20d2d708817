//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fifo makes a pipe that nobody writes to.
func fifo(t *testing.T, path string) string {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = syscall.Mkfifo(path, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A start that waits for a file, which may be a pipe, says for which one, and
// hears a signal.
func TestStartsThatReadHearSignals(t *testing.T) {
	for name, start := range map[string]func(h *home, pipe string) *served{
		"keys":     func(h *home, pipe string) *served { return h.start(nil, "--api-key-file", pipe) },
		"redact":   func(h *home, pipe string) *served { return h.start(nil, "--redact-file", pipe) },
		"card key": func(h *home, pipe string) *served { return h.start(nil, "--a2a-card-key", pipe) },
		"script":   func(h *home, pipe string) *served { return h.start(nil, "--simulate-script", pipe) },
		"init key": func(h *home, pipe string) *served { return h.start(nil, "--init-key-file", pipe) },
		"token":    func(h *home, _ string) *served { fifo(h.t, h.dir+"/state/token"); return h.start(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			s := start(h, fifo(t, h.dir+"/pipe"))
			s.log.until(t, "nobody has written all of it yet")
			if code := s.stop(syscall.SIGTERM); code != 0 {
				t.Errorf("exit code %d\n%s", code, s.log.text())
			}
		})
	}
	t.Run("services of process 1", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		cmd := h.command(t.Context(), "init", "--services", fifo(t, h.dir+"/pipe"))
		stderr, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		l := readLines(stderr)
		l.until(t, "nobody has written all of it yet")
		_ = cmd.Process.Signal(syscall.SIGHUP) // means nothing yet
		_ = cmd.Process.Signal(syscall.SIGTERM)
		l.wait()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, l.text())
		}
	})
}

// What a library reads is not waited for for ever either: a certificate of the
// collector, here.
func TestStartsThatDoNotEndAreEnded(t *testing.T) {
	for name, args := range map[string][]string{"in time": {"--stop-timeout", "100ms"}, "by a second signal": {"--stop-timeout", "10m"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			pipe := fifo(t, h.dir+"/pipe")
			h.env = append(h.env, "OTEL_EXPORTER_OTLP_ENDPOINT=https://127.0.0.1:1", "OTEL_EXPORTER_OTLP_CERTIFICATE="+pipe)
			s := h.start(nil, args...)
			var hold *os.File // its writer, once somebody reads
			waitUntil(t, func() bool {
				f, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
				hold = f
				return err == nil
			})
			defer hold.Close() //nolint:errcheck // nothing was written
			_ = s.cmd.Process.Signal(syscall.SIGTERM)
			s.log.until(t, "stopping")
			if code := s.stop(syscall.SIGTERM); code != exitFailed || !strings.Contains(s.log.text(), "ended by a second signal") && !strings.Contains(s.log.text(), "did not end in time") {
				t.Errorf("exit code %d\n%s", code, s.log.text())
			}
		})
	}
}

// A file without an end is not read to it.
func TestFilesAreBounded(t *testing.T) {
	h := newHome(t)
	h.run("serve", "--listen", "127.0.0.1:0", "--api-key-file", "/dev/zero").want(t, 2, "/dev/zero", "over 16 MiB")
}
