package claudecode_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/modelstub"
)

// TestAskedLate: what the CLI refuses by itself until something else was done,
// it asks for after that; a denial of the host is what the model reads.
func TestAskedLate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conv, s := b.open(t, backends.Config{})
	book := filepath.Join(s.dir, "n.ipynb")
	const empty = `{"cells":[{"cell_type":"code","id":"c","metadata":{},"outputs":[],"source":[]}],"metadata":{},"nbformat":4,"nbformat_minor":5}`
	if err := os.WriteFile(book, []byte(empty), 0o600); err != nil {
		t.Fatal(err)
	}
	step := 0
	s.answering(func(r modelstub.Request) modelstub.Turn {
		step++
		switch step {
		case 1:
			return modelstub.Say(modelstub.Tool("Read", map[string]any{"file_path": book}))
		case 2:
			return modelstub.Say(modelstub.Tool("NotebookEdit", map[string]any{"notebook_path": book, "cell_id": "c", "new_source": "1"}))
		case 3:
			return modelstub.Say(modelstub.Tool("Bash", map[string]any{"command": "sleep 161803", "description": "x", "run_in_background": true}))
		case 4:
			_, id, _ := strings.Cut(r.ToolResult(), "ID: ")
			id, _, _ = strings.Cut(id, ".")
			return modelstub.Say(modelstub.Tool("TaskStop", map[string]any{"task_id": id}))
		}
		return text("Over.")
	})
	allow := events.Answer{Outcome: events.OutcomeAllowed}
	deny := events.Answer{Outcome: events.OutcomeDenied, Message: "not on a sunday"}
	turn := backendtest.Turn{Permission: backends.PermissionAsk, Host: backendtest.Host{Replies: []backendtest.Reply{
		{Kind: events.KindPermission, Tool: "Read", Answer: allow},
		{Kind: events.KindPermission, Tool: "NotebookEdit", Answer: deny},
		{Kind: events.KindPermission, Tool: "Bash", Answer: allow},
		{Kind: events.KindPermission, Tool: "TaskStop", Answer: deny},
	}}}
	evs, _, err := run(t, conv, turn, backends.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	for _, e := range evs {
		switch d := e.Data.(type) {
		case events.PermissionRequest:
			asked = append(asked, d.Tool)
		case events.FileChange:
			t.Errorf("a change that was denied: %+v", d)
		}
	}
	if !slices.Equal(asked, []string{"Read", "NotebookEdit", "Bash", "TaskStop"}) {
		t.Errorf("asked for %q", asked)
	}
	if n := strings.Count(s.Heard(), "not on a sunday"); n < 2 {
		t.Errorf("the model read the denial %d times", n)
	}
	gone(t, "sleep 161803")
}

// TestFileChanges: every tool that changes files tells it, with a diff.
func TestFileChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conv, s := b.open(t, backends.Config{})
	path := func(name string) string { return filepath.Join(s.dir, name) }
	const book = `{"cells":[{"cell_type":"code","id":"c","metadata":{},"outputs":[],"source":["old = 1"]}],"metadata":{},"nbformat":4,"nbformat_minor":5}`
	for name, content := range map[string]string{"n.ipynb": book, "a b.txt": "one\ntwo\n", "c.log": "x\n", "d.log": "y\n", "stays.txt": "z\n"} {
		if err := os.WriteFile(path(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(path("sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	call := func(tool string, in map[string]any) modelstub.Turn { return modelstub.Say(modelstub.Tool(tool, in)) }
	for _, turn := range []modelstub.Turn{
		call("Write", map[string]any{"file_path": path("new.txt"), "content": "alpha\nbeta"}),
		call("Write", map[string]any{"file_path": path("new.txt"), "content": "alpha\ngamma\n"}),
		call("Read", map[string]any{"file_path": path("n.ipynb")}),
		call("NotebookEdit", map[string]any{"notebook_path": path("n.ipynb"), "cell_id": "c", "new_source": "new = 2"}),
		modelstub.Say(bash("mv 'a b.txt' sub/ && rm -f *.log missing.txt")),
		modelstub.Say(bash("rm stays.txt; echo z > stays.txt; mv new.txt newer.txt")),
		text("Done."),
	} {
		s.queue = append(s.queue, arranged{turn: turn})
	}
	evs, _, err := run(t, conv, backendtest.Turn{}, backends.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	type change struct{ kind, name string }
	var got []change
	diffs := map[change]string{}
	for _, e := range evs {
		if f, ok := e.Data.(events.FileChange); ok {
			rel, err := filepath.Rel(s.dir, f.Path)
			if err != nil {
				t.Error(err)
			}
			got = append(got, change{f.Kind, rel})
			diffs[change{f.Kind, rel}] = f.Diff
		}
	}
	want := []change{
		{"create", "new.txt"}, {"edit", "new.txt"}, {"edit", "n.ipynb"}, {"move", "sub/a b.txt"}, {"delete", "c.log"}, {"delete", "d.log"}, {"move", "newer.txt"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for c, lines := range map[change][]string{
		{"create", "new.txt"}:   {"@@ -0,0 +1,2 @@", "+alpha", "+beta", "\\ No newline at end of file"},
		{"edit", "new.txt"}:     {"-beta", "+gamma"},
		{"edit", "n.ipynb"}:     {"@@ -1,1 +1,15 @@", "-" + book, `+   "source": "new = 2",`},
		{"delete", "c.log"}:     {"@@ -1,1 +0,0 @@", "-x"},
		{"move", "sub/a b.txt"}: {"rename from " + strings.TrimPrefix(path("a b.txt"), "/")},
	} {
		for _, l := range lines {
			if !slices.Contains(strings.Split(diffs[c], "\n"), l) {
				t.Errorf("%v: no %q in\n%s", c, l, diffs[c])
			}
		}
	}
}

// TestModes: in every mode of permissions claude asks us, so that we know.
func TestModes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conv, s := b.open(t, backends.Config{})
	for _, mode := range []string{backends.PermissionAuto, backends.PermissionAsk, backends.PermissionDeny} {
		s.queue = []arranged{{turn: modelstub.Say(bash("ls"), modelstub.Tool("Read", map[string]any{"file_path": "/etc/hostname"}))}, {turn: text("Over.")}}
		rec := backendtest.NewRecorder(backendtest.Turn{Host: backendtest.Host{Replies: []backendtest.Reply{
			{Kind: events.KindPermission, Many: true, Answer: events.Answer{Outcome: events.OutcomeAllowed}},
		}}}, nil, nil)
		_, err := conv.Run(t.Context(), backends.Input{Parts: []events.Part{events.Text("Go.")}, Set: backends.Settings{Permission: mode}}, rec)
		rec.Close()
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		for _, e := range rec.Events() {
			if _, ok := e.Data.(events.PermissionRequest); ok {
				asked++
			}
		}
		if asked != 2 {
			t.Errorf("%s: asked %d times", mode, asked)
		}
	}
}
