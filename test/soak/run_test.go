//go:build linux

package soak_test

import (
	"math/rand/v2"
	"sync"

	"innerd/test/ledger"
)

// run is one that readers may find.
type run struct {
	id     string
	ledger *ledger.Ledger
	first  *ledger.Reader // of the POST

	floor   *floor
	readers int
	gone    bool          // no further reader may come
	empty   chan struct{} // closed when it is gone and the last reader has left
}

// floor is where the runs are that can be found: those that are on, and those
// that ended a moment ago.
type floor struct {
	mu   sync.Mutex
	runs []*run
}

func (f *floor) add(id string) *run {
	l := ledger.New()
	r := &run{id: id, ledger: l, first: l.Reader("the POST of " + id), floor: f, empty: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs = append(f.runs, r)
	return r
}

// pick finds a run for a reader, who must leave it. nil: there is none.
func (f *floor) pick() *run {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.runs) == 0 {
		return nil
	}
	r := f.runs[rand.IntN(len(f.runs))]
	r.readers++
	return r
}

// leave ends what pick began.
func (r *run) leave() {
	r.floor.mu.Lock()
	defer r.floor.mu.Unlock()
	r.readers--
	r.settleLocked()
}

// remove takes the run from the floor. Its channel tells when all have left.
func (r *run) remove() {
	r.floor.mu.Lock()
	defer r.floor.mu.Unlock()
	for i, other := range r.floor.runs {
		if other == r {
			r.floor.runs = append(r.floor.runs[:i:i], r.floor.runs[i+1:]...)
			break
		}
	}
	r.gone = true
	r.settleLocked()
}

func (r *run) settleLocked() {
	if r.gone && r.readers == 0 {
		close(r.empty)
	}
}
