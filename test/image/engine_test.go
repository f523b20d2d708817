// Package image tests the container image on a real Docker engine.
package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// owned marks everything that these tests make.
var owned = fmt.Sprintf("innerd.test=%d", os.Getpid())

// noEngine says why there is none; "" when there is one.
var noEngine = sync.OnceValue(func() string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Version}}").CombinedOutput()
	if err != nil {
		return fmt.Sprintf("no Docker engine answers: %v: %s", err, bytes.TrimSpace(out))
	}
	return ""
})

// needEngine fails where an engine is a must (CI), and skips elsewhere.
func needEngine(t *testing.T) {
	t.Helper()
	why := noEngine()
	switch {
	case why == "":
	case os.Getenv("CI") != "":
		t.Fatal(why + "; .ci/run starts one")
	default:
		t.Skip(why + "; start one, or let CI do it")
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	if noEngine() == "" {
		sweep()
	}
	os.Exit(code)
}

// sweep removes what a test that was ended has left.
func sweep() {
	for _, kind := range [][2][]string{
		{{"ps", "-aq"}, {"rm", "-f"}},
		{{"network", "ls", "-q"}, {"network", "rm"}},
		{{"volume", "ls", "-q"}, {"volume", "rm", "-f"}},
	} {
		out, _ := exec.Command("docker", append(kind[0], "--filter", "label="+owned)...).Output()
		if ids := strings.Fields(string(out)); len(ids) > 0 {
			_ = exec.Command("docker", append(kind[1], ids...)...).Run()
		}
	}
}

// docker runs a command and returns its output; a failure ends the test.
func docker(t testing.TB, args ...string) string {
	t.Helper()
	out, err := tryDocker(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryDocker(t testing.TB, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return strings.TrimSpace(out.String()), fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(errOut.Bytes()))
	}
	return strings.TrimSpace(out.String()), nil
}

var (
	buildMu sync.Mutex
	built   = map[string]error{}
)

// image builds a target once and returns its tag. With INNERD_IMAGES=NAME the
// images NAME:target, which are there, are tested instead.
func image(t *testing.T, target string) string {
	t.Helper()
	needEngine(t)
	if name := os.Getenv("INNERD_IMAGES"); name != "" {
		return name + ":" + target
	}
	tag := "innerd-test:" + target
	buildMu.Lock()
	defer buildMu.Unlock()
	err, done := built[target]
	if !done {
		err = buildImage(t, target, tag)
		built[target] = err
	}
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// builders are the clients that can build, best first: with BuildKit only what
// a target needs is built.
var builders = []struct{ program, buildkit string }{{"docker", "1"}, {"/usr/bin/docker", "1"}, {"docker", "0"}}

func buildImage(t *testing.T, target, tag string) error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	var errs []error
	for _, b := range builders {
		cmd := exec.CommandContext(t.Context(), b.program, "build", "--target", target, "-t", tag, "--build-arg", "VERSION=1.2.3-test", "--build-arg", "REVISION=abc", root)
		cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT="+b.buildkit)
		begin := time.Now()
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Logf("%s built in %v", tag, time.Since(begin).Round(time.Second))
			return nil
		}
		errs = append(errs, fmt.Errorf("%s (DOCKER_BUILDKIT=%s): %w\n%s", b.program, b.buildkit, err, tail(out, 3000)))
		if !bytes.Contains(out, []byte("buildx")) && !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
			break // the build itself failed
		}
	}
	return errors.Join(errs...)
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// container is one that runs, until the test's end.
type container struct {
	t    *testing.T
	id   string
	port string // on 127.0.0.1
}

// start runs an image with innerd's port published.
func start(t *testing.T, image string, args ...string) *container {
	t.Helper()
	port := freePort(t)
	run := append([]string{"run", "-d", "--label", owned, "-p", "127.0.0.1:" + port + ":18100", "-e", "INNERD_LOG_FORMAT=json"}, args...)
	c := &container{t: t, port: port, id: docker(t, append(run, image)...)}
	t.Cleanup(c.remove)
	return c
}

func (c *container) remove() {
	if c.t.Failed() {
		out, _ := exec.Command("docker", "logs", "--tail", "60", c.id).CombinedOutput()
		c.t.Logf("log of %.12s:\n%s", c.id, out)
	}
	_ = exec.Command("docker", "rm", "-f", c.id).Run()
}

func (c *container) url() string { return "http://127.0.0.1:" + c.port }

// exec runs a command in it as root.
func (c *container) exec(args ...string) (string, error) {
	return tryDocker(c.t, append([]string{"exec", c.id}, args...)...)
}

// log is all that it has written.
func (c *container) log() string {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), "docker", "logs", c.id).CombinedOutput()
	if err != nil {
		c.t.Fatal(err)
	}
	return string(out)
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// named makes a volume or a network that goes with the test.
func named(t *testing.T, kind string) string {
	t.Helper()
	name := fmt.Sprintf("innerd-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	docker(t, kind, "create", "--label", owned, name)
	t.Cleanup(func() { _ = exec.Command("docker", kind, "rm", name).Run() })
	return name
}

// until waits for something that comes with no event of its own.
func until(t testing.TB, what string, limit time.Duration, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", limit, what)
		}
	}
}
