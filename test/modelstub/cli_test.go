package modelstub_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"innerd/test/agents"
	"innerd/test/modelstub"
)

// cliRun is one run of a real CLI that ends by itself.
type cliRun struct {
	events []map[string]any
	stdout string
	stderr string
	code   int
}

func runCLI(t *testing.T, cmd *exec.Cmd) cliRun {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited { //nolint:errorlint // Run does not wrap it
		t.Fatal(err)
	}
	r := cliRun{stdout: out.String(), stderr: errs.String(), code: cmd.ProcessState.ExitCode()}
	for line := range strings.SplitSeq(out.String(), "\n") {
		var e map[string]any
		if json.Unmarshal([]byte(line), &e) == nil {
			r.events = append(r.events, e)
		}
	}
	return r
}

// codex runs `codex exec` with a prompt against a scenario.
func codex(t *testing.T, sc *modelstub.Scenario, prompt string, args ...string) cliRun {
	t.Helper()
	home := t.TempDir()
	args = append([]string{
		"exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
		"-c", `model="gpt-5.5"`, "-c", `model_provider="stub"`,
		"-c", `model_providers.stub={name="stub",base_url="` + sc.V1() + `",wire_api="responses",env_key="STUB_KEY",request_max_retries=1,stream_max_retries=2}`,
		"-c", "features.plugins=false", "-c", "features.apps=false", "-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false",
	}, append(args, prompt)...)
	cmd := exec.CommandContext(t.Context(), agents.Codex(t).Path, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CODEX_HOME=" + home, "STUB_KEY=" + sc.Key()}
	return runCLI(t, cmd)
}

// items are the whole items of a kind that `codex exec` told.
func (r cliRun) items(kind string) (out []map[string]any) {
	for _, e := range r.events {
		it, _ := e["item"].(map[string]any)
		if e["type"] == "item.completed" && it["type"] == kind {
			out = append(out, it)
		}
	}
	return out
}

// copilot runs `copilot -p` with a prompt against a scenario. api is
// completions, responses or anthropic.
func copilot(t *testing.T, sc *modelstub.Scenario, api, model, prompt string) cliRun {
	t.Helper()
	home, p := t.TempDir(), agents.Copilot(t)
	kind, wire := "openai", api
	if api == "anthropic" {
		kind, wire = api, "completions"
	}
	base := sc.V1()
	if kind == "anthropic" {
		base = sc.BaseURL()
	}
	cmd := exec.CommandContext(t.Context(), p.Path, "-p", prompt, "--output-format", "json", "--stream", "on", "--allow-all-tools")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "COPILOT_HOME=" + filepath.Join(home, "copilot"), "COPILOT_PKG_CACHE_HOME=" + p.PkgCache,
		"COPILOT_OFFLINE=true", "COPILOT_MODEL=" + model,
		"COPILOT_PROVIDER_TYPE=" + kind, "COPILOT_PROVIDER_WIRE_API=" + wire, "COPILOT_PROVIDER_BASE_URL=" + base, "COPILOT_PROVIDER_API_KEY=" + sc.Key(),
	}
	return runCLI(t, cmd)
}

// data are the data of the events of a kind.
func (r cliRun) data(kind string) (out []map[string]any) {
	for _, e := range r.events {
		if d, ok := e["data"].(map[string]any); ok && e["type"] == kind {
			out = append(out, d)
		}
	}
	return out
}

// joined joins a string field.
func joined(ds []map[string]any, field string) string {
	var sb strings.Builder
	for _, d := range ds {
		s, _ := d[field].(string)
		sb.WriteString(s)
	}
	return sb.String()
}
