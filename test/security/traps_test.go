//go:build linux

package security_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/test/agents"
	"innerd/test/modelstub"
	"innerd/test/security/traps"
	"innerd/test/server"
)

// bare is an agent as its vendor sells it: nothing of innerd's holds it back,
// and its user trusts the folder, by whatever means that agent asks for.
type bare struct {
	name   string
	launch func(ctx context.Context, t testing.TB, dir, home string, sc *modelstub.Scenario) *exec.Cmd
	bites  []string // the marks that it leaves, sorted
	asks   bool     // the repository's address
	hides  string   // a file that hides another one from the agent, and is left out
}

var bares = []bare{
	{"claude-code", bareClaude, []string{
		"claude_settingsjson-prompt", "claude_settingsjson-start", "claude_settingsjson-stop", "claude_settingsjson-tool",
		"claude_settingslocaljson-key", "claude_settingslocaljson-prompt", "claude_settingslocaljson-start", "claude_settingslocaljson-stop", "claude_settingslocaljson-tool",
		"mcpjson-mcp",
	}, true, ""},
	{"codex", bareCodex, []string{"codex_configtoml-hook", "codex_configtoml-mcp", "codex_hooksjson-start", "codex_hooksjson-tool"}, false, ""},
	{"copilot", bareCopilot, append(slices.Clone(copilotBites), "mcpjson-mcp"), false, ""},
	// .github/mcp.json is read where .mcp.json is not there.
	{"copilot-github-mcp", bareCopilot, append(slices.Clone(copilotBites), "github_mcpjson-mcp"), false, ".mcp.json"},
}

var copilotBites = []string{
	"claude_settingsjson-prompt", "claude_settingsjson-start", "claude_settingsjson-stop", "claude_settingsjson-tool",
	"claude_settingslocaljson-prompt", "claude_settingslocaljson-start", "claude_settingslocaljson-stop", "claude_settingslocaljson-tool",
	"github_copilot_settingsjson-start",
	"github_hooks_eviljson-end", "github_hooks_eviljson-prompt", "github_hooks_eviljson-start", "github_hooks_eviljson-tool",
}

