package image

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/events"
	"innerd/host"
)

const longScript = `{"script":[{"text":"It has begun."},{"sleep_ms":120000}]}`

// long starts a run that goes on for two minutes, and leaves when its first
// message is there: a run with an id of the client's stays.
func (c *container) long(id string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	body := `{"messages":[{"role":"user","content":"Do it."}],"metadata":{"backend":"simulate","task_id":"` + id + `","agent_options":` + longScript + `}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url()+"/message:stream", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer key")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), `"assistant.message"`) {
			return
		}
	}
	c.t.Fatalf("%s: the stream ended, %s", id, resp.Status)
}

// ends reads a run from its start and returns its types and its end.
func ends(t *testing.T, h *host.Client, id string) ([]events.Event, events.End) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all []events.Event
	for e, err := range h.Follow(ctx, id, 0) {
		if err != nil {
			t.Fatalf("%s after %d events: %v", id, len(all), err)
		}
		if e.ID > 0 {
			all = append(all, e)
		}
	}
	for i, e := range all {
		if e.ID != int64(i+1) {
			t.Errorf("%s: event %d has the id %d", id, i+1, e.ID)
		}
	}
	_, end := said(t, all)
	return all, end
}

// Whatever ends a container, the log on its volume is whole: each run has its
// end, with the reason.
func TestStopKillRestart(t *testing.T) {
	tag := image(t, "runtime")
	for name, tt := range map[string]struct {
		how  func(c *container)
		why  string
		code int
	}{
		"stop":    {func(c *container) { docker(t, "stop", c.id); docker(t, "start", c.id) }, "shutdown", 0},
		"kill":    {func(c *container) { docker(t, "kill", c.id); docker(t, "start", c.id) }, "adapter_restarted", 137},
		"restart": {func(c *container) { docker(t, "restart", c.id) }, "shutdown", 0},
	} {
		t.Run(name, func(t *testing.T) {
			state := named(t, "volume")
			c := start(t, tag, "-v", state+":/var/lib/innerd", "-e", "INNERD_API_KEYS=ci:key")
			c.client()
			for i := range 10 {
				c.long(fmt.Sprintf("run-%s-%d", name, i))
			}
			begin := time.Now()
			tt.how(c)
			t.Logf("%s with ten runs: %v", name, time.Since(begin).Round(time.Millisecond))
			h := c.client()
			for i := range 10 {
				all, end := ends(t, h, fmt.Sprintf("run-%s-%d", name, i))
				if end.Reason != tt.why || !slices.ContainsFunc(all, func(e events.Event) bool { return e.Type() == events.TypeMessage }) {
					t.Errorf("run %d: %+v, %d events", i, end, len(all))
				}
			}
		})
	}
}

// docker stop ends within its grace, and the engine sees a clean end.
func TestStopIsClean(t *testing.T) {
	c := start(t, image(t, "runtime"), "-e", "INNERD_API_KEYS=ci:key")
	c.client()
	for i := range 10 {
		c.long(fmt.Sprintf("run-stop-%d", i))
	}
	begin := time.Now()
	docker(t, "stop", c.id)
	took := time.Since(begin)
	t.Logf("docker stop with ten running runs: %v", took.Round(time.Millisecond))
	if code := docker(t, "inspect", "-f", "{{.State.ExitCode}}", c.id); code != "0" || took > 5*time.Second {
		t.Errorf("exit code %s after %v", code, took)
	}
}

// Only what is needed is open: the port, and the bridge's on loopback.
func TestListens(t *testing.T) {
	c := start(t, image(t, "runtime"), "-e", "INNERD_API_KEYS=ci:key")
	c.client()
	out, err := c.exec("cat", "/proc/net/tcp", "/proc/net/tcp6")
	if err != nil {
		t.Fatal(err)
	}
	var all, loopback int
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "0A" { // LISTEN
			continue
		}
		addr, port, _ := strings.Cut(f[1], ":")
		switch n, _ := strconv.ParseInt(port, 16, 32); {
		case n == 18100:
			all++
		case addr == "0100007F":
			loopback++
		default:
			t.Errorf("it listens on %s", f[1])
		}
	}
	if all != 1 || loopback > 1 {
		t.Errorf("%d listeners on 18100, %d on loopback", all, loopback)
	}
}

// hardened are the flags of compose.yaml and of the Kubernetes examples.
var hardened = []string{
	"--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--cap-add", "SETUID", "--cap-add", "SETGID", "--cap-add", "KILL", "--cap-add", "CHOWN",
	"--security-opt", "no-new-privileges", "--pids-limit", "512", "--memory", "1g",
}

// With a read-only root and nearly no capability it works as well, on volumes
// that belong to root at first, and again on those that do not any more.
func TestHardened(t *testing.T) {
	for _, a := range agents() {
		t.Run(a.name, func(t *testing.T) {
			args := slices.Concat(hardened, []string{
				"--tmpfs", "/var/lib/innerd:mode=0755", "--tmpfs", "/var/lib/innerd-agents:mode=0755,exec", "--tmpfs", "/workspace:mode=0755",
			})
			c := withModel(t, a, []map[string]any{
				say(use(a.shell("touch /workspace/mine && id -u > /workspace/uid; touch /etc/x; cat /workspace/uid"))), say(text("{{tool_result}}")),
			}, args...)
			out, end := said(t, turn(t, c.client(), a.name, nil))
			if end.State != events.Completed || !strings.Contains(out, "18101") || !strings.Contains(out, "Read-only") {
				t.Errorf("%+v\n%s", end, out)
			}
			docker(t, "restart", "-t", "10", c.id)
			c.client()
		})
	}
	t.Run("volumes", func(t *testing.T) {
		state, homes := named(t, "volume"), named(t, "volume")
		c := start(t, image(t, "runtime"), append(slices.Clone(hardened),
			"-v", state+":/var/lib/innerd", "-v", homes+":/var/lib/innerd-agents", "-e", "INNERD_API_KEYS=ci:key")...)
		for range 2 {
			out, end := said(t, turn(t, c.client(), "simulate", nil))
			if end.State != events.Completed {
				t.Errorf("%+v\n%s", end, out)
			}
			docker(t, "restart", "-t", "10", c.id)
		}
	})
}

// The minimal image has nothing but innerd, and runs it.
func TestMinimal(t *testing.T) {
	tag := image(t, "minimal")
	c := start(t, tag, "-e", "INNERD_API_KEYS=ci:key")
	if _, end := said(t, turn(t, c.client(), "simulate", nil)); end.State != events.Completed {
		t.Errorf("%+v", end)
	}
	if out, err := c.exec("/innerd", "health", "--ready"); err != nil {
		t.Errorf("%v %s", err, out)
	}
	size, err := strconv.ParseInt(docker(t, "inspect", "-f", "{{.Size}}", tag), 10, 64)
	if err != nil || size > 36<<20 {
		t.Errorf("%.1f MiB (%v)", float64(size)/(1<<20), err)
	}
	t.Logf("minimal is %.1f MiB", float64(size)/(1<<20))
	docker(t, "stop", c.id)
	if code := docker(t, "inspect", "-f", "{{.State.ExitCode}}", c.id); code != "0" {
		t.Errorf("exit code %s", code)
	}
}

// Without root it runs all the same, as one user, and says so.
func TestAsAnyUser(t *testing.T) {
	c := start(t, image(t, "runtime"), "--user", "12345:12345", "--tmpfs", "/var/lib/innerd:uid=12345", "--tmpfs", "/var/lib/innerd-agents:uid=12345",
		"-e", "INNERD_API_KEYS=ci:key")
	if _, end := said(t, turn(t, c.client(), "simulate", nil)); end.State != events.Completed {
		t.Errorf("%+v", end)
	}
	if log := c.log(); !strings.Contains(log, "promises nothing against a hostile one") {
		t.Errorf("it does not say so:\n%s", log)
	}
	out, err := c.exec("cat", "/proc/1/status")
	if err != nil || !strings.Contains(out, "Uid:\t12345") {
		t.Errorf("%v %s", err, out)
	}
}

// A container of a warm pool is told whose it is.
func TestLateInit(t *testing.T) {
	c := start(t, image(t, "runtime"), "-e", "INNERD_INIT_KEY=bootstrap")
	until(t, "it lives", time.Minute, func() bool { return c.status("/health", "", "") == 200 })
	if got := c.status("/ready", "", ""); got != 503 {
		t.Errorf("ready: %d", got)
	}
	if got := c.status("/init", "wrong", `{"keys":["ci:key"]}`); got != 401 {
		t.Errorf("with a wrong key: %d", got)
	}
	if got := c.status("/init", "bootstrap", `{"keys":["ci:key"],"env":{"WHOSE":"mine"}}`); got != 200 {
		t.Errorf("init: %d", got)
	}
	if _, end := said(t, turn(t, c.client(), "simulate", nil)); end.State != events.Completed {
		t.Errorf("%+v", end)
	}
	if got := c.status("/init", "bootstrap", `{"keys":["ci:key"]}`); got != 409 {
		t.Errorf("a second: %d", got)
	}
}

// status is that of a GET, or of a POST with a body.
func (c *container) status(path, key, body string) int {
	c.t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url()+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// Two containers know nothing of each other.
func TestTwoAtOnce(t *testing.T) {
	tag := image(t, "runtime")
	one := start(t, tag, "-e", "INNERD_API_KEYS=ci:key")
	two := start(t, tag, "-e", "INNERD_API_KEYS=ci:key")
	h1, h2 := one.client(), two.client()
	var wg sync.WaitGroup
	for _, h := range []*host.Client{h1, h2} {
		wg.Go(func() { turn(t, h, "simulate", nil) })
	}
	wg.Wait()
	for _, h := range []*host.Client{h1, h2} {
		tasks, err := h.Tasks(t.Context(), host.TaskQuery{})
		if err != nil || len(tasks.Tasks) != 1 {
			t.Errorf("%d tasks, %v", len(tasks.Tasks), err)
		}
	}
}

// What takes all memory is killed, be it a command of an agent's or the agent;
// the run says so, the server lives, and takes the next run.
func TestOutOfMemory(t *testing.T) {
	a := agents()[0]
	for name, tt := range map[string]struct{ command, says string }{
		"command": {"head -c 2G /dev/zero | tail; echo went on", "went on"},
		"agent":   {"echo 1000 > /proc/$PPID/oom_score_adj; head -c 2G /dev/zero | tail", "killed"},
	} {
		t.Run(name, func(t *testing.T) {
			c := withModel(t, a, []map[string]any{say(use(a.shell(tt.command))), say(text("{{tool_result}}"))}, "--memory", "900m", "--memory-swap", "900m")
			h := c.client()
			out, end := said(t, turn(t, h, a.name, nil))
			if !strings.Contains(out+end.Signal, tt.says) || (end.State == events.Completed) != (name == "command") {
				t.Errorf("%+v\n%s", end, out)
			}
			if got := docker(t, "inspect", "-f", "{{.State.Running}} {{.RestartCount}}", c.id); got != "true 0" {
				t.Errorf("the container: %s", got)
			}
			kills, _ := c.exec("sh", "-c", "cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control 2>/dev/null | grep -w oom_kill")
			if f := strings.Fields(kills); len(f) < 2 || f[1] == "0" {
				t.Errorf("the kernel killed nothing: %q", kills)
			}
			if log := c.log(); strings.Contains(log, "started again") {
				t.Errorf("the server was ended\n%s", log)
			}
			if _, end := said(t, turn(t, h, "simulate", nil)); end.State != events.Completed {
				t.Errorf("the run after it: %+v", end)
			}
		})
	}
}

// No zombie is left of what an agent's shell forks twice, and health is good
// through it all.
func TestNoZombies(t *testing.T) {
	a := agents()[0]
	c := withModel(t, a, []map[string]any{
		say(use(a.shell("i=0; while [ $i -lt 200 ]; do (sleep 0.01 &) ; i=$((i+1)); done; echo forked"))), say(text("{{tool_result}}")),
	})
	h := c.client()
	over, polled := make(chan struct{}), make(chan [2]int, 1)
	go func() { // ends with over
		good, bad := 0, 0
		for {
			select {
			case <-over:
				polled <- [2]int{good, bad}
				return
			case <-time.After(20 * time.Millisecond):
			}
			if c.status("/health", "", "") == 200 {
				good++
			} else {
				bad++
			}
		}
	}()
	out, end := said(t, turn(t, h, a.name, nil))
	close(over)
	if n := <-polled; n[0] == 0 || n[1] > 0 {
		t.Errorf("health: %d times good, %d times not", n[0], n[1])
	}
	if end.State != events.Completed || !strings.Contains(out, "forked") {
		t.Fatalf("%+v\n%s", end, out)
	}
	until(t, "the engine calls it healthy", time.Minute, func() bool {
		return docker(t, "inspect", "-f", "{{.State.Health.Status}} {{.State.Health.FailingStreak}}", c.id) == "healthy 0"
	})
	until(t, "no zombie", 20*time.Second, func() bool {
		out, err := c.exec("sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null")
		return err == nil && !strings.Contains(out, ") Z ")
	})
}

// What an image should say of itself, and what it must not have in it.
func TestImages(t *testing.T) {
	for _, target := range []string{"runtime", "minimal", "agents"} {
		tag := image(t, target)
		var info []struct {
			Config struct {
				Labels      map[string]string
				Healthcheck *struct{ Test []string }
				Entrypoint  []string
				Env         []string
			}
		}
		if err := json.Unmarshal([]byte(docker(t, "inspect", tag)), &info); err != nil {
			t.Fatal(err)
		}
		cfg := info[0].Config
		if cfg.Labels["org.opencontainers.image.version"] != "1.2.3-test" || cfg.Labels["org.opencontainers.image.revision"] != "abc" || cfg.Healthcheck == nil || len(cfg.Entrypoint) != 2 {
			t.Errorf("%s: %+v", target, cfg)
		}
		if out := docker(t, "run", "--rm", "--label", owned, "--entrypoint", cfg.Entrypoint[0], tag, "version"); !strings.Contains(out, "1.2.3-test") {
			t.Errorf("%s: version %q", target, out)
		}
	}
	sh := func(tag, script string) string {
		return docker(t, "run", "--rm", "--label", owned, "--entrypoint", "/bin/sh", tag, "-c", script)
	}
	sh(image(t, "runtime"), "dpkg -s ca-certificates git ripgrep >/dev/null && git --version && rg --version && test -s /usr/share/innerd/innerd.cdx.json")
	if out := sh(image(t, "runtime"), "find / -xdev -perm -4000 -newer /usr/local/bin/innerd 2>/dev/null; find / -xdev \\( -name '*.pem' -o -name id_rsa -o -name .npmrc -o -name .netrc \\) -path '/root/*'"); out != "" {
		t.Errorf("in the image: %s", out)
	}
	doctor := docker(t, "run", "--rm", "--label", owned, "-e", "ANTHROPIC_API_KEY=sk-dummy", "-e", "OPENAI_API_KEY=sk-dummy", "-e", "GITHUB_TOKEN=dummy", "--entrypoint", "innerd", image(t, "agents"), "doctor")
	for _, a := range agents() {
		if !strings.Contains(doctor, "ok  "+a.name) {
			t.Errorf("%s is not usable\n%s", a.name, doctor)
		}
	}
	var sbom struct{ Components []struct{ Name string } }
	if err := json.Unmarshal([]byte(sh(image(t, "agents"), "cat /usr/share/innerd/agents.cdx.json")), &sbom); err != nil || len(sbom.Components) != len(agents()) {
		t.Errorf("the agents' bill of materials: %+v %v", sbom, err)
	}
}

// A start costs little more than the engine's own, and an idle one little memory.
func TestStartAndMemory(t *testing.T) {
	tag := image(t, "runtime")
	const rounds = 7
	var bare, ours []time.Duration
	for range rounds { // interleaved: the machine is shared
		begin := time.Now()
		c := start(t, tag, "--entrypoint", "sleep", "-e", "X=1")
		bare = append(bare, time.Since(begin))
		c.remove()
		begin = time.Now()
		c = start(t, tag, "-e", "INNERD_API_KEYS=ci:key")
		until(t, "healthy", time.Minute, func() bool { return c.status("/health", "", "") == 200 })
		ours = append(ours, time.Since(begin))
		c.remove()
	}
	slices.Sort(bare)
	slices.Sort(ours)
	more := ours[rounds/2] - bare[rounds/2]
	t.Logf("start to healthy %v, bare start %v: %v more", ours[rounds/2].Round(time.Millisecond), bare[rounds/2].Round(time.Millisecond), more.Round(time.Millisecond))
	if more > 2*time.Second { // the goal is 300 ms, on a quiet machine
		t.Errorf("a start takes %v more than the engine's own", more)
	}
	c := start(t, tag, "-e", "INNERD_API_KEYS=ci:key")
	c.client()
	if os.Getuid() != 0 {
		t.Skip("only root may see how much memory others share")
	}
	init := docker(t, "inspect", "-f", "{{.State.Pid}}", c.id)
	pids := []string{init}
	threads, err := filepath.Glob("/proc/" + init + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range threads {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, strings.Fields(string(raw))...)
	}
	if len(pids) != 2 {
		t.Fatalf("processes of the container: %v", pids)
	}
	out := ""
	for _, pid := range pids {
		raw, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
		if err != nil {
			t.Fatal(err)
		}
		out += string(raw)
	}
	kb := 0
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			n, _ := strconv.Atoi(f[1])
			kb += n
		}
	}
	t.Logf("idle: innerd and init have %d KiB of their own share (PSS)", kb)
	if kb == 0 || kb > 30<<10 {
		t.Errorf("idle PSS is %d KiB", kb)
	}
}
