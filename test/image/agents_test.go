package image

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/host"
)

// agentUnderTest is how one real agent is brought to make calls by a scripted model.
type agentUnderTest struct {
	name   string
	env    []string // of the container; STUB is the model's address
	lookup string   // the model's name of the host's tool
	shell  func(command string) map[string]any
}

// agents are all of the image.
func agents() []agentUnderTest {
	return []agentUnderTest{
		{
			"claude-code",
			[]string{"INNERD_CLAUDE_CODE_API_KEY=sk-dummy-canary", "INNERD_CLAUDE_CODE_BASE_URL=STUB"},
			"mcp__host__lookup",
			func(c string) map[string]any {
				return map[string]any{"name": "Bash", "input": map[string]any{"command": c, "description": "a command"}}
			},
		},
		{
			"codex",
			[]string{"INNERD_CODEX_API_KEY=sk-dummy-canary", "INNERD_CODEX_BASE_URL=STUB/v1"},
			"lookup",
			func(c string) map[string]any {
				return map[string]any{"name": "exec_command", "input": map[string]any{"cmd": c}}
			},
		},
		{
			"copilot",
			[]string{
				"INNERD_COPILOT_API_KEY=sk-dummy-canary", "INNERD_COPILOT_BASE_URL=STUB/v1", "INNERD_COPILOT_PROVIDER=openai", "INNERD_COPILOT_MODEL=gpt-5.4",
			},
			"lookup",
			func(c string) map[string]any {
				return map[string]any{"name": "bash", "input": map[string]any{"command": c, "description": "a command"}}
			},
		},
	}
}

var stubBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "innerd-stub-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "modelstub")
	cmd := exec.Command("go", "build", "-tags", "nomsgpack", "-o", path, "innerd/test/modelstub/cmd/modelstub")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return string(out), err
	}
	return path, os.Chmod(dir, 0o755)
})

