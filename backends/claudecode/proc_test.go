package claudecode_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func mkfifo(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

// gone waits until no process has a text in its command line.
func gone(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); running(text) != ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%s runs on", running(text))
			return
		}
	}
}

// running is the command line of a process that holds a text, "" if there is none.
func running(text string) string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if line := strings.ReplaceAll(string(raw), "\x00", " "); err == nil && strings.Contains(line, text) {
			return line
		}
	}
	return ""
}
