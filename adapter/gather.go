package adapter

import (
	"sync/atomic"
	"time"
)

const (
	// manyFlushes is how often a second all streams together may hand frames
	// to their connections, about, before they gather: each such write costs
	// the machine the same, whether it takes one frame or fifty.
	manyFlushes   = 20_000
	gatherWindow  = 100 * time.Millisecond // over which they are counted
	firstGather   = time.Millisecond
	longestGather = 50 * time.Millisecond
)

// gather is how long streams let frames gather after a flush: nothing, unless
// there are so many flushes that they would take the machine from the agents.
// Then it rises until there are about manyFlushes. Its methods may be called
// at the same time.
type gather struct {
	pause   atomic.Int64 // nanoseconds
	flushes atomic.Int64 // in this window
	began   atomic.Int64 // the window, Unix nanoseconds
}

// flushed counts a flush.
func (g *gather) flushed(now time.Time) {
	n := g.flushes.Add(1)
	began := g.began.Load()
	took := time.Duration(now.UnixNano() - began)
	if took < gatherWindow || !g.began.CompareAndSwap(began, now.UnixNano()) {
		return
	}
	g.flushes.Add(-n)
	g.pause.Store(int64(nextGather(time.Duration(g.pause.Load()), n, took)))
}

// nextGather is the pause after a window with n flushes.
func nextGather(pause time.Duration, n int64, took time.Duration) time.Duration {
	rate := float64(n) / took.Seconds()
	switch {
	case rate > manyFlushes:
		return min(max(2*pause, firstGather), longestGather)
	case rate > manyFlushes*2/3:
		return pause
	case took > 10*gatherWindow || pause <= firstGather:
		return 0
	}
	return pause * 3 / 4
}

// left is how long a stream still gathers that has flushed at a time.
func (g *gather) left(flushed time.Time) time.Duration {
	pause := time.Duration(g.pause.Load())
	if pause == 0 {
		return 0
	}
	return pause - time.Since(flushed)
}
