package table_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/backends/backendtest"
	"innerd/test/table"
)

var update = flag.Bool("update", false, "write docs/agents.md")

const root = "../.."

func TestPage(t *testing.T) {
	want, err := table.Page(root)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "docs", "agents.md")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/agents.md is made of test/table/agents.md.tmpl and of what the tests found; run this test with -update:\n%s", diff)
	}
}

func TestCell(t *testing.T) {
	row := backendtest.Row{Cases: []string{"a", "b"}, HTTP: []string{"c"}}
	for name, test := range map[string]struct {
		found table.Found
		want  table.Cell
	}{
		"all of it":        {table.Found{"a": "ok", "b": "ok", "c": "ok"}, table.Cell{Works: true}},
		"none of it":       {table.Found{"a": "no: tired", "b": "no: tired", "c": "no: sleepy"}, table.Cell{Reasons: []string{"tired", "sleepy"}}},
		"some of it":       {table.Found{"a": "ok", "b": "no: tired", "c": "ok"}, table.Cell{Works: true, Reasons: []string{"tired"}}},
		"but for":          {table.Found{"a": "ok but: mondays", "b": "ok", "c": "ok"}, table.Cell{Works: true, Reasons: []string{"mondays"}}},
		"not tried":        {table.Found{"a": "ok", "b": "ok"}, table.Cell{Works: true, Missing: []string{"c"}}},
		"nothing is known": {table.Found{}, table.Cell{Missing: []string{"a", "b", "c"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, table.CellOf(row, test.found)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What was not tried is never claimed.
func TestRender(t *testing.T) {
	all := table.Found{}
	for _, r := range backendtest.Rows() {
		for _, name := range append(r.Cases, r.HTTP...) {
			all[name] = "ok"
		}
	}
	some := table.Found{"call-error": "no: it knows no errors", "question": "no: it has no questions", "question-refused": "no: it has no questions"}
	got := table.Render([]table.Found{all, some, {}, all})
	for _, line := range []string{
		"| An error | ✓ | – [^1] | ? | ✓ |\n",
		"| A question to the user | ✓ | – [^2] | ? | ✓ |\n",
		"| Streamed reasoning | ✓ | ? | ? | ✓ |\n",
		"[^1]: Codex: it knows no errors.\n[^2]: Codex: it has no questions.\n",
		"\n| Asking | Claude Code | Codex | Copilot | simulate |\n|---|:-:|:-:|:-:|:-:|\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
}

// Every cell says something.
func TestComplete(t *testing.T) {
	for _, a := range table.Agents() {
		f, err := table.Read(root, a)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range table.Missing(f) {
			t.Errorf("%s: %s was not tried; run the tests of its backend and test/parity with -update (long ones with INNERD_LONG=1)", a.Name, name)
		}
	}
}
