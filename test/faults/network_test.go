//go:build linux

package faults_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// network stands between readers and a server, and spoils what the server
// says: each connection has a fault of its own.
type network struct {
	ln  net.Listener
	to  func() string // the server's URL
	wg  sync.WaitGroup
	mu  sync.Mutex
	all []fault // of the connections to come; after these none has one
	did int     // connections whose fault came to pass
	on  map[net.Conn]bool
}

// fault passes on what the server says, up to its end or for as long as it
// likes. It reports whether what it is for has happened, and whether the
// connection is then reset instead of closed.
type fault func(host io.Writer, srv io.Reader) (happened, reset bool)

func newNetwork(t testing.TB, r *rig, all ...fault) *network {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{ln: ln, to: func() string { return *r.addr.Load() }, all: all, on: map[net.Conn]bool{}}
	n.wg.Go(func() { // ends with the listener
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			n.wg.Go(func() { n.serve(c) }) // ends with the connection
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		n.mu.Lock()
		for c := range n.on {
			_ = c.Close()
		}
		n.mu.Unlock()
		n.wg.Wait()
	})
	return n
}

func (n *network) url() string { return "http://" + n.ln.Addr().String() }

// happened is how many faults have come to pass, and left how many are to come.
func (n *network) happened() (did, left int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.did, len(n.all)
}

func (n *network) next() fault {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.all) == 0 {
		return nil
	}
	f := n.all[0]
	n.all = n.all[1:]
	return f
}

func (n *network) keep(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.on[c] = true
}

func (n *network) drop(c net.Conn) {
	n.mu.Lock()
	delete(n.on, c)
	n.mu.Unlock()
	_ = c.Close()
}

func (n *network) serve(host net.Conn) {
	n.keep(host)
	defer n.drop(host)
	srv, err := net.Dial("tcp", strings.TrimPrefix(n.to(), "http://"))
	if err != nil {
		return // the server is away
	}
	n.keep(srv)
	defer n.drop(srv)
	n.wg.Go(func() { // ends with either
		_, _ = io.Copy(srv, host)
		_ = srv.(*net.TCPConn).CloseWrite()
	})
	f := n.next()
	if f == nil {
		_, _ = io.Copy(host, srv)
		return
	}
	happened, reset := f(host, srv)
	if happened {
		n.mu.Lock()
		n.did++
		n.mu.Unlock()
	}
	if reset {
		_ = host.(*net.TCPConn).SetLinger(0)
	}
}
