package agents_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"innerd/test/agents"
)

func TestTheyAreThePinnedOnes(t *testing.T) {
	for _, tt := range []struct {
		p      agents.Pinned
		prints string
	}{
		{agents.Claude(t), "VERSION (Claude Code)\n"},
		{agents.Codex(t), "codex-cli VERSION\n"},
		{agents.Copilot(t), "GitHub Copilot CLI VERSION.\n"},
	} {
		t.Run(tt.p.Name, func(t *testing.T) {
			home := t.TempDir()
			cmd := exec.CommandContext(t.Context(), tt.p.Path, "--version")
			cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin", "COPILOT_PKG_CACHE_HOME=" + tt.p.PkgCache}
			out, err := cmd.Output()
			if want := strings.Replace(tt.prints, "VERSION", tt.p.Version, 1); err != nil || !strings.HasPrefix(string(out), want) {
				t.Errorf("%s --version: %q, %v", tt.p.Path, out, err)
			}
			if unpacked, _ := filepath.Glob(home + "/.cache/*"); len(unpacked) > 0 {
				t.Errorf("it unpacked %v: what make agents prepared was not found", unpacked)
			}
		})
	}
}

func TestCodexHasItsNeighbours(t *testing.T) {
	root := filepath.Dir(filepath.Dir(agents.Codex(t).Path))
	for _, file := range []string{"bin/codex-code-mode-host", "codex-path/rg", "codex-resources/bwrap"} {
		if st, err := os.Stat(filepath.Join(root, file)); err != nil || st.Mode()&0o111 == 0 {
			t.Errorf("%s: %v, %v", file, st, err)
		}
	}
}

// The script fetches nothing here: the agents are installed.
func TestInstallIsDone(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "sh", "../../image/install-agents.sh").CombinedOutput()
	for _, p := range []agents.Pinned{agents.Claude(t), agents.Codex(t), agents.Copilot(t)} {
		if err != nil || !strings.Contains(string(out), p.Path) || strings.Contains(string(out), "fetching") {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// fakeNPM is an npm that unpacks a package with the given binary.
func fakeNPM(t *testing.T, binary string) (path string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\nmkdir -p node_modules/@x/agent-os-cpu\nfor f in run copilot; do printf '%s' '" + binary + "' >node_modules/@x/agent-os-cpu/$f; done\n"
	if binary == "" {
		script = "#!/bin/sh\necho 'npm error code EINTEGRITY' >&2\nexit 1\n"
	}
	agents.WriteProgram(t, filepath.Join(dir, "npm"), script)
	return dir + ":/usr/bin:/bin"
}

func TestInstall(t *testing.T) {
	script, err := os.ReadFile("../../image/install-agents.sh")
	if err != nil {
		t.Fatal(err)
	}
	const sum = "9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0" // of "aaa"
	for name, tt := range map[string]struct {
		binary, row, says string
		args              []string
		ok                bool
	}{
		"installs":      {binary: "aaa", says: "agent 1.0: ", ok: true},
		"wrong hash":    {binary: "aab", says: "has the wrong hash"},
		"wrong package": {binary: "", says: "is not the package that agents.list pins"},
		"no such file":  {binary: "aaa", row: "agent 1.0 os-cpu @x/agent-os-cpu@1.0 other sha512-x -", says: "has no file other"},
		"unpacks": {
			binary: "#!/bin/sh\nmkdir -p $COPILOT_PKG_CACHE_HOME/pkg/x && touch $COPILOT_PKG_CACHE_HOME/pkg/x/.extraction-complete",
			row:    "copilot 1.0 NATIVE @x/agent-os-cpu@1.0 copilot sha512-x -", says: "copilot 1.0: ", ok: true,
		},
		"unpacks nothing":  {binary: "#!/bin/sh\ntrue", row: "copilot 1.0 NATIVE @x/agent-os-cpu@1.0 copilot sha512-x -", says: "did not unpack"},
		"cannot start":     {binary: "#!/bin/sh\nexit 3", row: "copilot 1.0 NATIVE @x/agent-os-cpu@1.0 copilot sha512-x -", says: "does not start"},
		"of another kind":  {binary: "#!/bin/sh\nexit 3", row: "copilot 1.0 os-cpu @x/agent-os-cpu@1.0 copilot sha512-x -", says: "cannot be unpacked here", ok: true},
		"short row":        {binary: "aaa", row: "agent 1.0 os-cpu @x/agent-os-cpu@1.0 run", says: "seven columns"},
		"unknown agent":    {binary: "aaa", args: []string{"nobody"}, says: "no agent nobody"},
		"unknown platform": {binary: "aaa", args: []string{"--platform", "a-b"}, says: "nothing for a-b"},
		"unknown flag":     {binary: "aaa", args: []string{"--nonsense"}, says: "unknown flag"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, cache := t.TempDir(), t.TempDir()
			if tt.row == "" {
				tt.row = "agent 1.0 os-cpu @x/agent-os-cpu@1.0 run sha512-x " + sum
			}
			here := runtime.GOOS + "-" + strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
			native := strings.Contains(tt.row, "NATIVE")
			tt.row = strings.Replace(tt.row, "NATIVE", here, 1)
			for file, data := range map[string]string{"install-agents.sh": string(script), "agents.list": "# comment\n\n" + tt.row + "\n"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(data), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{filepath.Join(dir, "install-agents.sh"), "--platform", "os-cpu"}
			if native {
				args = args[:1]
			}
			args = append(args, tt.args...)
			cmd := exec.CommandContext(t.Context(), "/bin/sh", args...)
			cmd.Env = []string{"PATH=" + fakeNPM(t, tt.binary), "INNERD_AGENTS_DIR=" + cache}
			out, err := cmd.CombinedOutput()
			if (err == nil) != tt.ok || !strings.Contains(string(out), tt.says) {
				t.Fatalf("%v\n%s", err, out)
			}
			entries, _ := os.ReadDir(cache)
			if want := map[bool]int{true: 1}[tt.ok]; len(entries) != want {
				t.Errorf("%d entries in the cache, want %d: %v", len(entries), want, entries)
			}
		})
	}
}
