package simulate_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"innerd/backends"
	"innerd/backends/simulate"
)

// TestLinks: simulate's folder is below the home of other agents. Through a link
// in its place nothing is written, and a pipe for a file holds up nothing.
func TestLinks(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ours, dir := filepath.Join(base, "ours"), filepath.Join(base, "home", "simulate")
	if err := errors.Join(os.MkdirAll(ours, 0o700), os.MkdirAll(filepath.Dir(dir), 0o700), os.Symlink(ours, dir)); err != nil {
		t.Fatal(err)
	}
	c, err := simulate.New(&simulate.Options{StateDir: dir}).Open(t.Context(), backends.Config{})
	if err == nil {
		_, err = c.Run(t.Context(), backends.Input{}, nil)
	}
	if left, _ := os.ReadDir(ours); err == nil || len(left) > 0 {
		t.Errorf("%v; written: %v", err, left)
	}
	if err := errors.Join(os.Remove(dir), os.Mkdir(dir, 0o700), syscall.Mkfifo(filepath.Join(dir, "sim-12345678.json"), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err = simulate.New(&simulate.Options{StateDir: dir}).Open(t.Context(), backends.Config{Session: backends.Session{ID: "sim-12345678"}})
	if err == nil {
		t.Error("a pipe is a session")
	}
}
