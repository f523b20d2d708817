//go:build linux

package security_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"innerd/events"
	"innerd/test/modelstub"
	"innerd/test/server"
)

// where finds a text in the files below a directory, and in their names.
func where(t testing.TB, root, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // it may be gone
		}
		raw, _ := os.ReadFile(path)
		if bytes.Contains(raw, []byte(text)) || strings.Contains(path, text) {
			found = append(found, strings.TrimPrefix(path, root+"/"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// inProcess says in which files of /proc a process shows a text.
func inProcess(pid int, text string) (found []string) {
	for _, name := range []string{"environ", "cmdline", "comm"} {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name)) // it may be gone
		if bytes.Contains(raw, []byte(text)) {
			found = append(found, fmt.Sprintf("/proc/%d/%s", pid, name))
		}
	}
	return found
}

// The server's own token, the keys of hosts and those that reach models are in
// no file but the token's own, in no environment or command line, in no log,
// and not in what a server leaves that crashes in the middle of its work.
func TestTokenIsNowhere(t *testing.T) {
	t.Parallel()
	a := reals[0]
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	const vendor, request = "sk-canary-of-the-server-51c0de", "sk-canary-of-the-request-9f3a11"
	for _, withKeys := range []bool{false, true} {
		t.Run(fmt.Sprint("keys ", withKeys), func(t *testing.T) {
			home := t.TempDir()
			state := filepath.Join(home, "state")
			cmd := exec.Command(innerd, "serve", "--listen", "127.0.0.1:0", "--log-level", "debug")
			cmd.Dir = home
			cmd.Env = []string{
				"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "GOTRACEBACK=system", "INNERD_STATE_DIR=" + state, "INNERD_AGENT_HOME=" + filepath.Join(home, "agents"),
				"INNERD_WORKSPACE=" + home, a.variable + "=" + a.path(t).Path, "INNERD_CLAUDE_CODE_API_KEY=" + vendor,
			}
			secret := "key-of-the-host-77e1d0"
			if withKeys {
				cmd.Env = append(cmd.Env, "INNERD_API_KEYS=host:"+secret)
			}
			log := filepath.Join(t.TempDir(), "log")
			out, err := os.Create(log)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close() //nolint:errcheck // the server's
			cmd.Stderr, cmd.Stdout = out, out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := false
			defer func() {
				if !ended {
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
				}
			}()
			url := ""
			server.Eventually(t, "the server is ready", func() bool {
				raw, _ := os.ReadFile(log)
				if m := regexp.MustCompile(`innerd is ready.*(http://[0-9.]+:[0-9]+)`).FindSubmatch(raw); m != nil {
					url = string(m[1])
				}
				return url != ""
			})
			if !withKeys {
				raw, err := os.ReadFile(filepath.Join(state, "token"))
				if err != nil {
					t.Fatal(err)
				}
				secret = strings.TrimSpace(string(raw))
			}
			gate := modelstub.NewGate()
			t.Cleanup(gate.Release)
			sc, err := stub.Script(fmt.Appendf(nil, `{"key":%q}`, request+fmt.Sprint(withKeys)))
			if err != nil {
				t.Fatal(err)
			}
			asked := make(chan struct{}, 8)
			var began atomic.Bool
			sc.Func(func(modelstub.Request) modelstub.Turn {
				if began.CompareAndSwap(false, true) {
					return modelstub.Say(modelstub.Tool("Bash", obj{"command": `env; cat /proc/$PPID/environ /proc/$PPID/cmdline | tr '\0' '\n'`, "description": "look"}))
				}
				asked <- struct{}{}
				return modelstub.Say(modelstub.Text("Now. "), modelstub.Control().Hold(gate))
			})
			body := a.turn(sc, obj{"detach": true, "task_id": "the-run-1"})
			body["metadata"].(obj)["credentials"] = obj{"api_key": sc.Key(), "base_url": a.base(sc)}
			sent, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			go func() { // its answer is cut by the crash
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/message:stream", bytes.NewReader(sent))
				if err != nil {
					return
				}
				req.Header.Set("Authorization", "Bearer "+secret)
				if res, err := client.Do(req); err == nil {
					_ = res.Body.Close()
				}
			}()
			<-asked
			secrets := []string{secret, vendor, sc.Key()}
			agents := markedIn(state)
			if len(agents) == 0 {
				t.Error("no agent runs")
			}
			for _, text := range secrets {
				for _, pid := range append(agents, cmd.Process.Pid) {
					if found := inProcess(pid, text); found != nil {
						t.Errorf("%s is in %v", text, found)
					}
				}
			}
			_ = cmd.Process.Signal(syscall.SIGQUIT) // the runtime writes all goroutines, as for a crash
			_ = cmd.Wait()                          // its state says it all
			ended = true
			dump, err := os.ReadFile(log)
			if err != nil || !bytes.Contains(dump, []byte("goroutine ")) {
				t.Errorf("the server left no dump: %v, %v", err, cmd.ProcessState)
			}
			for _, text := range secrets {
				if bytes.Contains(dump, []byte(text)) {
					t.Errorf("%s is in the log", text)
				}
				found := slices.DeleteFunc(where(t, home, text), func(f string) bool { return f == "state/token" })
				if len(found) > 0 {
					t.Errorf("%s is in %v", text, found)
				}
			}
			// What a crash leaves the next server would end. It writes below home, which goes with the test.
			server.Eventually(t, "nothing of the agents is left", func() bool {
				left := markedIn(state)
				for _, pid := range left {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
				return len(left) == 0
			})
		})
	}
}

// markedIn are the processes of the server of a state directory.
func markedIn(state string) []int { return (&server.Server{State: state}).Marked() }

// With --redact the secrets that the server knows, and those of a file, are in
// no event, no log and no record, however the agent says them; deltas and whole
// texts agree.
func TestSecretsAreRedacted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "patterns")
	if err := os.WriteFile(file, []byte("# ours\nacme-*\nthe blue elephant\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := server.New(t, innerd)
	s.Tells = true // its agent is told all of them, and remembers what it was told
	s.Env = append(s.Env, "OPENAI_API_KEY=key-of-the-environment-1")
	s.Args = append(s.Args, "--redact", "common", "--redact-file", file)
	s.Start()
	secrets := []string{
		"key-of-the-request-1", "token-of-the-run-1", "key-of-the-environment-1", s.Key(), "acme-0123456789abcdef", "the blue elephant", "ghp_0123456789abcdefghij0123456789abcdef",
	}
	all := "<" + strings.Join(secrets, "> <") + ">"
	want := strings.TrimSuffix(strings.Repeat("<[redacted]> ", len(secrets)), " ")
	body := simulate("say "+all, obj{
		"detach": true, "credentials": obj{"api_key": secrets[0]}, "env": obj{"MY_TOKEN": secrets[1], "PLAIN": "plainly said"},
		"native_tool_schemas": []any{obj{"name": "look", "parameters": obj{"type": "object"}}},
	},
		obj{"reasoning": all, "chunk_bytes": 3}, obj{"tool": obj{"name": "shell", "input": obj{"command": all}, "output": all}},
		obj{"call": obj{"tool": "look", "arguments": obj{"at": all}}}, obj{"text": all + " plainly said", "chunk_bytes": 5}, obj{"error": obj{"message": all}})
	p := s.Post(t, body)
	s.Result(server.Until[events.ToolRequest](p, 1).ToolCallID, obj{"result": all})
	p.Whole()
	s.Stop()
	sum := map[string]string{}
	for _, e := range p.Events() {
		switch d := e.Data.(type) {
		case events.MessageDelta:
			sum[d.MessageID] += d.Delta
		case events.ReasoningDelta:
			sum[d.ReasoningID] += d.Delta
		case events.Message:
			if d.Content != sum[d.MessageID] {
				t.Errorf("the message is %q, its deltas %q", d.Content, sum[d.MessageID])
			}
		case events.Reasoning:
			if d.Content != sum[d.ReasoningID] || d.Content != want {
				t.Errorf("the thought is %q, its deltas %q", d.Content, sum[d.ReasoningID])
			}
		case events.ToolComplete:
			if d.Result != want {
				t.Errorf("the output is %q", d.Result)
			}
		}
	}
	if text := p.Text(); !strings.Contains(text, want+" plainly said") {
		t.Errorf("said %q", text)
	}
	if f := p.Failure(); f == nil || !strings.Contains(f.Message, want) {
		t.Errorf("failed with %+v", f)
	}
	for _, secret := range secrets {
		if strings.Contains(strings.Join(p.Lines(), "\n"), secret) {
			t.Errorf("%s is in an event", secret)
		}
		if found := where(t, filepath.Join(s.State, "runs"), secret); found != nil {
			t.Errorf("%s is in %v", secret, found)
		}
		if found := where(t, s.State, secret); found != nil {
			t.Errorf("%s is in %v", secret, found)
		}
	}
}

// A file of patterns that cannot be used keeps the server from starting, and
// is not shown.
func TestBadRedactFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "patterns")
	if err := os.WriteFile(file, []byte("long enough to be one\nhunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, file + "-none"} {
		cmd := exec.Command(innerd, "serve", "--listen", "127.0.0.1:0", "--state-dir", t.TempDir(), "--agent-home", t.TempDir(), "--redact-file", path)
		cmd.Env = []string{"HOME=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--redact-file") || strings.Contains(string(out), "hunter2") {
			t.Errorf("%v: %s", err, out)
		}
	}
}
