//go:build linux

package faults_test

import (
	"testing"

	"innerd/test/proxy"
	"innerd/test/server"
)

// network stands between readers and a server, wherever that is by now.
type network struct {
	*proxy.Proxy
	faults int
}

func newNetwork(t testing.TB, r *rig, all ...proxy.Fault) network {
	t.Helper()
	return network{proxy.New(t, func() string { return *r.addr.Load() }, all...), len(all)}
}

// allHappened fails the test where a fault did not come to pass.
func (n network) allHappened(t testing.TB) {
	t.Helper()
	// A connection may be over for the client before its fault is counted.
	server.Eventually(t, "every fault happened", func() bool { did, _ := n.Happened(); return did == n.faults })
}

// allSpoiled fails the test where a fault did not get its connection. It is for
// faults that happen to all of a connection, and are counted at its end, which
// clients that keep connections put off.
func (n network) allSpoiled(t testing.TB) {
	t.Helper()
	server.Eventually(t, "every connection was spoiled", func() bool { _, left := n.Happened(); return left == 0 })
}