func bareClaude(ctx context.Context, t testing.TB, _, _ string, sc *modelstub.Scenario) *exec.Cmd {
	cmd := exec.CommandContext(ctx, agents.Claude(t).Path, "-p", "Do it.", "--allowedTools", "Bash")
	cmd.Env = []string{"ANTHROPIC_BASE_URL=" + sc.BaseURL(), "ANTHROPIC_API_KEY=" + sc.Key(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"}
	return cmd
}

func bareCodex(ctx context.Context, t testing.TB, _, _ string, sc *modelstub.Scenario) *exec.Cmd {
	cmd := exec.CommandContext(ctx, agents.Codex(t).Path,
		"exec", "--trust", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust", "-c", `model="gpt-5.5"`, "-c", `model_provider="stub"`,
		"-c", `model_providers.stub={name="stub",base_url="`+sc.V1()+`",wire_api="responses",env_key="STUB_KEY"}`,
		"-c", "features.plugins=false", "-c", "features.apps=false", "-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false", "Do it.")
	cmd.Env = []string{"STUB_KEY=" + sc.Key()}
	return cmd
}

func bareCopilot(ctx context.Context, t testing.TB, dir, home string, sc *modelstub.Scenario) *exec.Cmd {
	trust(t, filepath.Join(home, ".copilot"), dir)
	p := agents.Copilot(t)
	cmd := exec.CommandContext(ctx, p.Path, "-p", "Do it.", "--allow-all-tools")
	cmd.Env = []string{
		"COPILOT_PKG_CACHE_HOME=" + p.PkgCache, "COPILOT_OFFLINE=true", "COPILOT_MODEL=gpt-5.4", "COPILOT_PROVIDER_TYPE=openai", "COPILOT_PROVIDER_WIRE_API=completions",
		"COPILOT_PROVIDER_BASE_URL=" + sc.V1(), "COPILOT_PROVIDER_API_KEY=" + sc.Key(),
	}
	return cmd
}

// trust has Copilot's own folder say that a folder is trusted.
func trust(t testing.TB, home, dir string) {
	t.Helper()
	raw, err := json.Marshal(obj{"trustedFolders": []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(home, 0o700), os.WriteFile(filepath.Join(home, "config.json"), raw, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// The traps of the hostile repository bite an agent that nobody holds back: so
// this version reads their formats, and that none bites under innerd (test/parity
// hostile-repository-served) is innerd's doing. A mark that is missing, or one
// more, belongs into the table of docs/security.md.
func TestTrapsBite(t *testing.T) {
	for _, b := range bares {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			stub := modelstub.New()
			t.Cleanup(stub.Close)
			own := stub.Scenario()
			lure, err := stub.Script([]byte(`{"key":""}`)) // it takes whatever key is brought
			if err != nil {
				t.Fatal(err)
			}
			answer := shell("echo native", "Done.") // whoever is asked
			own.Func(answer)
			lure.Func(answer)
			dir, marks := traps.Folder(t, lure.BaseURL(), b.hides)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("bitten has %q", traps.Sprung(t, marks))
				}
			})
			home := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), server.Soon)
			defer cancel()
			cmd := b.launch(ctx, t, dir, home, own)
			cmd.Dir, cmd.WaitDelay = dir, time.Second // what it leaves behind may hold its output
			cmd.Env = append(cmd.Env, "HOME="+home, "TMPDIR="+t.TempDir(), "PATH="+os.Getenv("PATH"))
			if out, err := cmd.CombinedOutput(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
				t.Fatalf("%v\n%s", err, out)
			}
			server.Eventually(t, "all traps have bitten: "+strings.Join(b.bites, " "), func() bool {
				return len(traps.Sprung(t, marks)) >= len(b.bites)
			})
			if got := traps.Sprung(t, marks); !slices.Equal(got, b.bites) {
				t.Errorf("only these were to bite: %q", b.bites)
			}
			if asked := lure.Count() > 0; asked != b.asks {
				t.Errorf("the repository's address was asked: %v", asked)
			}
			if !told(own, traps.Secret) && !told(lure, traps.Secret) {
				t.Error("the link out of the repository was not read into the prompt")
			}
		})
	}
}

// .github/mcp.json, which .mcp.json hides from Copilot in test/parity, starts
// nothing under innerd where it stands alone, in a folder that Copilot's own
// settings trust.
func TestHiddenTrapIsHeld(t *testing.T) {
	t.Parallel()
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	a, sc := reals[2], stub.Scenario()
	sc.Func(shell("echo native", "Done."))
	dir, marks := traps.Folder(t, "http://127.0.0.1:1", ".mcp.json")
	s := server.New(t, innerd)
	s.Env = append(s.Env, a.variable+"="+a.path(t).Path)
	trust(t, filepath.Join(s.Agents, "copilot"), dir)
	s.Start()
	s.Post(t, a.turn(sc, obj{"cwd": dir})).Completed()
	s.Stop() // what has not run by then never does
	if left := traps.Sprung(t, marks); len(left) > 0 {
		t.Errorf("the repository had run: %v", left)
	}
	if n := sc.Count(); n != 2 {
		t.Errorf("the model was asked %d times", n)
	}
}

// The traps for git bite whoever asks it for the state of the folder.
func TestTrapsOfGitBite(t *testing.T) {
	t.Parallel()
	dir, marks := traps.Folder(t, "http://127.0.0.1:1")
	cmd := exec.CommandContext(t.Context(), "git", "status")
	cmd.Dir, cmd.Env = dir, os.Environ()
	out, err := cmd.CombinedOutput()
	if got, want := traps.Sprung(t, marks), []string{"fsmonitor", "githooks_post-index-change"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("bitten has %q, want %q: %v\n%s", got, want, err, out)
	}
}

// told reports whether a text has come to a model.
func told(sc *modelstub.Scenario, text string) bool {
	return slices.ContainsFunc(sc.Requests(), func(r modelstub.Request) bool { return bytes.Contains(r.Body, []byte(text)) })
}
