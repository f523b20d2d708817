// Package proxy stands between clients and a server, for tests, and spoils
// what the server says: each connection has a fault of its own. Or it spoils
// nothing, and compares what is said with docs/openapi.json.
package proxy

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Fault is what happens to one connection. The zero one swallows the request:
// the connection is closed, and the server hears nothing of it.
type Fault struct {
	// Pass passes on what the server says, up to its end or for as long as it
	// likes. It reports whether what it is for has happened, and whether the
	// connection is then reset instead of closed.
	Pass func(client io.Writer, server io.Reader) (happened, reset bool)
}

// After cuts a connection after so many bytes of the server's.
func After(bytes int64, reset bool) Fault {
	return Fault{func(client io.Writer, server io.Reader) (bool, bool) {
		_, err := io.CopyN(client, server, bytes)
		return err == nil, reset && err == nil // else the server was first
	}}
}

// Cuts are connections that are cut after so many bytes each, every second one
// by a reset.
func Cuts(bytes ...int64) (all []Fault) {
	for i, n := range bytes {
		all = append(all, After(n, i%2 == 1))
	}
	return all
}

// Proxy listens on 127.0.0.1. Its methods may be called at the same time.
type Proxy struct {
	ln  net.Listener
	to  func() string
	wg  sync.WaitGroup
	mu  sync.Mutex
	all []Fault // of the connections to come; after these none has one
	did int     // connections whose fault came to pass
	on  map[net.Conn]bool

	listen *listener // nil: nobody listens
}

// New makes a proxy, which ends with the test. to gives the server's URL, at
// each connection: it may move, and be away.
func New(t testing.TB, to func() string, faults ...Fault) *Proxy {
	t.Helper()
	p := &Proxy{to: to, all: faults}
	p.start(t)
	return p
}

func (p *Proxy) start(t testing.TB) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.ln, p.on = ln, map[net.Conn]bool{}
	p.wg.Go(func() { // ends with the listener
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) }) // ends with the connection
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		p.mu.Lock()
		for c := range p.on {
			_ = c.Close()
		}
		p.on = nil // those that come now are closed at once
		p.mu.Unlock()
		p.wg.Wait()
		if p.listen != nil {
			p.listen.tell(t)
		}
	})
}

// URL is where clients find the server behind it.
func (p *Proxy) URL() string { return "http://" + p.ln.Addr().String() }

// Happened is how many faults have come to pass, and how many connections are
// still to be spoiled. A fault is counted before its connection is closed, but a
// client that needs no more of it may be done with it before.
func (p *Proxy) Happened() (did, left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.did, len(p.all)
}

func (p *Proxy) next() (f Fault, spoiled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) == 0 {
		return f, false
	}
	f, p.all = p.all[0], p.all[1:]
	return f, true
}

// keep has a connection closed at the end of the test, or at once after it.
func (p *Proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.on == nil {
		_ = c.Close()
		return
	}
	p.on[c] = true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	delete(p.on, c)
	p.mu.Unlock()
	_ = c.Close()
}

func (p *Proxy) serve(client net.Conn) {
	p.keep(client)
	defer p.drop(client)
	srv, err := net.Dial("tcp", strings.TrimPrefix(p.to(), "http://"))
	if err != nil {
		return // the server is away: that spoils nothing
	}
	p.keep(srv)
	defer p.drop(srv)
	f, spoiled := p.next()
	if spoiled && f.Pass == nil {
		p.count()
		return
	}
	fromClient, fromServer, over := p.listen.to(client, srv)
	defer over()
	p.wg.Go(func() { // ends with either
		if _, err := io.Copy(srv, fromClient); errors.Is(err, syscall.ECONNRESET) {
			_ = srv.(*net.TCPConn).SetLinger(0)
			_ = srv.Close()
			return
		}
		_ = srv.(*net.TCPConn).CloseWrite()
	})
	if !spoiled {
		if _, err := io.Copy(client, fromServer); errors.Is(err, syscall.ECONNRESET) {
			_ = client.(*net.TCPConn).SetLinger(0) // as it was reset itself
		}
		return
	}
	happened, reset := f.Pass(client, fromServer)
	if happened {
		p.count()
	}
	if reset {
		_ = client.(*net.TCPConn).SetLinger(0)
	}
}

func (p *Proxy) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.did++
}
