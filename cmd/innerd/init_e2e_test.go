package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"innerd/test/agents"
)

// contained is an `innerd init` as a container would run it, but that it is
// not process 1. Its server is asked over the network.
type contained struct {
	*served
	root string
}

// asInit starts one whose files all users may reach.
func asInit(t *testing.T, services string, env ...string) *contained {
	t.Helper()
	return asInitUser(t, 0, services, env)
}

// asInitUser is asInit as another user than root.
func asInitUser(t *testing.T, uid uint32, services string, env []string) *contained {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may start processes of other users")
	}
	root, err := os.MkdirTemp("/tmp", "innerd-init-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(root, int(uid), int(uid)); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, "innerd")
	raw, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	agents.WriteProgram(t, program, string(raw))
	h := &home{t: t, dir: root, env: append([]string{
		"PATH=" + os.Getenv("PATH"), "INNERD_STATE_DIR=" + root + "/state", "INNERD_AGENT_HOME=" + root + "/agents",
		"INNERD_WORKSPACE=" + root + "/work", "INNERD_LISTEN=127.0.0.1:" + freePort(t), "INNERD_LOG_FORMAT=json", "INNERD_API_KEYS=ci:key",
	}, env...)}
	args := []string{"init"}
	if services != "" {
		path := filepath.Join(root, "services.json")
		if err := os.WriteFile(path, []byte(services), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--services", path)
	}
	s := &served{home: h, cmd: h.command(context.Background(), args...)}
	s.cmd.Path = program
	s.cmd.Args[0] = program
	if uid != 0 {
		s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.log = readLines(stderr)
	t.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		_ = s.cmd.Wait()
		s.log.wait()
	})
	return &contained{served: s, root: root}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// ready waits for a server and finds its pid.
func (c *contained) ready() int {
	c.t.Helper()
	var rec struct {
		URL string
		PID int
	}
	if err := json.Unmarshal([]byte(c.log.until(c.t, "innerd is ready")), &rec); err != nil {
		c.t.Fatal(err)
	}
	c.url = rec.URL
	c.env = append(c.env, "INNERD_SERVER="+rec.URL, "INNERD_API_KEY=key")
	return rec.PID
}

func uidOf(t *testing.T, pid int) string {
	t.Helper()
	return statusField(t, pid, "Uid:")
}

func statusField(t *testing.T, pid int, name string) string {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.Fields(rest + " -")[0]
		}
	}
	return ""
}

