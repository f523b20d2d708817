package journal_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"innerd/events/journal"
)

// A long table is decoded in parts. All its lines come, in their order, also
// those that can't be read.
func TestLongTablesKeepTheirOrder(t *testing.T) {
	for _, n := range []int{0, 1, 2, 100, 5000, 20_000} {
		var data strings.Builder
		var want []string
		for i := range n {
			id := fmt.Sprintf("run-%d", i)
			line := fmt.Sprintf(`{"op":"begin","id":%q,"meta":{"id":%q,"prompt":%q}}`, id, id, strings.Repeat("x", rand.IntN(100)))
			if i%1000 == 7 {
				id, line = "", line[:len(line)/2]
			}
			want = append(want, id)
			data.WriteString(line + "\n")
		}
		if got := journal.DecodeLines([]byte(data.String())); !slices.Equal(got, want) {
			t.Errorf("of %d lines came %d, or in another order", n, len(got))
		}
	}
	// A single line that is longer than all parts.
	long := fmt.Sprintf(`{"op":"begin","id":"a","meta":{"id":"a","prompt":%q}}`, strings.Repeat("x", 1<<20))
	if got := journal.DecodeLines([]byte(long + "\n" + `{"op":"delete","id":"b"}` + "\n")); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q", got)
	}
}
