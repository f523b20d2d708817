package mutate

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"innerd/test/transcript"
)

// longest is the longest file that is a seed, in bytes: each input that is made
// of one is about as long.
const longest = 32 << 10

// Files are the files that a pattern names, from the folder of the test, those
// of up to 32 KiB, and of them every nth. None fails the test: a seed that was
// moved would be missed by nobody.
func Files(t testing.TB, pattern string, nth int) (out [][]byte) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(names); i += nth {
		raw, err := os.ReadFile(names[i])
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) <= longest {
			out = append(out, raw)
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s names no file", pattern)
	}
	return out
}

// Printed is what agents printed in such files, which are golden transcripts:
// for each of them its messages, in their order.
func Printed(t testing.TB, pattern string, nth int) (out [][][]byte) {
	t.Helper()
	for _, text := range Files(t, pattern, nth) {
		out = append(out, transcript.PrintedIn(t, text))
	}
	return out
}

// Lines puts messages one on a line.
func Lines(messages [][]byte) []byte {
	return append(bytes.Join(messages, []byte{'\n'}), '\n')
}
