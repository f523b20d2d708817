package copilot_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
)

// TestLinks: what agents put into the place of their own folders and files leads
// nothing of ours out of these, and holds up nothing.
func TestLinks(t *testing.T) {
	f := newFake(t, acts(send("i1"), []act{
		event(`{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"bash","arguments":{"command":"serve","detach":true}}}`),
		event(`{"type":"tool.execution_complete","data":{"toolCallId":"c","success":true,"result":{"content":"started"}}}`), say("ok"),
	}, stop, []act{
		{Expect: `"method":"session.tasks.list"`},
		{Answer: `{"tasks":[{"type":"shell","id":"x","status":"running","attachmentMode":"detached","logPath":"` + detachedElsewhere(t) + `"}]}`},
	})...)
	home, ours := filepath.Join(f.home, "copilot"), filepath.Join(f.home, "ours")
	var kept []string
	for i := range 15 {
		kept = append(kept, filepath.Join(ours, fmt.Sprintf("process-%02d-1.log", i)))
	}
	err := errors.Join(os.MkdirAll(home, 0o700), os.MkdirAll(ours, 0o700),
		os.Symlink(ours, filepath.Join(home, "logs")), os.Symlink(ours, filepath.Join(home, "outputs")))
	for _, path := range kept {
		err = errors.Join(err, os.WriteFile(path, nil, 0o600))
	}
	if err = errors.Join(err, syscall.Mkfifo(filepath.Join(home, "config.json"), 0o600)); err != nil {
		t.Fatal(err)
	}
	f.Probe(t.Context()) // returns
	c := f.open(t, nil)
	if _, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{}); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	session := f.saved[0].ID
	f.mu.Unlock()
	result := filepath.Join(ours, session, "result.txt")
	if err := errors.Join(os.MkdirAll(filepath.Dir(result), 0o700), os.WriteFile(result, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, path := range append(kept, result) {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("it went through a link: %v", err)
		}
	}
}

// detachedElsewhere is a path as copilot's own for the log of a detached
// command, behind a link out of the folder for such.
func detachedElsewhere(t *testing.T) string {
	t.Helper()
	ours, err := os.MkdirTemp(".", "ours-")
	if err != nil {
		t.Fatal(err)
	}
	ours, err = filepath.Abs(ours)
	link := filepath.Join(t.TempDir(), "link")
	log := filepath.Join(ours, "copilot-detached-x.log")
	if err = errors.Join(err, os.WriteFile(log, nil, 0o600), os.Symlink(ours, link)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := os.Stat(log); err != nil {
			t.Errorf("it went through a link: %v", err)
		}
		_ = os.RemoveAll(ours)
	})
	return filepath.Join(link, "copilot-detached-x.log")
}

// TestLogThatIsAPipe: the time that a limit takes is looked for in a log, and an
// agent may have put a pipe in the place of that.
func TestLogThatIsAPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "process-1-1.log")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if tail := newFake(t).TailOf(path); len(tail) > 0 { // it returns
		t.Errorf("%q", tail)
	}
}