// What an agent runs, here a service of its user's, reaches nothing of the server.
func TestInitKeepsUsersApart(t *testing.T) {
	script := `cd "$HOME" || exit 1
	try() { if "$@" >/dev/null 2>&1; then echo "could: $*"; else echo "refused: $*"; fi; }
	until grep -q ready marker 2>/dev/null; do sleep 0.05; done
	s=$(cat server)
	{ id -u
	try cat "$INNERD_STATE_DIR/token"; try ls "$INNERD_STATE_DIR"; try cat "/proc/$s/environ"; try cat "/proc/$s/mem"; try ls "/proc/$s/fd"
	try cat "/proc/$PPID/environ"; try kill -0 "$s"; try kill -0 "$PPID"; try touch "$INNERD_STATE_DIR/x"; try chmod 777 "$INNERD_AGENT_HOME/../state"
	try touch "$INNERD_AGENT_HOME/mine"; try touch "$HOME/mine"; try touch "$INNERD_WORKSPACE/mine"
	grep NoNewPrivs /proc/self/status; grep CapEff /proc/self/status; env; } > out.tmp 2>&1; mv out.tmp out; sleep 60`
	raw, _ := json.Marshal(map[string]any{"services": []any{map[string]any{"name": "spy", "command": []string{"/bin/sh", "-c", script}, "restart": "never"}}})
	c := asInit(t, string(raw), "ANTHROPIC_API_KEY=canary-of-the-server")
	pid := c.ready()
	if uid := uidOf(t, pid); uid != "18100" {
		t.Errorf("the server runs as %s", uid)
	}
	if r := c.run("doctor"); !strings.Contains(r.out, "user 18100 and the agent home to user 18101") {
		t.Errorf("doctor says\n%s", r.out)
	}
	for name, want := range map[string]string{"CapEff:": "00000000000000e0", "NoNewPrivs:": "1"} {
		if got := statusField(t, c.cmd.Process.Pid, name); got != want {
			t.Errorf("init has %s %s, want %s", name, got, want)
		}
	}
	home := filepath.Join(c.root, "agents", "home")
	for name, text := range map[string]string{"server": strconv.Itoa(pid), "marker": "ready"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	waitUntil(t, func() bool { _, err := os.Stat(filepath.Join(home, "out")); return err == nil })
	out, err := os.ReadFile(filepath.Join(home, "out"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	if !strings.HasPrefix(text, "18101\n") || strings.Count(text, "refused: ") != 10 || strings.Count(text, "could: ") != 3 {
		t.Errorf("the agents' user\n%s", text)
	}
	if !strings.Contains(text, "NoNewPrivs:\t1") || !strings.Contains(text, "CapEff:\t0000000000000000") || strings.Contains(text, "canary") {
		t.Errorf("it has\n%s", text)
	}
}

// A server that is killed is started again, with the configuration that it was
// given late; its run is ended, and its agents are gone.
func TestInitRestartsAServer(t *testing.T) {
	c := asInit(t, "", "INNERD_INIT_KEY=bootstrap", "INNERD_API_KEYS=")
	line := c.log.until(t, "waiting for POST /init")
	var rec struct{ URL string }
	if err := json.Unmarshal([]byte(line), &rec); err != nil {
		t.Fatal(err)
	}
	if status, body := call(t, http.DefaultClient, "POST", rec.URL+"/init", "bootstrap", `{"keys":["ci:key"]}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	pid := c.ready()
	run := c.command(t.Context(), "run", "--json", "-b", "simulate", "--script", `[{"text":"before"},{"sleep_ms":60000}]`, "x")
	stdout, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	l := readLines(stdout)
	l.until(t, `"assistant.message"`)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.until(t, "adapter_restarted")
	l.wait()
	_ = run.Wait()
	if got := c.log.until(t, "started again"); !strings.Contains(got, `"signal":"killed"`) {
		t.Errorf("%s", got)
	}
	c.log.until(t, "configured as the server before")
	c.run("run", "-b", "simulate", "again").want(t, 0, "again")
	if code := c.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d\n%s", code, c.log.text())
	}
	if files := filesWith(t, c.root+"/state", "ci:key"); len(files) > 0 {
		t.Errorf("the key is in %v", files)
	}
}

// A stop reaches a run's readers as an event, in time.
func TestInitStops(t *testing.T) {
	c := asInit(t, `{"services":[{"name":"stubborn","command":["/bin/sh","-c","trap '' TERM; while :; do sleep 1; done"]}]}`)
	c.ready()
	run := c.command(t.Context(), "run", "--json", "-b", "simulate", "--script", `[{"text":"before"},{"sleep_ms":60000}]`, "x")
	stdout, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	l := readLines(stdout)
	l.until(t, `"assistant.message"`)
	begin := time.Now()
	if code := c.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d\n%s", code, c.log.text())
	}
	if d := time.Since(begin); d > 25*time.Second { // it would take 60 s
		t.Errorf("it took %v", d)
	}
	l.until(t, `"error_type":"shutdown"`)
	l.wait()
	_ = run.Wait()
}

// Orphans that a service leaves are reaped.
func TestInitReaps(t *testing.T) {
	c := asInit(t, `{"services":[{"name":"forks","restart":"never","command":["/bin/sh","-c","i=0; while [ $i -lt 200 ]; do (setsid sleep 0.1 &) ; i=$((i+1)); done; touch $HOME/done; sleep 60"]}]}`)
	c.ready()
	waitUntil(t, func() bool { _, err := os.Stat(c.root + "/agents/home/done"); return err == nil })
	waitUntil(t, func() bool {
		zombies, sleeps := 0, 0
		files, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, f := range files {
			raw, _ := os.ReadFile(f)
			name, rest, _ := strings.Cut(string(raw), ") ")
			fields := strings.Fields(rest)
			if len(fields) < 2 || fields[1] != strconv.Itoa(c.cmd.Process.Pid) {
				continue
			}
			if fields[0] == "Z" {
				zombies++
			}
			if strings.HasSuffix(name, "(sleep") {
				sleeps++
			}
		}
		return zombies == 0 && sleeps == 0
	})
}

// What cannot work ends with its reason, not in a loop.
func TestInitRefuses(t *testing.T) {
	h := newHome(t)
	if os.Getuid() != 0 {
		t.Skip("only root may start processes of other users")
	}
	bad := filepath.Join(h.dir, "bad.json")
	for content, says := range map[string]string{
		`{"services":[{"name":"A b","command":["sh"]}]}`:                  "name must be",
		`{"services":[{"name":"a"}]}`:                                     "command is empty",
		`{"services":[{"name":"a","command":["/none"]}]}`:                 "/none",
		`{"services":[{"name":"a","command":["sh"],"restart":"maybe"}]}`:  "restart",
		`{"services":[{"name":"a","command":["sh"],"nonsense":1}]}`:       "nonsense",
		`{"services":[{"name":"a","command":["sh"],"user":"no-such-1"}]}`: "no user",
	} {
		if err := os.WriteFile(bad, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		h.run("init", "--services", bad).want(t, 2, says)
	}
	h.run("init", "--agent-user", "0").want(t, 2, "neither of them root")
	h.run("init", "--agent-user", "18100:18100").want(t, 2, "must be two")
	h.run("init", "--server-user", "nobody-knows").want(t, 2, "no user")
}

// health is the probe of an image.
func TestHealth(t *testing.T) {
	s := newHome(t).serve()
	addr := strings.TrimPrefix(s.url, "http://")
	s.run("health", "--listen", addr).want(t, 0)
	s.run("health", "--ready", "--listen", addr).want(t, 0)
	s.run("health", "--listen", "127.0.0.1:1").want(t, 3, "no answer")
}

// Not as root it runs both as that user, and says what that means.
func TestInitAsOneUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may start processes of other users")
	}
	c := asInitUser(t, 65534, "", nil)
	pid := c.ready()
	if uid := uidOf(t, pid); uid != "65534" {
		t.Errorf("the server runs as %s", uid)
	}
	if !strings.Contains(c.log.text(), "promises nothing against a hostile one") {
		t.Error("it does not say so")
	}
	if err := os.MkdirAll(c.root+"/work", 0o755); err != nil {
		t.Fatal(err)
	}
	c.run("run", "-b", "simulate", "one user").want(t, 0, "one user")
}
