package adapter_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"innerd/adapter"
	"innerd/adapter/api"
	"innerd/events"
)

const largeText = 2 << 20 // of a large body; two of them are over the limit

// sender sends a request piece by piece: its body is asked for when the server
// reads it.
type sender struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	body string
}

func (s *server) sender(t *testing.T, path, body string) *sender {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", path, len(body))
	return &sender{t, conn, bufio.NewReader(conn), body}
}

// asked reports whether the server asks for the body within a time.
func (c *sender) asked(within time.Duration) bool {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(within))
	line, err := c.in.ReadString('\n')
	if err == nil {
		_, err = c.in.ReadString('\n') // the empty one
	}
	if err != nil && within >= soon {
		c.t.Fatalf("the body is not asked for: %q %v", line, err)
	}
	return err == nil && strings.Contains(line, "100 Continue")
}

// answer sends what is left of the body and gives the answer's status.
func (c *sender) answer() int {
	c.t.Helper()
	_, _ = io.WriteString(c.conn, c.body)
	_ = c.conn.SetReadDeadline(time.Now().Add(soon))
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode // its body may be a stream that lasts
}

const (
	soon  = time.Minute
	never = 300 * time.Millisecond // for what would come at once
)

func largeRun(id string) string {
	return `{"messages":[{"role":"user","content":"` + strings.Repeat("x", largeText) + `"}],"metadata":{"detach":true,"task_id":"` + id + `"}}`
}

// scaled is a server that takes one large body at a time.
func scaled(t *testing.T, progress time.Duration) *server {
	return serve(t, func(o *adapter.Options) {
		o.BodyLimit, o.ReadProgress = largeText*3/2, progress
		o.Mounts = []adapter.Mount{{Prefix: "/mounted", Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
		})}}
	})
}

// Of large bodies no more are read at once than the longest one may be long;
// the next waits, and the small ones do not.
func TestLargeBodiesTakeTurns(t *testing.T) {
	for name, next := range map[string]struct{ path, body string }{
		"a run":      {"/message:stream", largeRun("large-two")},
		"a result":   {"/tools/x/result", `{"result":"` + strings.Repeat("x", largeText) + `"}`},
		"of a mount": {"/mounted", strings.Repeat("x", largeText)},
		"no JSON":    {"/message:stream", strings.Repeat("x", largeText)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scaled(t, soon)
			first := s.sender(t, "/message:stream", largeRun("large-one"))
			first.asked(soon)
			second := s.sender(t, next.path, next.body)
			if second.asked(never) {
				t.Error("two large bodies are read at once")
			}
			if code, got := s.call(t, http.MethodPost, "/tools/x/result", `{"result":"small"}`); code != http.StatusOK {
				t.Errorf("a small body meanwhile: %d %s", code, got)
			}
			_ = second.conn.Close() // it holds nobody up
			second = s.sender(t, next.path, next.body)
			if code := first.answer(); code != http.StatusOK {
				t.Errorf("the first: %d", code)
			}
			second.asked(soon)
			second.answer()
			third := s.sender(t, "/message:stream", largeRun("large-three"))
			third.asked(soon)
			if code := third.answer(); code != http.StatusOK {
				t.Errorf("a third: %d", code)
			}
		})
	}
}

// chunked posts a body without its length, and gives the status of its answer; 0
// where none came.
func (s *server) chunked(t *testing.T, path, body string) <-chan int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, struct{ io.Reader }{strings.NewReader(body)})
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan int, 1)
	go func() { // ends with its answer
		defer close(came)
		res, err := s.Client().Do(req)
		if err != nil {
			return
		}
		_ = res.Body.Close()
		came <- res.StatusCode
	}()
	return came
}

// A body that does not say how long it is waits when it has become large.
func TestChunkedBodiesTakeTurns(t *testing.T) {
	s := scaled(t, soon)
	first := s.sender(t, "/message:stream", largeRun("large-one"))
	first.asked(soon)
	came := s.chunked(t, "/mounted", strings.Repeat("x", largeText))
	select {
	case code := <-came:
		t.Fatalf("it came while another was read: %d", code)
	case <-time.After(never):
	}
	first.answer()
	if code := <-came; code != http.StatusOK {
		t.Errorf("then: %d", code)
	}
}

