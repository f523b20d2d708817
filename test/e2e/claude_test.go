//go:build linux

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"innerd/events"
	"innerd/test/agents"
	"innerd/test/claudescript"
	"innerd/test/modelstub"
	outside "innerd/test/server"
)

// ofScenario has a run of claude-code use a scripted model.
func ofScenario(sc *modelstub.Scenario, text string, metadata map[string]any) body {
	meta := map[string]any{"credentials": map[string]any{"api_key": sc.Key(), "base_url": sc.BaseURL()}}
	for k, v := range metadata {
		meta[k] = v
	}
	return prompt("claude-code", text, meta)
}

// loop is a command that writes to a file for ever, also when it is asked to stop.
func loop(path string) string {
	return fmt.Sprintf(`trap "" TERM INT HUP; while :; do echo x >> %s; sleep 0.02; done`, path)
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// holders are the processes whose command line speaks of a file.
func holders(path string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range all {
		raw, _ := os.ReadFile(p) // it may be gone
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(p)), "%d", &pid); err == nil && bytes.Contains(raw, []byte(path)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// No agent, nor what it started, outlives a server that was killed: before the
// next one is ready, all of it is gone, and no model was asked any more.
func TestNoAgentOutlivesAKilledServer(t *testing.T) {
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	s := withClaude(t, agents.Claude(t).Path)
	s.Start()
	file := filepath.Join(s.Dir, "grows")
	sc := stub.Scenario(
		modelstub.Say(modelstub.Text("I run it."), modelstub.Tool("Bash", map[string]any{"command": loop(file), "description": "A loop"})),
		modelstub.Say(modelstub.Text("Asked again.")),
	)
	p := s.post(ofScenario(sc, "Run the loop.", map[string]any{"detach": true, "events": "all"}).in("talk"), nil)
	p.until(t, events.TypeToolCall)
	outside.Eventually(t, "the file grows", func() bool { return size(file) > 4 })
	id := p.taskID()
	s.Kill()
	s.Start()
	if left := s.Strays(); len(left) > 0 {
		t.Errorf("a ready server, and what the old one started is there: %s", outside.Describe(left))
	}
	if left := holders(file); len(left) > 0 {
		t.Errorf("the command still runs: %s", outside.Describe(left))
	}
	grown, asked := size(file), sc.Count()
	if asked != 1 {
		t.Errorf("the model was asked %d times", asked)
	}
	after := s.follow("afterwards", id, 0)
	after.whole(t)
	checkOrder(t, after.events())
	restarted(t, after)
	s.equal(s.journal(id), false, p)

	again := ofScenario(sc, "", nil).in("talk")
	again["messages"] = []any{message("user", "Run the loop."), message("user", "Are you there?")}
	next := s.post(again, nil)
	completed(t, next)
	if pids := s.Marked(); len(pids) != 1 {
		t.Errorf("the agent's processes are %s", outside.Describe(pids))
	}
	if n := sc.Count(); n != 2 || size(file) != grown {
		t.Errorf("the model was asked %d times, the file grew by %d", n, size(file)-grown)
	}
	if all := sc.Requests(); !strings.Contains(claudescript.Heard(all[1]), "I run it.") {
		t.Error("the session was not resumed: the model does not hear what it said")
	}
}

// A run of Claude that is canceled ends its command too.
func TestCancelEndsWhatRuns(t *testing.T) {
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	s := withClaude(t, agents.Claude(t).Path)
	s.Start()
	file := filepath.Join(s.Dir, "grows")
	sc := stub.Scenario(modelstub.Say(modelstub.Tool("Bash", map[string]any{"command": loop(file), "description": "A loop"})))
	p := s.post(ofScenario(sc, "Run the loop.", nil), nil)
	p.until(t, events.TypeToolCall)
	outside.Eventually(t, "the file grows", func() bool { return size(file) > 4 })
	began := time.Now()
	s.Do(http.MethodPost, "/tasks/"+p.taskID()+":cancel", nil, nil)
	// An answer waits 8 s for the run's end; one that waits for ever has its turn's time, 15 minutes.
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the cancel took %v", took)
	}
	p.whole(t)
	if end := p.end(); end == nil || end.State != events.Canceled {
		t.Errorf("ended with %+v", end)
	}
	outside.Eventually(t, "the command is gone", func() bool { return len(holders(file)) == 0 })
}

// Where Claude Code cannot run, a run says so at once, and what to do.
func TestClaudeThatCannotRun(t *testing.T) {
	real := agents.Claude(t).Path
	for name, c := range map[string]struct {
		env       []string
		errorType string
		says      []string
	}{
		"no binary": {[]string{"INNERD_CLAUDE_CODE_PATH=/does/not/exist/claude", "ANTHROPIC_API_KEY=sk-dummy"}, events.ErrBackendUnavailable, []string{"backend unavailable: ", "claude"}},
		"no key":    {[]string{"INNERD_CLAUDE_CODE_PATH=" + real}, events.ErrAuth, []string{"auth: unavailable: ", "ANTHROPIC_API_KEY"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.Env = append(s.Env, c.env...)
			s.Start()
			for _, backend := range []string{"claude-code", "claude_code", ""} {
				b := prompt(backend, "hello", nil)
				if backend == "" {
					delete(b["metadata"].(map[string]any), "backend")
				}
				began := time.Now()
				p := s.post(b, nil)
				p.whole(t)
				f, end := p.failure(), p.end()
				if f == nil || f.ErrorType != c.errorType || end == nil || end.State != events.Failed {
					t.Fatalf("%q ended with %+v, %+v", backend, f, end)
				}
				for _, says := range c.says {
					if !strings.Contains(f.Message, says) {
						t.Errorf("%q says %q, without %q", backend, f.Message, says)
					}
				}
				if took := time.Since(began); took > 25*time.Second { // Claude Code has a minute to start, others half of one
					t.Errorf("it took %v", took)
				}
				log := s.follow("the log", p.taskID(), 0)
				log.whole(t)
				checkOrder(t, log.events())
			}
			var answer struct {
				Backends []struct {
					Name, Why, Hint string
					Usable          bool
				}
			}
			s.get("/backends", &answer)
			for _, b := range answer.Backends {
				if b.Name == "claude-code" && (b.Usable || b.Why == "" || b.Hint == "") {
					t.Errorf("%+v", b)
				}
			}
		})
	}
}

// A key that the provider refuses is an auth error, not a hang.
func TestClaudeWithAWrongKey(t *testing.T) {
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	sc := stub.Scenario()
	s := withClaude(t, agents.Claude(t).Path)
	s.Env = append(s.Env, "ANTHROPIC_BASE_URL="+sc.BaseURL())
	s.Start()
	p := s.post(prompt("claude-code", "hello", nil), nil)
	p.whole(t)
	if f := p.failure(); f == nil || f.ErrorType != events.ErrAuth || !strings.HasPrefix(f.Message, "auth: unavailable: ") {
		t.Errorf("ended with %+v", f)
	}
	if strings.Contains(p.String()+s.Log(), "sk-dummy-of-the-server") {
		t.Error("the key stands in the log")
	}
}

// command is `innerd` as a user starts it, with a home of its own and a
// scripted model in the place of the provider.
func command(t testing.TB, sc *modelstub.Scenario, args ...string) (cmd *exec.Cmd, home string) {
	t.Helper()
	home = t.TempDir()
	cmd = exec.CommandContext(t.Context(), innerd, args...)
	cmd.Dir, cmd.WaitDelay = home, soon
	cmd.Env = []string{
		"HOME=" + home, "XDG_STATE_HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=dumb", "TMPDIR=" + home,
		"INNERD_CLAUDE_CODE_PATH=" + agents.Claude(t).Path, "ANTHROPIC_API_KEY=" + sc.Key(), "ANTHROPIC_BASE_URL=" + sc.BaseURL(),
	}
	t.Cleanup(func() {
		raw, err := os.ReadFile(filepath.Join(home, "innerd-private", "state", "VERSION"))
		var v struct{ ID string }
		if err != nil || json.Unmarshal(raw, &v) != nil {
			t.Errorf("no private server was there: %v", err)
			return
		}
		if left := outside.MarkedWith(v.ID + "."); len(left) > 0 {
			t.Errorf("processes were left: %s", outside.Describe(left))
		}
	})
	return cmd, home
}

// `innerd run` needs nothing else: it brings its server, and lends a command
// of the shell to the real Claude Code.
func TestRunLendsACommandToClaude(t *testing.T) {
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	sc := stub.Scenario(
		modelstub.Say(modelstub.Text("I shout."), modelstub.Tool("mcp__host__shout", map[string]any{"word": "quincunx"})),
		modelstub.Say(modelstub.Text("It says {{tool_result}}, and no more.")).Uses(modelstub.Usage{Input: 10, Output: 20}),
	)
	cmd, _ := command(t, sc, "run", "-b", "claude-code", "--tool", "shout=tr a-z A-Z", "Shout it.")
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &errOut)
	}
	if !strings.Contains(out.String(), `It says {"WORD":"QUINCUNX"}`) || !strings.Contains(out.String(), "and no more.") || !strings.Contains(errOut.String(), "shout") || !strings.Contains(errOut.String(), "$") {
		t.Errorf("stdout:\n%s\nstderr:\n%s", &out, &errOut)
	}
	if n := sc.Count(); n != 2 {
		t.Errorf("the model was asked %d times", n)
	}
}

// Ctrl-C ends the turn, the agent and the tool, and says so in the exit code.
func TestRunInterrupted(t *testing.T) {
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	gate := modelstub.NewGate()
	sc := stub.Scenario(modelstub.Say(modelstub.Text("I will say a").Hold(gate).Add(" lot more.")))
	t.Cleanup(gate.Release)
	cmd, _ := command(t, sc, "run", "--json", "-b", "claude-code", "Say a lot.")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := outside.ReadLines(stdout)
	if _, ok := out.Until("assistant.message_delta", soon); !ok {
		t.Errorf("nothing is said:\n%s", out)
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	if _, ok := out.Until(`"type":"session.end","data":{"state":"canceled"`, soon); !ok {
		t.Errorf("it does not end as canceled:\n%s", out)
	}
	out.Wait()
	_ = cmd.Wait() // the code says it
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d", code)
	}
}
