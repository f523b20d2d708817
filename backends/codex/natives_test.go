package codex_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/codex"
	"innerd/events"
	"innerd/test/codexscript"
	"innerd/test/modelstub"
)

// TestModes: in every mode of permissions codex asks us about its own tools, for
// what it holds to be safe too; what the host says is what happens.
func TestModes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := t.TempDir()
	c, s := b.open(t, backends.Config{Dir: dir})
	for _, mode := range []string{backends.PermissionAuto, backends.PermissionAsk, backends.PermissionDeny} {
		outcome := events.OutcomeAllowed // as the host answers by itself in auto
		if mode == backends.PermissionDeny {
			outcome = events.OutcomeDenied
		}
		s.says(modelstub.Say(shell("ls")), modelstub.Say(shell("touch "+mode)), text("Over."))
		rec := backendtest.NewRecorder(backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{
			{Kind: events.KindPermission, Many: true, Answer: events.Answer{Outcome: outcome}},
		}}}, nil, nil)
		_, err := c.Run(t.Context(), backends.Input{Parts: []events.Part{events.Text("Go.")}, Set: backends.Settings{Permission: mode}}, rec)
		rec.Close()
		if err != nil || len(rec.Faults()) > 0 {
			t.Fatal(err, rec.Faults())
		}
		var asked []string
		for _, e := range rec.Events() {
			if d, ok := e.Data.(events.PermissionRequest); ok {
				asked = append(asked, d.Tool+" "+commandOf(t, d.Input))
			}
		}
		if !slices.Equal(asked, []string{"exec_command ls", "exec_command touch " + mode}) {
			t.Errorf("%s: asked %q", mode, asked)
		}
		if _, err := os.Stat(filepath.Join(dir, mode)); (err == nil) != (outcome == events.OutcomeAllowed) {
			t.Errorf("%s: the command ran: %v", mode, err == nil)
		}
	}
}

func commandOf(t *testing.T, input json.RawMessage) string {
	t.Helper()
	var in struct {
		Command string `json:"command"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		t.Error(err)
	}
	return in.Command
}

// TestNativeNames: every tool that codex declares to a model, or puts beside the
// host's into its programs, is known by its name: of two with one name codex
// runs its own.
func TestNativeNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, x := range []struct {
		model    string
		programs bool
	}{{codexscript.Model, false}, {"gpt-5.4", false}, {"gpt-of-tomorrow", false}, {codeModel, true}} {
		c, s := b.open(t, backends.Config{},
			modelstub.Say(modelstub.Custom("exec", `text("ALL" + ALL_TOOLS.map(t => " " + t.name).join("") + " END")`)), text("I have looked."))
		if !x.programs {
			s.says(text("I have looked."))
		}
		if _, _, err := run(t, c, backendtest.Turn{}, backends.Settings{Model: x.model}); err != nil {
			t.Fatal(err)
		}
		r, _ := s.last()
		names := namesIn(r)
		if _, all, ok := strings.Cut(r.ToolResult(), "ALL "); ok {
			all, _, _ = strings.Cut(all, " END")
			names = append(names, strings.Fields(all)...)
		}
		if slices.Contains(names, "exec") != x.programs || !slices.Contains(names, "exec_command") {
			t.Errorf("%s: %q", x.model, names)
		}
		for _, name := range names {
			if !codex.IsNative(name) {
				t.Errorf("%s: %s is not known as codex's own", x.model, name)
			}
		}
	}
}

// namesIn are the tools of a request, and the groups that they stand in.
func namesIn(r modelstub.Request) (out []string) {
	for _, spec := range r.Tools {
		out = append(out, spec.Name)
		if spec.Namespace != "" {
			out = append(out, spec.Namespace)
		}
	}
	return out
}

// TestNameOfAGroup: a program names codex's tools by their groups too. A tool of
// the host's with such a name is called, and not codex's own.
func TestNameOfAGroup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, s := b.open(t, backends.Config{}, modelstub.Say(modelstub.Custom("exec",
		`const n = ALL_TOOLS.map(t => t.name).filter(n => n.endsWith("clock__curr_time")).sort().at(-1); text(n + ": " + await tools[n]({}));`)), text("Late."))
	reply := backendtest.Reply{Kind: events.KindTool, Tool: "clock__curr_time", Answer: events.Answer{Outcome: events.OutcomeOK, Result: "the host's clock"}}
	if _, _, err := run(t, c, backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{reply}}},
		backends.Settings{Model: codeModel, Tools: []backends.Tool{tool("clock__curr_time")}}); err != nil {
		t.Fatal(err)
	}
	if r, _ := s.last(); !strings.Contains(r.ToolResult(), "host_clock__curr_time: the host's clock") {
		t.Errorf("the program said %q", r.ToolResult())
	}
}
