//go:build linux

package security_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named is a test as docs/security.md names it: its folder and its function, or
// the name of a row.
var named = regexp.MustCompile("`([a-z0-9/]+) ((?:Test|Fuzz)[A-Za-z0-9]+|[a-z]+(?:-[a-z]+)+)`")

// Each promise of docs/security.md names a test, and each of these exists.
func TestPromisesHaveTheirTests(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "## What is promised")
	promises, _, ok2 := strings.Cut(rest, "## What is not promised")
	if !ok || !ok2 {
		t.Fatal("docs/security.md has no such parts")
	}
	n := 0
	for _, item := range strings.Split(promises, "\n- ")[1:] {
		item, _, _ = strings.Cut(item, "\n\n")
		found := named.FindAllStringSubmatch(item, -1)
		if len(found) == 0 {
			t.Errorf("a promise without a test: %.80s", item)
		}
		for _, m := range found {
			n++
			if !exists(t, m[1], m[2]) {
				t.Errorf("there is no %s in %s", m[2], m[1])
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d tests are named", n)
	}
}

func exists(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		return false
	}
	want := []string{"func " + name + "(", `{"` + name + `", `}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if strings.Contains(string(raw), w) {
				return true
			}
		}
	}
	return false
}
