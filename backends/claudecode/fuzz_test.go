package claudecode_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"innerd/test/mutate"
	"innerd/test/transcript"
)

// FuzzTranslate: whatever claude prints, the stream keeps its rules, every
// event can be written, and nobody panics.
func FuzzTranslate(f *testing.F) {
	for _, name := range []string{"ask-user", "structured-output", "text", "subagent", "retry", "thinking"} {
		files, _ := filepath.Glob(filepath.Join(transcripts, "*"+name+"*.jsonl")) // the pattern is a good one
		for _, file := range files {
			seed := bytes.Join(transcript.Printed(f, file), []byte("\n"))
			f.Add(seed, true, name == "structured-output")
			for bad := range mutate.Bytes(seed, 60) {
				f.Add(bad, len(bad)%2 == 0, len(bad)%3 == 0)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, interactive, schema bool) {
		lines := append(bytes.Split(data, []byte("\n")), []byte(`{"type":"result"}`))
		translate(t, lines, interactive, schema)
	})
}
