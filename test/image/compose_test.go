package image

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// compose is the compose of this machine: Docker's own, or the older one.
func compose(t *testing.T) []string {
	t.Helper()
	if exec.Command("docker", "compose", "version").Run() == nil {
		return []string{"docker", "compose"}
	}
	if _, err := exec.LookPath("docker-compose"); err == nil {
		return []string{"docker-compose"}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("neither docker compose nor docker-compose is here; .ci/run installs one")
	}
	t.Skip("neither docker compose nor docker-compose is here")
	return nil
}

// compose.yaml is one that compose takes, and does not start without a key.
func TestCompose(t *testing.T) {
	c := compose(t)
	run := func(env ...string) (string, error) {
		cmd := exec.Command(c[0], append(c[1:], "-f", "../../compose.yaml", "config")...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("INNERD_API_KEYS=ci:key", "INNERD_TARGET=agents")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"target: agents", "no-new-privileges", "read_only: true", "127.0.0.1"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out, err := run("INNERD_API_KEYS="); err == nil || !strings.Contains(out, "name:secret") {
		t.Errorf("without a key: %v\n%s", err, out)
	}
}
