package codex_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/backends/codex"
	"innerd/events"
	"innerd/test/mutate"
	"innerd/test/transcript"
)

const transcripts = "../../test/testdata/codex"

// recorded reports whether a case's transcript is kept: those that are long,
// or have two conversations, are not.
func recorded(name string) bool {
	return !slices.Contains([]string{
		"long-text", "big-results-and-output", "two-conversations", "call-1-mib", "calls-8-parallel", "call-2-s", "deaf-agent",
		"line-64-mib", "line-not-json", "line-unknown-event", "prompt-with-image", "no-login",
	}, name)
}

// TestGolden translates every recorded transcript of the real CLI.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(transcripts, "*.jsonl"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			got := translate(t, transcript.Printed(t, file))
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
func translate(t testing.TB, lines [][]byte) string {
	t.Helper()
	var out strings.Builder
	open := ""
	codex.Translate(lines, func(d events.Data) {
		open = checkOrder(t, open, d)
		b, err := events.AppendLine(nil, 0, 0, d)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(&out, "%s\n", b)
	}, func(r events.Request) { fmt.Fprintf(&out, "request: %s %s %s\n", r.Kind, r.Tool, r.Input) },
		func(reason string, err error) { fmt.Fprintf(&out, "end: %s %v\n", reason, err) })
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

// TestAfterTheEnd: what codex says of a turn after its end is closed all the same.
func TestAfterTheEnd(t *testing.T) {
	got := translate(t, [][]byte{
		[]byte(`{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}`),
		[]byte(`{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed"}}}`),
		[]byte(`{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","itemId":"i","delta":"late"}}`),
	})
	if !strings.Contains(got, `"message_id":"m1","partial":true`) {
		t.Error(got)
	}
}

// FuzzTranslate: whatever codex prints, the stream keeps its rules and nobody panics.
func FuzzTranslate(f *testing.F) {
	for _, name := range []string{"reasoning", "native-tool", "retry-discarded", "steer-in-text", "subagent", "file-edit"} {
		seed := bytes.Join(transcript.Printed(f, filepath.Join(transcripts, name+".jsonl")), []byte("\n"))
		f.Add(seed)
		for bad := range mutate.Bytes(seed, 40) {
			f.Add(bad)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		translate(t, bytes.Split(data, []byte("\n")))
	})
}
