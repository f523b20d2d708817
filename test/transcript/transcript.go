// Package transcript reads the golden transcripts of the real agents.
package transcript

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// Printed is what the agent wrote to stdout in the transcript of a file, message
// by message.
func Printed(t testing.TB, file string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return PrintedIn(t, text)
}

// PrintedIn is Printed of a transcript's text. None fails the test.
func PrintedIn(t testing.TB, text []byte) (out [][]byte) {
	t.Helper()
	for line := range bytes.Lines(text) {
		var l struct {
			Dir       string
			Line, Msg json.RawMessage // the latter where messages are no lines
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%v: %.200s", err, line)
		}
		if l.Dir == "out" {
			out = append(out, append(l.Line, l.Msg...))
		}
	}
	if len(out) == 0 {
		t.Fatal("the agent says nothing in the transcript")
	}
	return out
}
