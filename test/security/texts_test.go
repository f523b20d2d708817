//go:build linux

package security_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"innerd/test/modelstub"
	"innerd/test/security/traps"
	"innerd/test/server"
)

// calls has Claude's model call each thing that a TextFolder offers it, and read
// what has texts beside it.
func calls(sc *modelstub.Scenario, dir string) {
	sc.Func(func(modelstub.Request) modelstub.Turn {
		if sc.Count() > 1 {
			return modelstub.Say(modelstub.Text("Over."))
		}
		return modelstub.Say(
			modelstub.Tool("Skill", obj{"skill": "evil-skill"}),
			modelstub.Tool("Agent", obj{"description": "x", "prompt": "x", "subagent_type": "evil-agent", "run_in_background": false}),
			modelstub.Tool("Read", obj{"file_path": filepath.Join(dir, "sub", "plain.txt")}))
	})
}

// toldOf are the words of a TextFolder that have come to a model.
func toldOf(sc *modelstub.Scenario) []string {
	var all [][]byte
	for _, r := range sc.Requests() {
		all = append(all, r.Body)
	}
	return traps.Told(all...)
}

// What a repository has Claude Code tell its model is told where nobody holds it
// back: its commands, skills and agents are found and can be called. Of a folder
// that is only added (--add-dir) its rules, CLAUDE.local.md and what lies beside
// a file that is read are not told, nor are skills further down: there these
// texts stay for versions to come.
func TestTextsBite(t *testing.T) {
	called := []string{
		"EVIL-AGENT-CALLED", "EVIL-AGENT-LISTED", "EVIL-COMMAND-CALLED", "EVIL-COMMAND-LISTED", "EVIL-SKILL-CALLED", "EVIL-SKILL-LISTED",
	}
	all := append(slices.Clone(called), "EVIL-BESIDE", "EVIL-LOCAL", "EVIL-RULE", "EVIL-SUB-LISTED")
	slices.Sort(all)
	t.Run("working-folder", func(t *testing.T) { textsBite(t, false, all) })
	t.Run("added-folder", func(t *testing.T) { textsBite(t, true, called) })
}

func textsBite(t *testing.T, added bool, want []string) {
	t.Parallel()
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	sc, dir, home := stub.Scenario(), traps.TextFolder(t), t.TempDir()
	calls(sc, dir)
	ctx, cancel := context.WithTimeout(t.Context(), server.Soon)
	defer cancel()
	cmd := bareClaude(ctx, t, dir, home, sc)
	cmd.Args = []string{cmd.Path, "-p", "/evil-command", "--allowedTools", "Skill,Agent,Read"}
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	if added {
		cmd.Dir, cmd.Args = t.TempDir(), append(cmd.Args, "--add-dir", dir)
	}
	cmd.Env = append(cmd.Env, "HOME="+home, "TMPDIR="+t.TempDir(), "PATH="+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := toldOf(sc); !slices.Equal(got, want) {
		t.Errorf("the model was told %q, want %q", got, want)
	}
}

// None of it is told under innerd, whatever the model and the prompt call.
func TestTextsAreHeld(t *testing.T) {
	t.Parallel()
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	s := server.New(t, innerd)
	s.Env = append(s.Env, reals[0].variable+"="+reals[0].path(t).Path)
	s.Start()
	for _, added := range []bool{false, true} {
		sc, dir := stub.Scenario(), traps.TextFolder(t)
		calls(sc, dir)
		meta := obj{"cwd": dir}
		if added {
			meta = obj{"cwd": t.TempDir(), "add_dirs": []string{dir}}
		}
		turn := reals[0].turn(sc, meta)
		turn["context_id"] = fmt.Sprint("added ", added)
		turn["messages"] = []any{obj{"role": "user", "content": "/evil-command"}}
		s.Post(t, turn).Completed()
		if got := toldOf(sc); len(got) > 0 {
			t.Errorf("added %v: the model was told %q", added, got)
		}
		for _, want := range []string{dir, "/evil-command", "Unknown skill: evil-skill", "'evil-agent' not found", "plain"} {
			if !told(sc, want) {
				t.Errorf("added %v: the model was not told %q", added, want)
			}
		}
	}
}
