package adapter_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/adapter"
	"innerd/adapter/api"
)

// placed is a server on a listener of places.
func placed(t *testing.T, p *adapter.Places) *httptest.Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: p.Listener(l), Config: &http.Server{
		ConnState: adapter.ConnState,
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.URL.Path) }),
	}}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// ask sends a request over a connection of its own, which stays open.
func ask(t *testing.T, srv *httptest.Server, path string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	return c
}

func answerOf(t *testing.T, c net.Conn) string {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	return fmt.Sprint(res.StatusCode, " ", string(body))
}

// A connection above the limit, which all listeners share, is neither refused
// nor answered: it is served when another one ends.
func TestConnectionsOverTheLimitWait(t *testing.T) {
	p := adapter.NewPlaces(1, 9)
	one, two := placed(t, p), placed(t, p)
	var conns []net.Conn
	for i := range 9 {
		srv := one
		if i%2 == 1 {
			srv = two
		}
		conns = append(conns, ask(t, srv, fmt.Sprint("/", i)))
		if got := answerOf(t, conns[i]); got != fmt.Sprint("200 /", i) {
			t.Error(got)
		}
	}
	if n := p.Connections(); n != 9 {
		t.Errorf("%d connections", n)
	}
	for _, srv := range []*httptest.Server{one, two} {
		late := ask(t, srv, "/late")
		_ = late.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if n, err := late.Read(make([]byte, 1)); n != 0 || !strings.Contains(fmt.Sprint(err), "timeout") {
			t.Errorf("a tenth connection got %d bytes, %v", n, err)
		}
		_ = conns[0].Close()
		conns = conns[1:]
		if got := answerOf(t, late); got != "200 /late" {
			t.Error(got)
		}
	}
}

// A connection that has been idle for long makes room for another one.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	p := adapter.NewPlaces(1, 9)
	srv := placed(t, p)
	for i := range 9 {
		answerOf(t, ask(t, srv, fmt.Sprint("/", i)))
	}
	late := ask(t, srv, "/late")
	_ = late.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := late.Read(make([]byte, 1)); n != 0 || !strings.Contains(fmt.Sprint(err), "timeout") {
		t.Errorf("a tenth connection got %d bytes, %v", n, err)
	}
	p.Age(time.Minute)
	if got := answerOf(t, late); got != "200 /late" {
		t.Error(got)
	}
	if n := p.Connections(); n != 9 {
		t.Errorf("%d connections", n)
	}
}

// A listener with a quarter keeps nobody else from the rest, whatever comes to
// it; its next connection is served when one of its own ends.
func TestAQuarterOfTheConnections(t *testing.T) {
	p := adapter.NewPlaces(1, 12)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	quarter := p.Quarter(l)
	accepted := make(chan net.Conn, 12)
	done := make(chan struct{})
	go func() { // ends when the listener is closed
		defer close(done)
		for {
			c, err := quarter.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	t.Cleanup(func() { _ = quarter.Close(); <-done })
	for range 12 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	var held []net.Conn
	for range 3 {
		held = append(held, <-accepted)
	}
	srv := placed(t, p)
	for i := range 9 {
		if got := answerOf(t, ask(t, srv, fmt.Sprint("/", i))); got != fmt.Sprint("200 /", i) {
			t.Error(got)
		}
	}
	select {
	case <-accepted:
		t.Error("a fourth connection of twelve was accepted")
	default:
	}
	_ = held[0].Close()
	held[0] = <-accepted
	for _, c := range held {
		_ = c.Close()
	}
}

// Who waits for a place gets it in the order of coming; too many do not wait.
func TestHold(t *testing.T) {
	p := adapter.NewPlaces(1, 9) // four may wait
	leave, err := p.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type turn struct {
		who   int
		leave func()
	}
	turns := make(chan turn)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			leave, err := p.Hold(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			turns <- turn{i, leave}
		})
		waitFor(t, func() bool { return p.Waiting() == i+1 })
	}
	if _, err := p.Hold(t.Context()); err == nil || !strings.Contains(err.Error(), "--max-connections") {
		t.Errorf("a fifth one that waits: %v", err)
	}
	leave()
	leave() // gives nothing back again
	for i := range 4 {
		got := <-turns
		if i == 0 { // the others wait in order
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("gone"))
			if _, err := p.Hold(ctx); err == nil || err.Error() != "gone" {
				t.Errorf("a caller that is gone: %v", err)
			}
		}
		got.leave()
	}
	wg.Wait()
	if n := p.Waiting(); n != 0 {
		t.Errorf("%d wait", n)
	}
	var none *adapter.Places
	if leave, err := none.Hold(t.Context()); err != nil || none.Waiting()+none.Connections() != 0 {
		t.Error(err)
	} else {
		leave()
	}
}

// waitFor waits for what another goroutine does.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come about")
		}
	}
}

// Streams that take all their places, and all places to wait, keep no other
// call from its answer; one more is told what to do, and starts no run. Who
// hangs up while it waits starts none either.
func TestStreamsTakeOnlyTheirPlaces(t *testing.T) {
	p := adapter.NewPlaces(1, 9)
	s := serve(t, func(o *adapter.Options) { o.Places = p })
	leave, err := p.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"messages":[{"role":"user","content":"hello"}]}`
	dial := func() net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(c, "POST /message:send HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return c
	}
	gone := dial()
	waitFor(t, func() bool { return p.Waiting() == 1 })
	results := make(chan int, 3)
	for range 3 {
		before := p.Waiting()
		go func() { // ends with its answer
			code, _ := s.call(t, http.MethodPost, "/message:stream", body)
			results <- code
		}()
		waitFor(t, func() bool { return p.Waiting() > before })
	}
	for _, path := range []string{"/message:stream", "/message:send"} {
		s.fails(t, http.MethodPost, path, body, http.StatusInternalServerError, api.ErrInternal, "--max-connections")
	}
	if code, got := s.call(t, http.MethodGet, "/health", ""); code != http.StatusOK {
		t.Errorf("/health: %d %s", code, got)
	}
	if code, got := s.call(t, http.MethodGet, "/tasks", ""); code != http.StatusOK {
		t.Errorf("/tasks: %d %s", code, got)
	}
	_ = gone.Close()
	waitFor(t, func() bool { return p.Waiting() == 3 }) // its place to wait is another's again
	if n := len(s.fake.started); n != 0 {
		t.Errorf("%d runs began while nobody had a place", n)
	}
	leave()
	for range 3 {
		(<-s.fake.started).end(t)
		if code := <-results; code != http.StatusOK {
			t.Errorf("a stream that waited: %d", code)
		}
	}
	if n := len(s.fake.started); n != 0 {
		t.Errorf("%d runs more began, of a host that is gone", n)
	}
}
