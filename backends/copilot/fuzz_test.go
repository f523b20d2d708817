package copilot_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"innerd/test/mutate"
)

// FuzzTranslate: whatever copilot prints, the stream keeps its rules, every
// event can be written, and nobody panics.
func FuzzTranslate(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(transcripts, "*.jsonl"))
	if err != nil || len(files) == 0 {
		f.Fatal("no transcripts", err)
	}
	for i, file := range files {
		if i%4 == 0 { // enough of every kind
			seed := bytes.Join(printed(f, file), []byte("\n"))
			f.Add(seed)
			for bad := range mutate.Bytes(seed, 40) {
				f.Add(bad)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		translate(t, bytes.Split(data, []byte("\n")))
	})
}
