// Package mutate makes bad input of good: what fuzz tests try in seconds, in
// every ordinary run of the tests, beside the hours that go test -fuzz has.
package mutate

import (
	"bytes"
	"hash/fnv"
	"iter"
	"math/rand/v2"
)

// pieces are what parsers stumble over.
var pieces = []string{
	"null", "{}", "[]", `""`, "true", "-1", "1e999", "9223372036854775808", `"\ud800"`, "\x00", "\xff", "\u2028", "\n", "\r\n", "\n\n", ",", ":", "{", "}", "[", "]", `"`, `\`,
	"0", " ", `{"type":"x"}`, "\ufeff", "id: 1\n", "data: ", "Content-Length: 9\r\n\r\n",
}

// Bytes gives n inputs that were made of a seed, the same ones each time.
func Bytes(seed []byte, n int) iter.Seq[[]byte] {
	h := fnv.New64a()
	_, _ = h.Write(seed)
	r := rand.New(rand.NewPCG(h.Sum64(), 1)) //nolint:gosec // the same each time is what is wanted
	return func(yield func([]byte) bool) {
		for range n {
			b := bytes.Clone(seed)
			for range 1 + r.IntN(4) {
				b = once(r, b)
			}
			if !yield(b) {
				return
			}
		}
	}
}

// once changes one thing.
func once(r *rand.Rand, b []byte) []byte {
	if len(b) == 0 {
		return []byte(pieces[r.IntN(len(pieces))])
	}
	at := r.IntN(len(b))
	end := min(len(b), at+1+r.IntN(1+r.IntN(64)))
	switch r.IntN(7) {
	case 0: // a bit
		b[at] ^= 1 << r.IntN(8)
	case 1: // a cut
		b = b[:at]
	case 2: // a hole
		b = append(b[:at:at], b[end:]...)
	case 3: // something twice
		b = append(b[:end:end], b[at:]...)
	case 4: // something put in
		b = append(append(b[:at:at], pieces[r.IntN(len(pieces))]...), b[at:]...)
	case 5: // something in another's place
		b = append(append(b[:at:at], pieces[r.IntN(len(pieces))]...), b[end:]...)
	case 6: // something moved
		to := r.IntN(len(b))
		part := bytes.Clone(b[at:end])
		rest := append(b[:at:at], b[end:]...)
		to = min(to, len(rest))
		b = append(append(rest[:to:to], part...), rest[to:]...)
	}
	return b
}
