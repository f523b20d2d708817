package backends_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"innerd/backends"
)

// TestOverdue: late is called once, at the limit, not while what was said is
// being handled, and never after stop.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		var busy atomic.Bool
		begin := func() func() {
			return backends.Overdue(30*time.Second, busy.Load, func() { calls.Add(1) })
		}
		at := func(d time.Duration, want int64) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if n := calls.Swap(0); n != want {
				t.Errorf("called %d times, want %d", n, want)
			}
		}
		begin()
		at(29*time.Second, 0)
		at(2*time.Second, 1)
		at(time.Hour, 0)

		stop := begin()
		at(29*time.Second, 0)
		stop()
		at(time.Hour, 0)

		busy.Store(true)
		begin()
		at(100*time.Second, 0)
		busy.Store(false)
		at(30*time.Second, 1)
		at(time.Hour, 0)

		busy.Store(true)
		stop = begin()
		at(31*time.Second, 0)
		stop()
		busy.Store(false)
		at(time.Hour, 0)
	})
}
