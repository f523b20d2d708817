package report_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"innerd/test/report"
)

// A report takes the place of the one before, and nothing else moves.
func TestFill(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(report.DirEnv, dir)
	report.Write(t, "soak", "make soak", "  lost   0\n")
	page := "a\n<!-- report: soak -->\nold\n<!-- end of report -->\nb\n<!-- report: load -->\n<!-- end of report -->\n"
	got, err := report.Fill([]byte(page), dir)
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	if strings.Contains(text, "old") || !strings.HasPrefix(text, "a\n<!-- report: soak -->\n\n20") || !strings.Contains(text, ", `make soak`, load average") ||
		!strings.Contains(text, ":\n\n```\nlost   0\n```\n\n<!-- end of report -->\nb\n<!-- report: load -->\n<!-- end of report -->\n") {
		t.Errorf("%q", text)
	}
	if again, err := report.Fill(got, dir); err != nil || string(again) != text {
		t.Errorf("another time: %v %q", err, again)
	}
	if err := os.WriteFile(filepath.Join(dir, "other.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := report.Fill([]byte(page), dir); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("a report without a place: %v", err)
	}
}
