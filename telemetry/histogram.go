package telemetry

import (
	"sort"
	"sync"
	"time"
)

// Bounds of the histograms, in seconds: from a warm turn to one of a quarter of
// an hour.
var Bounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900}

// Histogram counts times by Bounds. The zero value is ready; its methods may
// be called at the same time.
type Histogram struct {
	mu     sync.Mutex
	counts [16]uint64 // the last one is above all bounds
	sum    float64
}

// Observe counts a time.
func (h *Histogram) Observe(d time.Duration) {
	s := d.Seconds()
	i := sort.SearchFloat64s(Bounds, s) // the first bound that is not below it
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[i]++
	h.sum += s
}

// Times is what a Histogram has counted.
type Times struct {
	Count   uint64
	Sum     float64            // seconds
	Buckets map[float64]uint64 // by bound, each with all below it
}

// Times gives what was counted.
func (h *Histogram) Times() Times {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := Times{Sum: h.sum, Buckets: make(map[float64]uint64, len(Bounds))}
	for i, n := range h.counts {
		t.Count += n
		if i < len(Bounds) {
			t.Buckets[Bounds[i]] = t.Count
		}
	}
	return t
}
