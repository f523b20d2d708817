package claudecode_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
)

// TestPipesForFiles: pipes that an agent has put in the place of claude's files
// hold up nothing.
func TestPipesForFiles(t *testing.T) {
	t.Parallel()
	turn := func(text string) []act { return []act{{Expect: `"type":"user"`}, say(text), {Print: okResult}} }
	f := openFake(t, false, "", slices.Concat(turn("one"), []act{{Drain: true}})...)
	one, _, err := run(t, f, backendtest.Turn{}, backends.Settings{Model: "claude-x"})
	if err != nil || !slices.Equal(texts(one), []string{"one"}) {
		t.Fatal(err)
	}
	session := f.saved[0].ID
	keepSession(t, f.home, session)
	kept := filepath.Join(f.home, "claude", "projects", "-tmp", session+".jsonl")
	open := filepath.Join(f.home, "claude", "sessions", "1.json")
	if err := errors.Join(os.Remove(kept), syscall.Mkfifo(kept, 0o600), os.MkdirAll(filepath.Dir(open), 0o700), syscall.Mkfifo(open, 0o600)); err != nil {
		t.Fatal(err)
	}
	f.write(t, slices.Concat(ready, turn("two"), []act{{Drain: true}}))
	two, _, err := run(t, f, backendtest.Turn{}, backends.Settings{Model: "claude-y"}) // in a process of its own
	if err != nil || !slices.Equal(texts(two), []string{"two"}) {
		t.Error(texts(two), err)
	}
}
