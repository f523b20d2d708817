package backends

import (
	"sync/atomic"
	"time"
)

// Overdue calls late on a goroutine of its own, which ends with it, unless stop
// is called within limit. Where busy reports at its end that something the agent
// has said is still being handled, by a log that waits for its disk say, the
// answer may stand behind it: the time begins anew. After stop late is not begun
// any more; both stop and late may be called at any time.
func Overdue(limit time.Duration, busy func() bool, late func()) (stop func()) {
	var over atomic.Bool
	var look func()
	look = func() {
		switch {
		case over.Load():
		case busy():
			time.AfterFunc(limit, look)
		case over.CompareAndSwap(false, true):
			late()
		}
	}
	timer := time.AfterFunc(limit, look)
	return func() {
		over.Store(true)
		timer.Stop()
	}
}
