package adapter

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Places is how many connections a server has at once, over all its listeners,
// and how many of them may be held by answers that last: streams, and calls
// that wait for the end of a run. Such a call above its share waits, before its
// body is read, and another one is not kept from its answer: what a stream
// waits for, a tool's result or a permission, comes over a connection of its
// own, so streams may never take the last one. Its methods may be called at the
// same time; a nil *Places limits nothing.
type Places struct {
	total   int           // connections
	waiting atomic.Int64  // calls that wait to be held
	most    int64         // of them
	held    chan struct{} // a place each; who waits is served in the order of coming

	mu    sync.Mutex
	conns map[*limitedConn]struct{}
	freed chan struct{} // closed when a connection is
}

const (
	// idleEnough is how long nothing came over a connection that may be closed
	// for another one. Clients that close idle ones themselves do after 5 s.
	idleEnough = 6 * time.Second
	// lookAgain is how often a listener without a place looks for an idle
	// connection.
	lookAgain = 500 * time.Millisecond
	// stillThere is how often a caller that waits is asked whether it is there.
	stillThere = time.Second
	// spareAtLeast is how many places there are for calls that do not last.
	spareAtLeast = 4
)

// NewPlaces has places for so many answers that last, among so many
// connections. At least 8 connections more than those are allowed; half of what
// is more, at least 4, stays for calls that do not last.
func NewPlaces(held, connections int) *Places {
	held = max(1, held)
	connections = max(connections, held+2*spareAtLeast)
	spare := connections - held
	return &Places{
		total: connections, held: make(chan struct{}, held), most: int64(spare - max(spareAtLeast, spare/2)),
		conns: map[*limitedConn]struct{}{}, freed: make(chan struct{}),
	}
}

// errNoPlace is a call that would last where even the places to wait are taken.
var errNoPlace = errors.New("all streams that this server serves at once are taken, and so are the places to wait for one; try again later, or raise --max-connections")

// errHungUp is a caller that left while it waited.
var errHungUp = errors.New("the caller has hung up")

