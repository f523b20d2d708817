package changes_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"innerd/backends/claudecode/internal/changes"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, line string) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestLeaving: files that a command names are told when they are gone, and
// only then.
func TestLeaving(t *testing.T) {
	for _, c := range []struct {
		line string
		gone []string // what the command would do, by hand
		to   string
		want []string
	}{
		{"rm a.txt", []string{"a.txt"}, "", []string{"delete a.txt"}},
		{"rm -rf -- 'b c.txt' nothing.txt", []string{"b c.txt"}, "", []string{"delete b c.txt"}},
		{"echo x && git rm -f a.txt; rm b\\ c.txt", []string{"a.txt", "b c.txt"}, "", []string{"delete a.txt", "delete b c.txt"}},
		{"rm *.txt", []string{"a.txt", "b c.txt"}, "", []string{"delete a.txt", "delete b c.txt"}},
		{"rm a.txt", nil, "", nil},
		{"rm $X a.txt > log", []string{"a.txt"}, "", []string{"delete a.txt"}},
		{"cd elsewhere && rm a.txt", []string{"a.txt"}, "", nil},
		{"mv a.txt d.txt", []string{"a.txt"}, "d.txt", []string{"move d.txt"}},
		{"mv a.txt sub", []string{"a.txt"}, "sub/a.txt", []string{"move sub/a.txt"}},
		{"mv a.txt", nil, "", nil},
		{"echo rm a.txt", []string{"a.txt"}, "", nil},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a.txt"), "alpha\n")
		write(t, filepath.Join(dir, "b c.txt"), "beta")
		if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		files := changes.LeavingOf(dir, command(t, c.line))
		for _, name := range c.gone {
			path := filepath.Join(dir, name)
			var err error
			if c.to != "" {
				err = os.Rename(path, filepath.Join(dir, c.to))
			} else {
				err = os.Remove(path)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, f := range files {
			if change, ok := f.Left(); ok {
				rel, err := filepath.Rel(dir, change.Path)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, change.Kind+" "+rel)
				if change.Diff == "" {
					t.Errorf("%s: no diff", c.line)
				}
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
	}
}

// TestNotebook: a notebook's change is one hunk around what differs.
func TestNotebook(t *testing.T) {
	lines := func(s ...string) string { return strings.Join(s, "\n") }
	for _, c := range []struct{ before, after, want string }{
		{lines("1", "2", "3", "4", "5", "6"), lines("1", "2", "3", "4", "x", "6"), "@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+x\n 6\n"},
		{lines("a", "a"), lines("a", "a", "a"), "@@ -1,2 +1,3 @@\n a\n a\n+a\n"},
		{lines("a", "b"), lines("b"), "@@ -1,2 +1,1 @@\n-a\n b\n"},
		{"same", "same", ""},
	} {
		raw, err := json.Marshal(map[string]string{"notebook_path": "/n.ipynb", "original_file": c.before, "updated_file": c.after})
		if err != nil {
			t.Fatal(err)
		}
		change, ok := changes.Of("NotebookEdit", raw)
		_, got, _ := strings.Cut(change.Diff, "+++ b/n.ipynb\n")
		if !ok || got != c.want {
			t.Errorf("%q to %q: %q, want %q", c.before, c.after, got, c.want)
		}
	}
	if _, ok := changes.Of("Bash", json.RawMessage(`{}`)); ok {
		t.Error("a shell's result is no change")
	}
}

// FuzzLeaving: whatever a command says, looking at it does no harm.
func FuzzLeaving(f *testing.F) {
	for _, s := range []string{"rm a", "mv 'a b' \\\"c", "rm [", "git", "rm --", "", "mv a b;;|&", "rm \x00"} {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, line string) {
		for _, l := range changes.LeavingOf(dir, command(t, line)) {
			if _, gone := l.Left(); gone {
				t.Errorf("%q: a file that was there is gone", line)
			}
		}
	})
}
