package modelstub

import "sync"

// A Gate holds a stream until a test lets it go on. One gate may stand in
// several places; once released it is open everywhere.
type Gate struct {
	reached, released chan struct{}
	reach, release    sync.Once
}

// NewGate makes a closed gate.
func NewGate() *Gate {
	return &Gate{reached: make(chan struct{}), released: make(chan struct{})}
}

// Reached is closed when a stream first stands at the gate: everything before
// it has been written to the client's connection.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Release opens the gate for good. It may be called at any time, repeatedly.
func (g *Gate) Release() { g.release.Do(func() { close(g.released) }) }

func (g *Gate) arrive() { g.reach.Do(func() { close(g.reached) }) }
