//go:build linux

package e2e_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter stands between a host and a server that may move, and cuts
// connections at given bytes of what the server says.
type cutter struct {
	ln     net.Listener
	target atomic.Pointer[string] // host:port of the server
	cuts   atomic.Int64           // connections that were cut so far

	mu     sync.Mutex
	limits []int64 // of the next connections; no more: none
	conns  map[net.Conn]bool
	wg     sync.WaitGroup
}

func newCutter(t testing.TB, limits ...int64) *cutter {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{ln: ln, limits: limits, conns: map[net.Conn]bool{}}
	c.wg.Go(c.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		c.mu.Lock()
		for conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) url() string { return "http://" + c.ln.Addr().String() }

// to points it at a server.
func (c *cutter) to(s *server) {
	addr := strings.TrimPrefix(s.url, "http://")
	c.target.Store(&addr)
}

func (c *cutter) accept() { // ends with the listener
	for {
		conn, err := c.ln.Accept()
		if err != nil {
			return
		}
		c.wg.Go(func() { c.serve(conn) })
	}
}

func (c *cutter) limit() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.limits) == 0 {
		return -1
	}
	n := c.limits[0]
	c.limits = c.limits[1:]
	return n
}

func (c *cutter) keep(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[conn] = true
}

func (c *cutter) drop(conn net.Conn) {
	c.mu.Lock()
	delete(c.conns, conn)
	c.mu.Unlock()
	_ = conn.Close()
}

func (c *cutter) serve(host net.Conn) {
	c.keep(host)
	defer c.drop(host)
	srv, err := net.Dial("tcp", *c.target.Load())
	if err != nil {
		return // the server is away
	}
	c.keep(srv)
	defer c.drop(srv)
	c.wg.Go(func() {
		_, _ = io.Copy(srv, host) // ends with either
		_ = srv.(*net.TCPConn).CloseWrite()
	})
	n := c.limit()
	if n < 0 {
		_, _ = io.Copy(host, srv)
		return
	}
	if _, err := io.CopyN(host, srv, n); err == nil {
		if c.cuts.Add(1)%2 == 0 {
			_ = host.(*net.TCPConn).SetLinger(0) // a reset instead of an end
		}
	}
}
