//go:build linux

package hosts_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// cutter stands between a host and the server, and cuts the first connections
// after so many bytes of what the server says; every second one by a reset.
type cutter struct {
	ln net.Listener
	to string
	wg sync.WaitGroup

	mu     sync.Mutex
	limits []int64
	cuts   int
	open   map[net.Conn]bool
}

func newCutter(t testing.TB, to string, limits ...int64) *cutter {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{ln: ln, to: strings.TrimPrefix(to, "http://"), limits: limits, open: map[net.Conn]bool{}}
	c.wg.Go(func() { // ends with the listener
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		c.mu.Lock()
		for conn := range c.open {
			_ = conn.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) url() string { return "http://" + c.ln.Addr().String() }

func (c *cutter) done() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

func (c *cutter) keep(conn net.Conn, open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if open {
		c.open[conn] = true
		return
	}
	delete(c.open, conn)
	_ = conn.Close()
}

func (c *cutter) limit() (n int64, cuts bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.limits) == 0 {
		return 0, false
	}
	n, c.limits = c.limits[0], c.limits[1:]
	return n, true
}

func (c *cutter) serve(host net.Conn) {
	c.keep(host, true)
	defer c.keep(host, false)
	srv, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	c.keep(srv, true)
	defer c.keep(srv, false)
	c.wg.Go(func() { // ends with either
		_, _ = io.Copy(srv, host)
		_ = srv.Close()
	})
	n, cuts := c.limit()
	if !cuts {
		_, _ = io.Copy(host, srv)
		return
	}
	if _, err := io.CopyN(host, srv, n); err != nil {
		return // the server was first
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cuts++; c.cuts%2 == 0 {
		_ = host.(*net.TCPConn).SetLinger(0)
	}
}
