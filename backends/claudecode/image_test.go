package claudecode_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"innerd/backends/claudecode"
	"innerd/events"
)

// TestImageThatIsAPipe: a path that a host names may be a repository's; one
// that never ends is named to the agent and not read.
func TestImageThatIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.png")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { // ends with the read, or with the test's process
		_, err := claudecode.Image(events.Part{Type: events.PartImage, MimeType: "image/png", Path: path})
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for the pipe")
	}
}
