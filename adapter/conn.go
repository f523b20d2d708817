package adapter

import (
	"context"
	"net"
)

type connKey struct{}

// ConnContext is for the http.Server around the Handler. With it the adapter
// sees that a slow reader takes bytes while a write still waits: the kernel
// lets a write go on only when a third of its buffer, a megabyte and more, is
// free again.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if l, ok := c.(*limitedConn); ok {
		c = l.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// queueOf gives what the peer of a request has not taken yet; nil if nobody
// knows.
func queueOf(ctx context.Context) func() (int, bool) {
	c, ok := ctx.Value(connKey{}).(net.Conn)
	if !ok {
		return nil
	}
	return func() (int, bool) { return unsent(c) }
}

// hangUp ends a request's connection at once, also one on which a write waits:
// what its peer has not taken is lost.
func hangUp(ctx context.Context) {
	c, ok := ctx.Value(connKey{}).(net.Conn)
	if !ok {
		return
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // else the kernel holds what was not taken for minutes
	}
	_ = c.Close()
}
