package adapter_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"innerd/events"
)

// largeTask is longer than what sockets take of an answer that nobody reads.
const largeTask = 6 << 20

// slowCallers is how many answers of that length may wait for callers that take
// them slowly.
const slowCallers = 2

// ended makes a run whose only message has so many bytes.
func (s *server) ended(t *testing.T, id string, bytes int) *fakeRun {
	t.Helper()
	res := s.do(t, http.MethodPost, "/message:stream", `{"messages":[{"role":"user","content":"x"}],"metadata":{"detach":true,"task_id":"`+id+`"}}`)
	run := <-s.fake.started
	run.end(t, events.Message{MessageID: "m", Content: strings.Repeat("x", bytes)})
	_ = res.Body.Close()
	return run
}

// asks asks for a path and reads nothing.
func (s *server) asks(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(128 << 10)
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
	return conn
}

// answers is a call whose answer is read at once: its bytes, when it is there.
func (s *server) answers(t *testing.T, method, path, body string) <-chan int {
	t.Helper()
	req := s.request(t, method, path, body)
	came := make(chan int, 1)
	go func() { // ends with its answer
		defer close(came)
		res, err := s.Client().Do(req)
		if err != nil {
			return
		}
		defer func() { _ = res.Body.Close() }()
		n, _ := io.Copy(io.Discard, res.Body)
		came <- int(n)
	}()
	return came
}

// Whole tasks that are large take turns with one another and with bodies; small
// ones, and whatever else is small, wait for nobody.
func TestLargeAnswersTakeTurns(t *testing.T) {
	for name, next := range map[string]struct{ method, path, body string }{
		"a task":             {http.MethodGet, "/tasks/large-two", ""},
		"a canceled one":     {http.MethodPost, "/tasks/large-on:cancel", `{}`},
		"with a large body":  {http.MethodPost, "/tasks/large-on:cancel", `{"reason":"` + strings.Repeat("x", largeText) + `"}`},
		"a run with a large": {http.MethodPost, "/message:send", largeRun("large-two")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scaled(t, soon)
			s.ended(t, "large-one", largeTask)
			s.ended(t, "small-one", 1000)
			if !strings.HasPrefix(next.body, `{"messages"`) {
				s.ended(t, "large-two", largeTask)
			}
			res := s.do(t, http.MethodPost, "/message:stream", `{"messages":[{"role":"user","content":"x"}],"metadata":{"detach":true,"task_id":"large-on"}}`)
			on := <-s.fake.started
			on.say(t, events.Message{MessageID: "m", Content: strings.Repeat("x", largeTask)})
			_ = res.Body.Close()
			first := s.asks(t, "/tasks/large-one")
			if _, err := first.Read(make([]byte, 1)); err != nil { // it has its turn
				t.Fatal(err)
			}
			came := s.answers(t, next.method, next.path, next.body)
			select {
			case n := <-came:
				t.Errorf("%d bytes came while another answer is in memory", n)
			case <-time.After(never):
			}
			if code, got := s.call(t, http.MethodGet, "/tasks/small-one", ""); code != http.StatusOK {
				t.Errorf("a small one meanwhile: %d %s", code, got)
			}
			_ = first.Close()
			if next.path == "/message:send" {
				(<-s.fake.started).end(t, events.Message{MessageID: "m", Content: strings.Repeat("x", largeTask)})
			}
			if n := <-came; n < largeTask {
				t.Errorf("then: %d bytes", n)
			}
		})
	}
}

// A caller that takes nothing of a large answer is hung up on, and holds the
// next ones up for no longer. On a busy machine one may look as if it took some,
// and then counts among the slow: there is room for two of those.
func TestWhoTakesNothingOfAnAnswerIsCut(t *testing.T) {
	t.Parallel()
	s := scaled(t, 500*time.Millisecond)
	s.ended(t, "large-one", largeTask)
	still := make([]net.Conn, slowCallers+2)
	for i := range still {
		still[i] = s.asks(t, "/tasks/large-one")
		if _, err := still[i].Read(make([]byte, 1)); err != nil { // its turn has come
			t.Fatal(err)
		}
	}
	if n := <-s.answers(t, http.MethodGet, "/tasks/large-one", ""); n < largeTask {
		t.Errorf("the next: %d bytes", n)
	}
	cut := 0
	for _, conn := range still {
		if n, _ := io.Copy(io.Discard, conn); n < largeTask {
			cut++
		}
	}
	if cut < len(still)-slowCallers {
		t.Errorf("%d of %d were cut", cut, len(still))
	}
}

// For callers that left while they waited nothing is made.
func TestNothingIsMadeForWhoLeft(t *testing.T) {
	t.Parallel()
	s := scaled(t, soon)
	run := s.ended(t, "large-one", largeTask)
	first := s.asks(t, "/tasks/large-one")
	if _, err := first.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 20)
	for range cap(left) {
		req := s.request(t, http.MethodGet, "/tasks/large-one", "").WithContext(ctx)
		go func() { // ends with the context
			res, err := s.Client().Do(req)
			if err == nil {
				_ = res.Body.Close()
			}
			left <- err
		}()
	}
	select {
	case err := <-left:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(never):
	}
	cancel()
	for range cap(left) {
		<-left
	}
	_ = first.Close()
	if n := <-s.answers(t, http.MethodGet, "/tasks/large-one", ""); n < largeTask {
		t.Errorf("who stayed: %d bytes", n)
	}
	// Some may have their turn before the server sees that they have left.
	if n := run.folds.Load(); n > 2+int64(cap(left))/2 {
		t.Errorf("it was folded %d times for two", n)
	}
}

// Who waits for a large answer when the server stops is told so.
func TestStoppingRefusesWhoWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	s := scaled(t, soon)
	s.ended(t, "large-one", largeTask)
	first := s.asks(t, "/tasks/large-one")
	if _, err := first.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	came := make(chan string, 1)
	req := s.request(t, http.MethodGet, "/tasks/large-one", "")
	go func() { // ends with its answer
		res, err := s.Client().Do(req)
		if err != nil {
			came <- err.Error()
			return
		}
		defer func() { _ = res.Body.Close() }()
		data, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
		came <- fmt.Sprint(res.StatusCode, string(data))
	}()
	select {
	case got := <-came:
		t.Fatalf("it did not wait: %.100s", got)
	case <-time.After(never):
	}
	s.adapter.Drain()
	if got := <-came; !strings.HasPrefix(got, "500") || !strings.Contains(got, `"shutdown"`) {
		t.Errorf("%.200s", got)
	}
}
