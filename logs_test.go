package innerd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// named are the rooms that know of a run which conversation and backend it is
// of: there a line of the log names it by LogAttr or logAttr, with all three.
var named = []string{"runs", "events/journal", "toolbridge", "adapter"}

// TestLogLinesNameRunsWhole finds lines of the log that name a run, or a
// conversation, by hand, and so leave something out.
func TestLogLinesNameRunsWhole(t *testing.T) {
	calls := 0
	for _, room := range named {
		files, err := filepath.Glob(room + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", room, err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if words := logged(n); words != nil {
					calls++
					if i := slices.IndexFunc(words, func(w string) bool {
						return slices.Contains([]string{"run", "task", "task_id", "conversation", "context", "context_id"}, w)
					}); i >= 0 {
						t.Errorf("%s: a line of the log names a run by %q; use LogAttr, which names all", path, words[i])
					}
				}
				return true
			})
		}
	}
	if calls < 30 {
		t.Errorf("only %d lines of the log found", calls)
	}
}

// logged gives the texts in a call of a logger's, nil for anything else.
func logged(n ast.Node) []string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, sel.Sel.Name) || len(call.Args) == 0 {
		return nil
	}
	words := []string{""}
	for _, arg := range call.Args {
		if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, _ := strconv.Unquote(lit.Value)
			words = append(words, text)
		}
	}
	return words
}

// TestLogLinesHaveNoOutputOfAgents: what agents print belongs into their run.
func TestLogLinesHaveNoOutputOfAgents(t *testing.T) {
	err := filepath.WalkDir("backends", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			for _, w := range logged(n) {
				if slices.Contains([]string{"line", "stderr", "stdout", "text", "input", "output", "prompt", "result"}, w) {
					t.Errorf("%s: a line of the log has the %s of an agent", path, w)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
