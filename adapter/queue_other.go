//go:build !linux

package adapter

import "net"

// unsent is not known here: a write that returns is the only progress.
func unsent(net.Conn) (n int, ok bool) { return 0, false }
