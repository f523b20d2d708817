//go:build linux

package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"innerd/test/server"
)

// A file of an ended run that is another, or new, or gone is seen; what may
// change is not.
func TestChangedRunsAreSeen(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, state string)
		want   string
	}{
		"nothing":       {func(*testing.T, string) {}, ""},
		"appended":      {put("runs/ended/1.jsonl", "a\nb\n"), "another file 1.jsonl: 2 bytes, now 4"},
		"as long":       {put("runs/ended/1.jsonl", "b\n"), "another file 1.jsonl"},
		"new":           {put("runs/ended/end.json", "{}"), "a new file end.json"},
		"a file gone":   {remove("runs/ended/request.json"), "no file request.json any more"},
		"a run gone":    {remove("runs/ended"), ""},
		"deleted":       {put("runs.jsonl", `{"op":"end","id":"ended"}`+"\n"+`{"op":"delete","id":"ended"}`+"\n"), ""},
		"an index":      {put("runs/ended/1.idx", "x"), ""},
		"an open run":   {put("runs/open/1.jsonl", "more\n"), ""},
		"conversations": {put("conversations/c/state.json", "{}"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			for file, text := range map[string]string{
				"runs.jsonl":         `{"op":"begin","id":"ended"}` + "\n" + `{"op":"end","id":"ended"}` + "\n" + `{"op":"begin","id":"open"}` + "\n" + `{"op":"e`,
				"runs/ended/1.jsonl": "a\n", "runs/ended/request.json": "{}", "runs/open/1.jsonl": "",
			} {
				put(file, text)(t, state)
			}
			was := server.LookAtEnded(state)
			if len(was) != 1 {
				t.Fatalf("%v", was)
			}
			c.change(t, state)
			got := strings.Join(was.Changed(state), "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}

func put(name, text string) func(*testing.T, string) {
	return func(t *testing.T, state string) {
		t.Helper()
		path := filepath.Join(state, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, state string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(state, name)); err != nil {
			t.Fatal(err)
		}
	}
}
