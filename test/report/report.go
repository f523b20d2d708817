// Package report keeps what a long form of a test measured, so that
// docs/reliability.md can say it with date and command.
package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// DirEnv names the variable that names the folder of reports. Where it is not
// set, nothing is kept.
const DirEnv = "INNERD_REPORT"

// Write keeps text, what a real run of command printed, under a name.
func Write(t testing.TB, name, command, text string) {
	t.Helper()
	dir := os.Getenv(DirEnv)
	if dir == "" {
		return
	}
	if err := Save(dir, name, command, text); err != nil {
		t.Error(err)
	}
}

// Save is Write into a folder, for what is no test.
func Save(dir, name, command, text string) error {
	load, _ := os.ReadFile("/proc/loadavg") // where there is none, none is said
	head := fmt.Sprintf("%s, `%s`", time.Now().UTC().Format("2006-01-02 15:04 UTC"), command)
	if f := strings.Fields(string(load)); len(f) >= 3 {
		head += ", load average at its end " + strings.Join(f[:3], " ")
	}
	body := fmt.Sprintf("%s:\n\n```\n%s\n```\n", head, strings.TrimSpace(text))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".md"), []byte(body), 0o644)
}

const (
	begin = "<!-- report: %s -->\n"
	end   = "<!-- end of report -->\n"
)

// Fill puts every report of a folder into its place in a page. A report
// without a place in it is an error; a place without a report stays as it is.
func Fill(page []byte, dir string) ([]byte, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		word := strings.TrimSuffix(filepath.Base(name), ".md")
		mark := fmt.Appendf(nil, begin, word)
		before, rest, ok := bytes.Cut(page, mark)
		_, after, ended := bytes.Cut(rest, []byte(end))
		if !ok || !ended {
			return nil, fmt.Errorf("the page has no place for the report %q: %q and %q", word, mark, end)
		}
		page = bytes.Join([][]byte{before, mark, []byte("\n"), text, []byte("\n"), []byte(end), after}, nil)
	}
	return page, nil
}
