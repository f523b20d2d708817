package agents_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"innerd/test/agents"
)

func TestClaudeIsThePinnedOne(t *testing.T) {
	p := agents.Claude(t)
	cmd := exec.CommandContext(t.Context(), p.Path, "--version")
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"}
	out, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(out), p.Version+" ") {
		t.Errorf("%s --version: %q, %v", p.Path, out, err)
	}
}

// The script fetches nothing here: the agents are installed.
func TestInstallIsDone(t *testing.T) {
	p := agents.Claude(t)
	out, err := exec.CommandContext(t.Context(), "sh", "../../image/install-agents.sh").CombinedOutput()
	if err != nil || !strings.Contains(string(out), p.Path) || strings.Contains(string(out), "fetching") {
		t.Errorf("%v\n%s", err, out)
	}
}

// fakeNPM is an npm that unpacks a package with the given binary.
func fakeNPM(t *testing.T, binary string) (path string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\nmkdir -p node_modules/@x/agent-os-cpu\nprintf '%s' '" + binary + "' >node_modules/@x/agent-os-cpu/run\n"
	if binary == "" {
		script = "#!/bin/sh\necho 'npm error code EINTEGRITY' >&2\nexit 1\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "npm"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
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
		"installs":         {binary: "aaa", says: "agent 1.0: ", ok: true},
		"wrong hash":       {binary: "aab", says: "has the wrong hash"},
		"wrong package":    {binary: "", says: "is not the package that agents.list pins"},
		"no such file":     {binary: "aaa", row: "agent 1.0 os-cpu @x/agent-os-cpu@1.0 other sha512-x -", says: "has no file other"},
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
			for file, data := range map[string]string{"install-agents.sh": string(script), "agents.list": "# comment\n\n" + tt.row + "\n"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(data), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			args := append([]string{filepath.Join(dir, "install-agents.sh"), "--platform", "os-cpu"}, tt.args...)
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
