//go:build linux

package soak_test

import (
	"testing"
	"time"

	"innerd/test/server"
)

// What a flood leaves in a server that has come to rest.
const (
	floodTakes = 30e6 // bytes, at least: else there is nothing to give back
	floodStays = 6e6  // bytes, at most, over what it had before its first run
)

// A server that rests gives back what only its work needed, memory of its own
// and pages of its program, by itself and soon, not when others press for it.
func TestRestGivesMemoryBack(t *testing.T) {
	t.Parallel()
	s := server.New(t, binary)
	s.Start()
	before, err := look(s.Pid())
	if err != nil {
		t.Fatal(err)
	}
	f := load{runs: 8, perSecond: 6000, readers: 3, lasts: 3 * time.Second}.play(t, s)
	if f.anon < before.anon+floodTakes {
		t.Errorf("the flood took %.1f MB, it had %.1f", mb(f.anon), mb(before.anon))
	}
	var after vitals
	defer func() {
		t.Logf("its own: %.1f MB before, %.1f at the most, %.1f at rest; of its program: %.1f at the most, %.1f at rest",
			mb(before.anon), mb(f.anon), mb(after.anon), mb(f.file), mb(after.file))
	}()
	// Not longer: after two minutes the runtime collects by itself.
	within(t, time.Minute, "it gives back what it does not need", func() bool {
		after, err = look(s.Pid())
		return err == nil && after.anon <= before.anon+floodStays && after.file <= f.file/2
	})
}