// A small body that does not say how long it is waits for nobody, neither when
// it is read nor before its answer is made.
func TestSmallChunkedBodiesDoNotWait(t *testing.T) {
	s := scaled(t, soon)
	s.sender(t, "/message:stream", largeRun("large-one")).asked(soon)
	came := s.chunked(t, "/message:send", `{"messages":[{"role":"user","content":"x"}]}`)
	run := <-s.fake.started
	run.end(t, events.Message{MessageID: "m", Content: "x"})
	select {
	case code := <-came:
		if code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	case <-time.After(8 * time.Second): // a holder lets go after ten
		t.Error("its answer waits for a large body")
	}
}

// Who waits for its turn when the server stops is told so: nothing was begun.
func TestStoppingRefusesWhoWaits(t *testing.T) {
	s := scaled(t, soon)
	first := s.sender(t, "/message:stream", largeRun("large-one"))
	first.asked(soon)
	second := s.sender(t, "/message:stream", largeRun("large-two"))
	if second.asked(never) {
		t.Fatal("it does not wait")
	}
	s.adapter.Drain()
	_ = second.conn.SetReadDeadline(time.Now().Add(soon))
	res, err := http.ReadResponse(second.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	var said api.Error
	if err := json.NewDecoder(res.Body).Decode(&said); err != nil || res.StatusCode != http.StatusInternalServerError || said.ErrorType != api.ErrShutdown {
		t.Errorf("%d %+v, %v", res.StatusCode, said, err)
	}
	if code := first.answer(); code != http.StatusOK {
		t.Errorf("what was being read: %d", code)
	}
}

// A large body that comes slowly lets the next ones in.
func TestSlowLargeBodyHoldsNobodyUp(t *testing.T) {
	s := scaled(t, 2*time.Second) // without a byte; a busy machine may send none for long
	first := s.sender(t, "/message:stream", largeRun("large-one"))
	first.asked(soon)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // ends with the test
		defer close(stopped)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_, _ = io.WriteString(first.conn, first.body[:1])
				first.body = first.body[1:]
			}
		}
	}()
	second := s.sender(t, "/message:stream", largeRun("large-two"))
	second.asked(soon)
	if code := second.answer(); code != http.StatusOK {
		t.Errorf("the second: %d", code)
	}
	close(stop)
	<-stopped
	if code := first.answer(); code != http.StatusOK {
		t.Errorf("the slow one: %d", code)
	}
}

// When the last large request or answer was over is known, whatever became of it.
func TestLastLarge(t *testing.T) {
	s := serve(t, nil)
	s.call(t, http.MethodPost, "/message:send", `{`)
	if at := s.adapter.LastLarge(); !at.IsZero() {
		t.Errorf("a small one: %v", at)
	}
	began := time.Now()
	s.call(t, http.MethodPost, "/message:send", strings.Repeat("{", largeText))
	if at := s.adapter.LastLarge(); at.Before(began) {
		t.Errorf("a large one: %v", at)
	}
}

// A stream and the answer of a mount count as others do.
func TestLastLargeAnswer(t *testing.T) {
	s := serve(t, func(o *adapter.Options) {
		o.Mounts = []adapter.Mount{{Prefix: "/mounted", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, largeText))
		})}}
	})
	began := time.Now()
	s.call(t, http.MethodGet, "/mounted", "")
	if at := s.adapter.LastLarge(); at.Before(began) {
		t.Errorf("the answer of a mount: %v", at)
	}
	began = time.Now()
	r := s.stream(t, http.MethodPost, "/message:stream", `{"messages":[{"role":"user","content":"x"}]}`)
	run := <-s.fake.started
	text := strings.Repeat("x", largeText)
	run.say(t, events.MessageDelta{MessageID: "m", Delta: text})
	run.end(t, events.Message{MessageID: "m", Content: text})
	r.finish()
	waitFor(t, func() bool { return s.adapter.LastLarge().After(began) }) // its handler may still return
}
