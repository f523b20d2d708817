//go:build linux

package faults_test

import (
	"testing"

	"innerd/test/proxy"
	"innerd/test/server"
)

// network stands between readers and a server, wherever that is by now.
type network struct{ *proxy.Proxy }

func newNetwork(t testing.TB, r *rig, all ...proxy.Fault) network {
	t.Helper()
	return network{proxy.New(t, func() string { return *r.addr.Load() }, all...)}
}

// allHappened fails the test where a fault did not come to pass.
func (n network) allHappened(t testing.TB) {
	t.Helper()
	// A connection is over for the client before its fault is counted.
	server.Eventually(t, "every connection was spoiled", func() bool { _, left := n.Happened(); return left == 0 })
}
