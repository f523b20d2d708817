package adapter

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// LimitListener accepts no more than n connections at once; n < 1: any number.
// The next one waits in the kernel's backlog until one of them is closed: a
// refusal would cost some hosts minutes, a wait costs them nothing.
func LimitListener(l net.Listener, n int) net.Listener {
	if n < 1 {
		return l
	}
	return &limitListener{Listener: l, places: make(chan struct{}, n), closed: make(chan struct{})}
}

type limitListener struct {
	net.Listener
	places chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &limitedConn{Conn: c, free: sync.OnceFunc(func() { <-l.places })}, nil
}

// Close implements net.Listener.
func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	free func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// CloseWrite is for net/http, which ends an answer with it before it closes a
// connection whose caller still sends.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// NetConn is the connection itself, whose descriptor some look at.
func (c *limitedConn) NetConn() net.Conn { return c.Conn }

// rates limits the calls of each key. The zero value limits nothing.
type rates struct {
	perSecond float64
	mu        sync.Mutex
	owners    map[string]*bucket // as many as there are keys
}

// bucket holds what an owner has left; it fills up to its burst.
type bucket struct {
	left float64
	at   time.Time
}

// burstSeconds of calls may come at once.
const burstSeconds = 2

func newRates(perSecond int) *rates {
	return &rates{perSecond: float64(perSecond), owners: map[string]*bucket{}}
}

// take counts a call of an owner; wait is how long it comes too early.
func (r *rates) take(owner string, now time.Time) (wait time.Duration) {
	if r.perSecond <= 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	most := r.perSecond * burstSeconds
	b := r.owners[owner]
	if b == nil {
		b = &bucket{left: most, at: now}
		r.owners[owner] = b
	}
	b.left = min(most, b.left+now.Sub(b.at).Seconds()*r.perSecond)
	b.at = now
	if b.left < 1 {
		return time.Duration((1 - b.left) / r.perSecond * float64(time.Second))
	}
	b.left--
	return 0
}

// tooManyError is a call above the rate of its key.
type tooManyError struct{ wait time.Duration }

func (e *tooManyError) Error() string {
	return fmt.Sprintf("too many calls with this key; come back in %d s (--rate-limit)", e.seconds())
}

func (e *tooManyError) seconds() int { return max(1, int(math.Ceil(e.wait.Seconds()))) }

func (e *tooManyError) tell(h http.Header) { h.Set("Retry-After", strconv.Itoa(e.seconds())) }

// checkRate refuses a call above the rate of its key.
func (s *Server) checkRate(r *http.Request) error {
	if madeOf(r) {
		return nil
	}
	if wait := s.rates.take(Owner(r.Context()), time.Now()); wait > 0 {
		return &tooManyError{wait}
	}
	return nil
}

// madeOf reports whether a call is one of those that runs are made of: to start
// one, to follow it, to answer it, to cancel it. Hosts in the field give a server up for
// minutes that answers those with 429.
func madeOf(r *http.Request) bool {
	if probe(r.URL.Path) {
		return true
	}
	if r.Method != http.MethodPost {
		return strings.HasPrefix(r.URL.Path, "/tasks/") && strings.HasSuffix(r.URL.Path, "/events")
	}
	for _, p := range []string{"/message:", "/tools/", "/tasks/"} {
		if strings.HasPrefix(r.URL.Path, p) {
			return true
		}
	}
	return false
}
