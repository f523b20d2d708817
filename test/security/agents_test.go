//go:build linux

package security_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"innerd/events"
	"innerd/test/agents"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// real is an agent whose model is scripted.
type real struct {
	name, variable string
	path           func(testing.TB) agents.Pinned
	base           func(*modelstub.Scenario) string
	model          string
}

var reals = []real{
	{"claude-code", "INNERD_CLAUDE_CODE_PATH", agents.Claude, (*modelstub.Scenario).BaseURL, "claude-sonnet-4-5"},
	{"codex", "INNERD_CODEX_PATH", agents.Codex, (*modelstub.Scenario).V1, "gpt-5.5"},
	{"copilot", "INNERD_COPILOT_PATH", agents.Copilot, (*modelstub.Scenario).V1, "gpt-5.4"},
}

// shell has the model run a command with the agent's own tool, then say the rest.
func shell(command, say string) func(modelstub.Request) modelstub.Turn {
	var ran atomic.Bool
	return func(r modelstub.Request) modelstub.Turn {
		if !ran.CompareAndSwap(false, true) {
			return modelstub.Say(modelstub.Text(say))
		}
		for _, t := range r.Tools {
			switch t.Name {
			case "Bash", "bash":
				return modelstub.Say(modelstub.Tool(t.Name, obj{"command": command, "description": "A command"}))
			case "exec_command":
				return modelstub.Say(modelstub.Tool(t.Name, obj{"cmd": command, "yield_time_ms": 30000}))
			}
		}
		return modelstub.Say(modelstub.Text("(no shell is offered)"))
	}
}

// turn is a request for a run of a scripted agent.
func (a *real) turn(sc *modelstub.Scenario, meta obj) obj {
	m := obj{"backend": a.name, "model": a.model, "events": "all", "credentials": obj{"api_key": sc.Key(), "base_url": a.base(sc)}}
	for k, v := range meta {
		m[k] = v
	}
	return obj{"context_id": "talk", "messages": []any{obj{"role": "user", "content": "Do it."}}, "metadata": m}
}

// What the commands of a run have started is gone after it, whatever session it
// went into; the agent itself stays warm.
func TestNothingOfARunIsLeft(t *testing.T) {
	for _, a := range reals {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			stub := modelstub.New()
			t.Cleanup(stub.Close)
			s := server.New(t, innerd)
			s.Env = append(s.Env, a.variable+"="+a.path(t).Path)
			s.Start()
			sleep := filepath.Join(t.TempDir(), "left-behind")
			if err := os.Symlink("/bin/sleep", sleep); err != nil {
				t.Fatal(err)
			}
			// The path stands in a variable, so that no shell's own command line looks like one of the six.
			command := fmt.Sprintf(`export S=%s; $S 601 >/dev/null 2>&1 </dev/null & ( $S 602 >/dev/null 2>&1 </dev/null & ); setsid $S 603 >/dev/null 2>&1 </dev/null & ( setsid nohup $S 604 >/dev/null 2>&1 </dev/null & ) ; bash -i -c '$S 605 &' >/dev/null 2>&1 </dev/null; (setsid sh -c '$S 606 & exit' >/dev/null 2>&1 </dev/null &); n=0; count() { cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -ao "$S 60[1-6]" | sort -u | wc -l; }; while [ "$(count)" -lt 6 ] && [ $n -lt 400 ]; do n=$((n+1)); sleep 0.05; done; echo "running=$(count)"`, sleep)
			sc := stub.Scenario()
			sc.Func(shell(command, "It runs."))
			p := s.Post(t, a.turn(sc, nil)).Completed()
			started := false
			for _, c := range server.Of[events.ToolComplete](p) {
				started = started || strings.Contains(c.Result, "running=6")
			}
			if !started {
				t.Errorf("not all of it was started:\n%s", p)
			}
			if left := holders(sleep); len(left) > 0 {
				t.Errorf("left after the run: %s", server.Describe(left))
			}
			if len(s.Marked()) == 0 {
				t.Error("the agent is gone too")
			}
		})
	}
}

// holders are the processes whose command line speaks of a file.
func holders(path string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range all {
		raw, _ := os.ReadFile(p) // it may be gone
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(p)), "%d", &pid); err == nil && bytes.HasPrefix(raw, []byte(path)) {
			pids = append(pids, pid)
		}
	}
	return pids
}
