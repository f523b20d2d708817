//go:build linux || darwin

package main

import "testing"

// A small server has a small limit, a busy one a quarter more than lives, and
// none more than its part of the machine.
func TestMemoryFor(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct{ live, most, want int64 }{
		{0, 6000 * mb, 184 * mb},
		{100 * mb, 6000 * mb, 184 * mb},
		{300 * mb, 6000 * mb, 375 * mb},
		{300 * mb, 256 * mb, 256 * mb},
	} {
		if got := memoryFor(c.live, c.most); got != c.want {
			t.Errorf("%d MB live, at most %d: %d", c.live/mb, c.most/mb, got/mb)
		}
	}
}
