package a2a_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"innerd/adapter/a2a"
	"innerd/adapter/a2a/spec"
	"innerd/adapter/openapi"
)

// TestRoutesAreDescribed compares the operations with the table of package
// openapi, either way.
func TestRoutesAreDescribed(t *testing.T) {
	var described []string
	for _, o := range openapi.Operations() {
		if path, ok := strings.CutPrefix(o.Path, a2a.Prefix); ok && o.Tag == "a2a" && !strings.HasPrefix(path, "/{tenant}") && !strings.HasPrefix(path, "/agents/") {
			described = append(described, o.Method+" "+path)
		}
	}
	there := append(a2a.RESTRoutes(), "POST ", "GET "+a2a.CardPath)
	compare(t, "route", there, described)
	compare(t, "method of JSON-RPC", a2a.RPCMethods(), openapi.A2AMethods())
}

// TestErrorsAreDescribed looks for every error of package spec in the table.
func TestErrorsAreDescribed(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "spec/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var there, described []string
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			for i, name := range s.(*ast.ValueSpec).Names {
				if strings.HasPrefix(name.Name, "Err") {
					there = append(there, reason(t, s.(*ast.ValueSpec).Values[i]))
				}
			}
		}
	}
	for _, e := range openapi.A2AErrors() {
		described = append(described, e.Reason)
	}
	if len(there) == 0 || !slices.Contains(there, spec.ErrBusy.Reason) {
		t.Fatalf("the errors of spec/errors.go were not found: %q", there)
	}
	compare(t, "error", there, described)
}

// reason is the Reason of &Error{…}.
func reason(t *testing.T, e ast.Expr) string {
	t.Helper()
	u, _ := e.(*ast.UnaryExpr)
	if u != nil {
		for _, el := range u.X.(*ast.CompositeLit).Elts {
			if kv := el.(*ast.KeyValueExpr); kv.Key.(*ast.Ident).Name == "Reason" {
				return strings.Trim(kv.Value.(*ast.BasicLit).Value, `"`)
			}
		}
	}
	t.Fatalf("an error without a reason: %v", e)
	return ""
}

func compare(t *testing.T, what string, there, described []string) {
	t.Helper()
	for _, s := range there {
		if !slices.Contains(described, s) {
			t.Errorf("the %s %q is not in adapter/openapi", what, s)
		}
	}
	for _, s := range described {
		if !slices.Contains(there, s) {
			t.Errorf("adapter/openapi has the %s %q, which is not there", what, s)
		}
	}
}
