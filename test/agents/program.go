package agents

import (
	"os"
	"syscall"
	"testing"
)

// WriteProgram writes a program that the test will run. No process of this one
// is begun meanwhile: it would inherit the open file, and who then runs the
// program is told that the text file is busy.
func WriteProgram(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755) //nolint:gosec // a program
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
