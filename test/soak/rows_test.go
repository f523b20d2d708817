package soak_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"innerd/backends/backendtest"
)

const page = "../../docs/reliability.md"

// none is what a row says whose subject is not built.
const none = "no such part here yet"

// Every row of the page's table of mistakes names tests, and each of them is
// in the tree: a test that is renamed or goes takes its row along.
func TestEveryRowHasItsTests(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(t, string(text))
	if len(rows) != 27 {
		t.Errorf("%d rows, not those 27 that were seen", len(rows))
	}
	for seen, tests := range rows {
		for _, wrong := range missing(tests) {
			t.Errorf("%s: %s", seen, wrong)
		}
	}
}

// rowsOf gives the third cell of each row under its first.
func rowsOf(t *testing.T, text string) map[string]string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "<!-- rows -->")
	table, _, ended := strings.Cut(rest, "<!-- end of rows -->")
	if !ok || !ended {
		t.Fatalf("%s has no rows", page)
	}
	rows := map[string]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") || strings.HasPrefix(cells[1], " Seen") {
			continue
		}
		rows[strings.TrimSpace(cells[1])] = cells[3]
	}
	return rows
}

var quoted = regexp.MustCompile("`([^`]+)`")

// missing says which of the named tests are not there.
func missing(cell string) (out []string) {
	names := quoted.FindAllStringSubmatch(cell, -1)
	if len(names) == 0 && !strings.Contains(cell, none) {
		return []string{"no test is named"}
	}
	for _, m := range names {
		name := m[1]
		kind, word, ok := strings.Cut(name, ": ")
		room, test, dotted := strings.Cut(name, ".")
		there := false
		switch {
		case ok && kind == "conformance":
			there = slices.ContainsFunc(backendtest.Rows(), func(r backendtest.Row) bool { return slices.Contains(r.Cases, word) })
		case ok && kind == "parity":
			there = slices.Contains(backendtest.HTTPNames(), word)
		case dotted:
			there = slices.Contains(testsOf(filepath.Join("../..", room)), test)
		}
		if !there {
			out = append(out, fmt.Sprintf("there is no %s", name))
		}
	}
	return out
}

// testsOf are the tests and fuzz tests of a folder.
func testsOf(dir string) (names []string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go")) // a bad pattern finds none
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			continue // the compiler says so
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

func TestMissingTestsAreSeen(t *testing.T) {
	for cell, want := range map[string]int{
		" `test/soak.TestSoak`, `conformance: equal-deltas`, `parity: steer`":     0,
		" `test/soak.TestNothing`, `conformance: no-such-case`, `parity: nobody`": 3,
		" `TestSoak` ":  1,
		" a good test ": 1,
		" no such part here yet: it is not built ": 0,
	} {
		if got := missing(cell); len(got) != want {
			t.Errorf("%q: %q", cell, got)
		}
	}
}
