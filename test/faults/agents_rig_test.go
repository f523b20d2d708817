//go:build linux

package faults_test

import "testing"

// For is the same rig for a part of the test: what is found wrong is that part's.
func (r *rig) For(t testing.TB) *rig {
	part := &rig{Server: r.Server.For(t)}
	part.addr.Store(r.addr.Load())
	return part
}
