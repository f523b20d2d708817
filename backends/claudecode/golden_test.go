package claudecode_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/backends/claudecode"
	"innerd/events"
	"innerd/test/transcript"
)

var update = flag.Bool("update", false, "write the golden files anew")

const transcripts = "../../test/testdata/claude"

// TestGolden translates every recorded transcript of the real CLI.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(transcripts, "*.jsonl"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			got := translate(t, transcript.Printed(t, file), name == "ask-user", name == "structured-output")
			golden := filepath.Join("testdata", "golden", name+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// translate gives an event per line, and how each turn ended.
func translate(t testing.TB, lines [][]byte, interactive, schema bool) string {
	t.Helper()
	var out strings.Builder
	open := ""
	claudecode.Translate(lines, interactive, schema, func(d events.Data) {
		open = checkOrder(t, open, d)
		b, err := events.AppendLine(nil, 0, 0, d)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(&out, "%s\n", b)
	}, func(err error) { fmt.Fprintf(&out, "end: %v\n", err) })
	if open != "" {
		t.Errorf("%s is still open at the end", open)
	}
	return out.String()
}

// checkOrder holds the stream to its rules: one thing open at a time, each
// closed or taken back.
func checkOrder(t testing.TB, open string, d events.Data) string {
	t.Helper()
	begin := func(id string) string {
		if open != "" && open != id {
			t.Errorf("%s begins while %s is open", id, open)
		}
		return id
	}
	end := func(id string) string {
		if open != id {
			t.Errorf("%s ends while %q is open", id, open)
		}
		return ""
	}
	switch e := d.(type) {
	case events.MessageDelta:
		return begin(e.MessageID)
	case events.ReasoningDelta:
		return begin(e.ReasoningID)
	case events.Message:
		return end(e.MessageID)
	case events.Reasoning:
		return end(e.ReasoningID)
	case events.Discarded:
		return end(e.MessageID + e.ReasoningID)
	case events.ToolCall:
		if open != "" {
			t.Errorf("a call while %s is open", open)
		}
	}
	return open
}
