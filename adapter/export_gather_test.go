package adapter

import (
	"math"
	"time"
)

// NextGather is nextGather, and LongestGather its bound.
var NextGather = nextGather

// Bounds of it.
const (
	ManyFlushes   = manyFlushes
	LongestGather = longestGather
)

// Gather lets all streams gather for so long, however few they are.
func (s *Server) Gather(d time.Duration) {
	s.gather.began.Store(math.MaxInt64) // this window never ends
	s.gather.pause.Store(int64(d))
}
