package proc_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"

	"innerd/backends/internal/proc"
	"innerd/test/mutate"
)

func TestReadLinesSizes(t *testing.T) {
	for _, n := range []int{0, 1, 65535, 65536, 65537, 200_000, 3 << 20} {
		text := strings.Repeat("a", n) + "\n" + strings.Repeat("b", n) + "\nend"
		var got []string
		if err := proc.ReadLines(strings.NewReader(text), 0, func(b []byte) { got = append(got, string(b)) }, nil); err != nil {
			t.Fatal(err)
		}
		if strings.Join(got, "\n") != text {
			t.Errorf("%d: %d lines", n, len(got))
		}
	}
}

// Every line comes as it was written, but for those that are too long, and
// each of these is told once.
func FuzzReadLines(f *testing.F) {
	f.Add([]byte("a\n\nbc\nlonger than the limit\nd"), 5)
	f.Add([]byte("\x00\xff\r\n"), 1)
	f.Add(bytes.Repeat([]byte("0123456789"), 20_000), 150_000)
	for _, agent := range []string{"claude", "codex", "copilot"} {
		for _, said := range mutate.Printed(f, "../../../test/testdata/"+agent+"/*.jsonl", 6) {
			seed := mutate.Lines(said)
			f.Add(seed, len(seed))
			for bad := range mutate.Bytes(seed, 5) {
				f.Add(bad, 1000) // some of its lines are longer
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		if limit <= 0 {
			return
		}
		var want []string
		notices := 0
		all := bytes.Split(text, []byte{'\n'})
		for i, l := range all {
			switch {
			case i == len(all)-1 && len(l) == 0:
			case len(l) > limit:
				notices--
			default:
				want = append(want, string(l))
			}
		}
		var got []string
		err := proc.ReadLines(iotest.HalfReader(bytes.NewReader(text)), limit,
			func(b []byte) { got = append(got, string(b)) }, func(string) { notices++ })
		if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") || len(got) != len(want) || notices != 0 {
			t.Errorf("%d lines, want %d; notices off by %d; %v", len(got), len(want), notices, err)
		}
	})
}
