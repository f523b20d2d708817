package journal_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"innerd/events/journal"
)

// A directory of a newer version, or of none that is known, is refused with
// what to do, and left as it is.
func TestVersionsThatAreNotKnown(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"newer":          {`{"version":2,"id":"01M8GXWCDNG3FNKKTZ0ZFVG5N4"}`, "start the newer innerd"},
		"newer, no id":   {`{"version":7,"layout":"other"}`, "start the newer innerd"},
		"nothing":        {"", "can't be understood"},
		"garbage":        {"\x00\xff\x00", "can't be understood"},
		"cut":            {`{"version":1,"id":"01M8GX`, "can't be understood"},
		"another type":   {`{"version":"two","id":"01M8GXWCDNG3FNKKTZ0ZFVG5N4"}`, "can't be understood"},
		"no version":     {`{"id":"01M8GXWCDNG3FNKKTZ0ZFVG5N4"}`, "can't be understood"},
		"no id":          {`{"version":1}`, "can't be understood"},
		"an id of other": {`{"version":1,"id":"../../etc"}`, "can't be understood"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "VERSION")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := journal.Open(dir, &journal.Options{Logger: slog.New(slog.DiscardHandler)})
			if err == nil {
				_ = s.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "another directory") {
				t.Error(err)
			}
			if got, _ := os.ReadFile(file); string(got) != c.text {
				t.Errorf("VERSION is %q now", got)
			}
		})
	}
}

// Without the file a directory that was used gets a new id, and that is said.
func TestVersionThatIsMissing(t *testing.T) {
	dir := t.TempDir()
	var said []string
	for i := range 3 {
		var log bytes.Buffer
		s, err := journal.Open(dir, &journal.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Create(journal.RunMeta{ID: fmt.Sprint("run-", i), Owner: "me"}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		said = append(said, log.String())
		if len(said) == 2 {
			if err := os.Remove(filepath.Join(dir, "VERSION")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, want := range []bool{false, false, true} {
		if strings.Contains(said[i], "had no VERSION") != want {
			t.Errorf("start %d said %q", i, said[i])
		}
	}
}
