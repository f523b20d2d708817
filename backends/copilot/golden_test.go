package copilot_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/backends/copilot"
	"innerd/events"
	"innerd/test/transcript"
)

const transcripts = "../../test/testdata/copilot"

// TestGolden translates every recorded transcript of the real CLI.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(transcripts, "*.jsonl"))
	if err != nil || len(files) < 25 {
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

// translate gives an event per line, and how each turn ended. Each turn must
// keep the rules of the stream.
func translate(t testing.TB, messages [][]byte) string {
	t.Helper()
	var out strings.Builder
	said := 0
	rec := backendtest.NewRecorder(backendtest.Turn{Interactive: true}, nil, nil)
	copilot.Translate(messages, rec, func(o backends.Outcome, err error) {
		log := rec.Events()[said:]
		said += len(log)
		for _, fault := range backendtest.CheckOrder(log, false) {
			t.Error(fault)
		}
		for _, e := range log {
			switch e.Type() { // in no order that counts: nobody answers
			case events.TypeToolResolved, events.TypePermissionResolved, events.TypeInputResolved:
				continue
			}
			raw, jsonErr := json.Marshal(e.Data)
			if jsonErr != nil {
				t.Error(jsonErr)
			}
			fmt.Fprintf(&out, "%s %s\n", e.Type(), raw)
		}
		fmt.Fprintf(&out, "end: %q, %v\n", o.Reason, err)
	})
	rec.Close()
	return out.String()
}
