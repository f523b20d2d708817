package codex_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/codex"
)

// TestLinks: where agents have put a link in the place of codex's folder,
// nothing is removed behind it; a pipe in the place of a file of ours holds up
// nothing.
func TestLinks(t *testing.T) {
	t.Parallel()
	answer := script{"turn/start": {{accepted, started, said("one"), finished}}}
	st := newStage(t, answer)
	ours := filepath.Join(t.TempDir(), "ours.sqlite")
	if err := errors.Join(os.WriteFile(ours, nil, 0o600), os.Symlink(filepath.Dir(ours), filepath.Join(st.home, "codex"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, st.open(idA, ""), backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(ours); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(ours), codex.HomeFile)); err == nil {
		t.Error("the folder was called settled, and its indexes are as they were")
	}

	st = newStage(t, answer)
	home := filepath.Join(st.home, "codex")
	if err := errors.Join(os.MkdirAll(home, 0o700), syscall.Mkfifo(filepath.Join(home, codex.HomeFile), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, st.open(idA, ""), backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Error(err)
	}
}