// model runs a scripted model in a container of network, and returns the
// address by which others there reach it.
func model(t *testing.T, network string, turns ...map[string]any) string {
	t.Helper()
	binary, err := stubBinary()
	if err != nil {
		t.Fatalf("%v\n%s", err, binary)
	}
	script, err := json.Marshal(map[string]any{"key": "", "turns": turns})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(file, script, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	id := docker(t, "run", "-d", "--label", owned, "--network", network, "--network-alias", "model",
		"-v", binary+":/modelstub:ro", "-v", file+":/script.json:ro", "debian:bookworm-slim", "/modelstub", "--listen", "0.0.0.0:18200", "--script", "/script.json")
	c := &container{t: t, id: id}
	t.Cleanup(c.remove)
	until(t, "the model answers", time.Minute, func() bool {
		out, _ := tryDocker(t, "logs", id)
		return strings.Contains(out, "http://")
	})
	return "http://model:18200/s1"
}

func say(blocks ...map[string]any) map[string]any { return map[string]any{"blocks": blocks} }
func text(s string) map[string]any                { return map[string]any{"text": s} }
func use(call map[string]any) map[string]any      { return map[string]any{"tool_use": call} }

// withModel starts the image of agents with one agent's key and model.
func withModel(t *testing.T, a agentUnderTest, turns []map[string]any, args ...string) *container {
	t.Helper()
	network := named(t, "network")
	stub := model(t, network, turns...)
	run := append([]string{"--network", network, "-e", "INNERD_API_KEYS=ci:key"}, args...)
	for _, kv := range a.env {
		run = append(run, "-e", strings.Replace(kv, "STUB", stub, 1))
	}
	return start(t, image(t, "agents"), run...)
}

func (c *container) client() *host.Client {
	c.t.Helper()
	h, err := host.New(c.url(), &host.Options{Key: "key"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(h.CloseIdleConnections)
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	if err := h.WaitReady(ctx); err != nil {
		c.t.Fatal(err)
	}
	return h
}

// turn runs one turn and returns its events.
func turn(t *testing.T, h *host.Client, backend string, change func(*host.Request)) []events.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	req := host.Prompt("", "Do it.")
	req.Metadata.Backend = backend
	req.Metadata.Events = api.Events{"all"}
	if change != nil {
		change(&req)
	}
	var all []events.Event
	for e, err := range h.Stream(ctx, req) {
		if err != nil {
			t.Fatalf("after %d events: %v", len(all), err)
		}
		all = append(all, e)
	}
	return all
}

// said is every message of a run, and how it ended.
func said(t *testing.T, all []events.Event) (string, events.End) {
	t.Helper()
	var text strings.Builder
	var end events.End
	for _, e := range all {
		switch d := e.Data.(type) {
		case events.Message:
			text.WriteString(d.Content + "\n")
		case events.End:
			end = d
		case events.Error:
			text.WriteString("error: " + d.Message + "\n")
		}
	}
	return text.String(), end
}

type key struct {
	Key string `json:"key"`
}

// Each agent runs in the image, as its own user, and calls the host's tool
// from outside the container; its commands reach nothing of the server.
func TestAgents(t *testing.T) {
	const spy = `id -u; cat /var/lib/innerd/runs.jsonl; ls /var/lib/innerd; cat /proc/1/environ; ` +
		`for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = innerd ] && cat $p/environ $p/mem $p/maps; done; ` +
		`(exec 3<>/dev/tcp/127.0.0.1/18100; printf 'GET /tasks HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3; head -1 <&3); env; echo end-of-spy`
	for _, a := range agents() {
		t.Run(a.name, func(t *testing.T) {
			c := withModel(t, a, []map[string]any{
				say(text("I look."), use(map[string]any{"name": a.lookup, "input": map[string]any{"key": "k1"}})),
				say(use(a.shell(spy))),
				say(text("Found: {{tool_result}}")),
			})
			asked := make(chan string, 1)
			all := turn(t, c.client(), a.name, func(r *host.Request) {
				r.Tools = []host.ToolDef{host.Tool("lookup", "looks a key up", func(_ context.Context, in key) (string, error) {
					asked <- in.Key
					return "value-of-" + in.Key, nil
				})}
			})
			out, end := said(t, all)
			if end.State != events.Completed || len(asked) != 1 || !strings.Contains(out, "I look.") {
				t.Fatalf("%+v, asked %d times:\n%s", end, len(asked), out)
			}
			for _, want := range []string{"18101", "401", "end-of-spy", "Permission denied"} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			for _, never := range []string{"canary", "ci:key", `"owner"`, "INNERD_API_KEYS"} {
				if strings.Contains(out, never) {
					t.Errorf("its shell sees %q:\n%s", never, out)
				}
			}
		})
	}
}

// A conversation goes on by the agent's own memory after docker restart.
func TestAgentsResume(t *testing.T) {
	for _, a := range agents() {
		t.Run(a.name, func(t *testing.T) {
			c := withModel(t, a, []map[string]any{say(text("The first answer.")), say(text("The second answer."))})
			talk := func(prompt string) []events.Event {
				return turn(t, c.client(), a.name, func(r *host.Request) {
					r.ContextID = "talk"
					r.Messages = append(r.Messages[:0], api.UserText("first prompt"))
					if prompt != "first prompt" {
						r.Messages = append(r.Messages, api.AssistantText("The first answer."), api.UserText(prompt))
					}
				})
			}
			talk("first prompt")
			docker(t, "restart", "-t", "10", c.id)
			all := talk("second prompt")
			out, end := said(t, all)
			if end.State != events.Completed || !strings.Contains(out, "The second answer.") {
				t.Errorf("%+v\n%s", end, out)
			}
			for _, e := range all {
				if s, ok := e.Data.(events.Status); ok && s.State == "history" && s.Mode != "continue" {
					t.Errorf("history: %s, %s", s.Mode, s.Reason)
				}
			}
		})
	}
}
