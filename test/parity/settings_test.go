//go:build linux

package parity_test

import (
	"os"
	"path/filepath"
	"strings"

	"innerd/events"
	"innerd/test/modelstub"
	"innerd/test/server"
)

var settingRows = []row{
	{"project-instructions", projectInstructions},
	{"max-cost-usd", maxCost},
}

// folder is a working directory with files in it.
func (w *world) folder(files map[string]string) string {
	w.Helper()
	dir := w.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			w.Fatal(err)
		}
	}
	return dir
}

// projectInstructions: CLAUDE.md, else AGENTS.md, once, whatever the agent
// itself would read.
func projectInstructions(w *world) {
	const claude, agents = "claude-md-marker", "agents-md-marker"
	for name, c := range map[string]struct {
		files        map[string]string
		off          bool
		claude, them int
	}{
		"AGENTS.md": {map[string]string{"AGENTS.md": agents}, false, 0, 1},
		"both":      {map[string]string{"CLAUDE.md": claude, "AGENTS.md": agents}, false, 1, 0},
		"none":      {map[string]string{"CLAUDE.md": claude, "AGENTS.md": agents}, true, 0, 0},
	} {
		k := w.talk(obj{"cwd": w.folder(c.files)})
		if c.off {
			k.meta["project_instructions"] = false
		}
		k.run("Hello.", nil, say("Hello."))
		heard := k.heard()
		if a, b := strings.Count(heard, claude), strings.Count(heard, agents); a != c.claude || b != c.them {
			w.Errorf("%s: the model was told CLAUDE.md %d times and AGENTS.md %d times", name, a, b)
		}
	}
}

// maxCost: what costs too much ends, as a success.
func maxCost(w *world) {
	k := w.talk(nil)
	k.model.use = &modelstub.Usage{Input: 50_000, Output: 100_000}
	cost := 5.0
	usage := events.Usage{Cost: &cost}
	first := shell("echo one", "one")
	first.sim = append([]any{obj{"usage": usage}}, first.sim...)
	p := k.post("Do a lot.", obj{"max_cost_usd": 0.5}, say("I begin."), first, shell("echo two", "two"), shell("echo three", "three"), say("Never said."))
	end := p.Completed().End()
	if end.Reason != "max_cost" || strings.Contains(p.Text(), "Never said.") {
		w.Errorf("it ended with %q, having said %q", end.Reason, p.Text())
	}
	if calls := server.Of[events.ToolCall](p); len(calls) > 2 {
		w.Errorf("%d calls were made", len(calls))
	}
}
