package agents

import (
	"os/exec"
	"slices"
	"testing"
)

// Help is what a program says of one of its commands when it is asked for that:
// it does nothing then, and has no way out if it does. A failure fails the test.
func Help(t testing.TB, path string, args, env []string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, append(slices.Clone(args), "--help")...)
	cmd.Env = append(slices.Clone(env), "HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %q: %v", path, cmd.Args[1:], err)
	}
	return string(out)
}
