//go:build linux || darwin

package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"
)

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

// A small heap may gather as much garbage as a few turns make, a larger one half
// of itself.
func TestGarbageFor(t *testing.T) {
	const mb = 1 << 20
	for live, want := range map[int64]int{0: 200, 3 * mb: 200, 4 * mb: 150, 6 * mb: 100, 12 * mb: 50, 300 * mb: 50} {
		if got := garbageFor(live); got != want {
			t.Errorf("%d MB live: %d %%, want %d %%", live/mb, got, want)
		}
	}
}

// What lives moves a little with each collection, which changes nothing, but
// never is a large heap left with what a smaller one was given.
func TestGarbageChangesWhereItMatters(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		percent    int
		live, want int64
	}{
		{200, 3 * mb, 200},
		{150, 4*mb + mb/4, 150},
		{60, 300 * mb, 50},
		{50, 3 * mb, 200},
	} {
		if got := nextGarbage(c.percent, c.live); int64(got) != c.want {
			t.Errorf("%d %%, then %d MB live: %d %%, want %d %%", c.percent, c.live/mb, got, c.want)
		}
	}
}

// Memory is given back once for each rest, and not in a pause.
func TestMemoryIsGivenBackAtRest(t *testing.T) {
	given := 0
	r := rest{giveUp: func() { given++ }}
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for _, step := range []struct {
		now, since int
		resting    bool
		given      int
	}{
		{60, 0, false, 0}, // at work, or nothing was ever done
		{69, 60, true, 0},
		{70, 60, true, 1},
		{600, 60, true, 1},
		{601, 60, false, 1},
		{610, 605, true, 1},
		{616, 605, true, 2},
	} {
		if r.look(at(step.now), at(step.since), step.resting); given != step.given {
			t.Errorf("after %d s given back %d times, not %d", step.now, given, step.given)
		}
	}
}

// What a pool holds outlives one collection: encoding/json keeps what it has
// written last, of any length.
func TestMemoryOfPoolsIsGivenBack(t *testing.T) {
	const size = 64 << 20
	runtime.GC()
	before := living()
	if _, err := json.Marshal(strings.Repeat("x", size)); err != nil {
		t.Fatal(err)
	}
	trim()
	if got := living() - before; got > size/2 {
		t.Errorf("%d MB are left", got>>20)
	}
}

// Where no profile can be asked for, none is kept.
func TestMemoryIsSampledForProfilesOnly(t *testing.T) {
	usual := runtime.MemProfileRate
	defer func() { runtime.MemProfileRate = usual }()
	if sampleMemory(true); runtime.MemProfileRate != usual {
		t.Errorf("with profiles a sample is taken every %d bytes, not every %d", runtime.MemProfileRate, usual)
	}
	if sampleMemory(false); runtime.MemProfileRate != 0 {
		t.Errorf("without profiles a sample is taken every %d bytes", runtime.MemProfileRate)
	}
}