// Hold waits for the place of an answer that lasts. It fails with the cause of
// ctx, when the caller has hung up, or at once where too many wait; leave gives
// the place back, once.
func (p *Places) Hold(ctx context.Context) (leave func(), err error) {
	if leave, ok := p.try(); ok {
		return leave, nil
	}
	defer p.waiting.Add(-1)
	if p.waiting.Add(1) > p.most {
		return nil, errNoPlace
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { untilHungUp(ctx, cancel) }) // ends with ctx; who asked itself would lose its turn each time
	defer watch.Wait()
	defer cancel(nil)
	select {
	case p.held <- struct{}{}:
		return sync.OnceFunc(func() { <-p.held }), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// untilHungUp cancels when the caller has hung up: net/http does not see it as
// long as the body of its request is not read.
func untilHungUp(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(stillThere)
	defer tick.Stop()
	for !hungUp(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	cancel(errHungUp)
}

// try is Hold where nothing needs to be waited for.
func (p *Places) try() (leave func(), ok bool) {
	if p == nil {
		return func() {}, true
	}
	select {
	case p.held <- struct{}{}:
		return sync.OnceFunc(func() { <-p.held }), true
	default:
		return nil, false
	}
}

// Waiting is how many calls wait in Hold.
func (p *Places) Waiting() int {
	if p == nil {
		return 0
	}
	return int(p.waiting.Load())
}

// Connections is how many there are.
func (p *Places) Connections() int {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// scarce reports whether a connection should not be kept for a next request.
func (p *Places) scarce() bool { return p != nil && 4*p.Connections() >= 3*p.total }

// Listener accepts connections while there are places. The next one waits, and
// those after it in the kernel's backlog: a refusal would cost some hosts
// minutes, a wait costs them nothing. Give the http.Server around it ConnState.
func (p *Places) Listener(l net.Listener) net.Listener {
	if p == nil {
		return l
	}
	return &limitListener{Listener: l, places: p, most: p.total, closed: make(chan struct{})}
}

// Quarter is Listener for a server that does not tell which connections are
// idle: since none of them makes room for others, they never have more than a
// quarter of all places.
func (p *Places) Quarter(l net.Listener) net.Listener {
	if p == nil {
		return l
	}
	return &limitListener{Listener: l, places: p, most: max(1, p.total/4), closed: make(chan struct{})}
}

type limitListener struct {
	net.Listener
	places *Places
	most   int // connections of its own
	has    int // of them, guarded by places.mu
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	lc := &limitedConn{Conn: c, places: l.places, from: l}
	for {
		freed, ok := l.places.add(lc)
		if ok {
			return lc, nil
		}
		timer := time.NewTimer(lookAgain)
		select {
		case <-freed:
		case <-timer.C:
		case <-l.closed:
			timer.Stop()
			_ = c.Close()
			return nil, net.ErrClosed
		}
		timer.Stop()
	}
}

// Close implements net.Listener.
func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// add gives a connection a place, if need be that of one that is idle; else it
// says what to wait for.
func (p *Places) add(c *limitedConn) (freed <-chan struct{}, ok bool) {
	p.mu.Lock()
	short := len(p.conns) >= p.total
	full := short || c.from.has >= c.from.most
	if !full {
		p.conns[c] = struct{}{}
		c.from.has++
	}
	freed = p.freed
	var rests *limitedConn
	if short && (c.from.has < c.from.most || c.from.most == p.total) { // or it would gain nothing
		rests = p.idleLocked(time.Now().Add(-idleEnough))
	}
	p.mu.Unlock()
	if rests != nil {
		_ = rests.Close()
	}
	return freed, !full
}

// idleLocked is the connection that has been idle longest, since before a time.
// It is chosen for good: one on which a request came meanwhile is none.
func (p *Places) idleLocked(before time.Time) *limitedConn {
	for {
		var found *limitedConn
		since := before.UnixNano()
		for c := range p.conns {
			if at := c.idle.Load(); at > 0 && at < since {
				found, since = c, at
			}
		}
		if found == nil || found.idle.CompareAndSwap(since, chosen) {
			return found
		}
	}
}

func (p *Places) remove(c *limitedConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.conns[c]; !ok {
		return
	}
	delete(p.conns, c)
	c.from.has--
	close(p.freed)
	p.freed = make(chan struct{})
}

// ConnState is for the http.Server around a Handler: it tells which of its
// connections are idle.
func ConnState(c net.Conn, state http.ConnState) {
	l, ok := c.(*limitedConn)
	if !ok {
		return
	}
	since := int64(0)
	if state == http.StateIdle {
		since = time.Now().UnixNano()
	}
	for at := l.idle.Load(); at != chosen && !l.idle.CompareAndSwap(at, since); at = l.idle.Load() {
	}
}

// chosen is a connection that is being closed for another one.
const chosen = -1

// limitedConn is a connection that has a place.
type limitedConn struct {
	net.Conn
	places *Places
	from   *limitListener
	idle   atomic.Int64 // since when, Unix nanoseconds; 0: it is not; or chosen
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.places.remove(c)
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

// hold waits for the place of an answer that lasts, before the request's body
// is read. A caller that hangs up meanwhile starts nothing.
func (s *Server) hold(r *http.Request) (leave func(), err error) {
	if leave, ok := s.opt.Places.try(); ok {
		return leave, nil
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	leave, err = s.opt.Places.Hold(ctx)
	if s.ctx.Err() != nil {
		if err == nil {
			leave()
		}
		panic(http.ErrAbortHandler)
	}
	if err == nil && hungUp(r.Context()) {
		leave()
		err = errHungUp
	}
	if errors.Is(err, errHungUp) {
		panic(http.ErrAbortHandler) // nobody is there to read it
	}
	return leave, err
}
