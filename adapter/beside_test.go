package adapter_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"innerd/adapter"
)

// beside is a listener of HTTP/2 whose handler reads bodies and says how much
// came.
type beside struct {
	*httptest.Server
	client *http.Client
}

func (s *server) beside(t *testing.T) *beside {
	t.Helper()
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	h := s.adapter.Beside(adapter.Mount{Prefix: "/beside", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if n != largeText || err != nil {
			w.WriteHeader(http.StatusTeapot)
		}
	})})
	b := &beside{Server: httptest.NewUnstartedServer(h), client: &http.Client{Transport: &http.Transport{Protocols: h2c}}}
	b.Config.Protocols = h2c
	b.Config.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10} // or all of a body is there before it is read
	b.Start()
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		b.CloseClientConnections()
		b.Close()
	})
	return b
}

// send sends a body and gives the answer's status, 0 for none.
func (b *beside) send(t *testing.T, body io.Reader, length int64, encoding string) <-chan int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL, io.NopCloser(body))
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = length
	if encoding != "" {
		req.Header.Set("Grpc-Encoding", encoding)
	}
	came := make(chan int, 1)
	go func() { // ends with the answer
		resp, err := b.client.Do(req)
		if err != nil {
			came <- 0
			return
		}
		_ = resp.Body.Close()
		came <- resp.StatusCode
	}()
	return came
}

// A body that waits for its turn for longer than one may be silent is read
// then: of HTTP/2 a deadline that passes meanwhile would be its end.
func TestBesideABodyMayWaitForLong(t *testing.T) {
	for name, length := range map[string]int64{"of a length": largeText, "of none": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scaled(t, time.Second)
			b := s.beside(t)
			// Each holds the scales for as long as one may be silent.
			first := s.sender(t, "/message:stream", largeRun("large-one"))
			first.asked(soon)
			second := s.sender(t, "/message:stream", largeRun("large-two"))
			if second.asked(never) {
				t.Fatal("it does not wait")
			}
			began := time.Now()
			code := <-b.send(t, strings.NewReader(strings.Repeat("x", largeText)), length, "")
			if code != http.StatusOK {
				t.Errorf("status %d after %v", code, time.Since(began))
			}
			second.asked(soon)
		})
	}
}

// A compressed body may be a large one when it is not long.
func TestBesideACompressedBodyTakesItsTurn(t *testing.T) {
	s := scaled(t, soon)
	b := s.beside(t)
	first := s.sender(t, "/message:stream", largeRun("large-one"))
	first.asked(soon)
	small := strings.Repeat("x", 64<<10)
	came := b.send(t, strings.NewReader(small), int64(len(small)), "gzip")
	if code := <-b.send(t, strings.NewReader(small), int64(len(small)), "identity"); code != http.StatusTeapot {
		t.Errorf("one that is not compressed: %d", code)
	}
	if code := <-b.send(t, strings.NewReader(small[:1000]), 1000, "gzip"); code != http.StatusTeapot {
		t.Errorf("one that cannot be large: %d", code)
	}
	select {
	case code := <-came:
		t.Fatalf("it came while another was read: %d", code)
	case <-time.After(never):
	}
	first.answer()
	if code := <-came; code != http.StatusTeapot {
		t.Errorf("then: %d", code)
	}
}

// A compressed body that came slowly counts again when it is there, whatever it
// was long: what it becomes is not known yet.
func TestBesideASlowCompressedBodyTakesItsTurn(t *testing.T) {
	s := scaled(t, 4*time.Second)
	b := s.beside(t)
	left := strings.Repeat("x", 64<<10)
	body, fill := io.Pipe()
	came := b.send(t, body, int64(len(left)), "gzip")
	give := func(n int) {
		if _, err := io.WriteString(fill, left[:n]); err != nil {
			t.Error(err)
		}
		left = left[n:]
	}
	give(2000) // it counts
	first := s.sender(t, "/message:stream", largeRun("large-one"))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // ends with the next one's turn
		defer close(stopped)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				give(1)
			}
		}
	}()
	first.asked(soon)
	close(stop)
	<-stopped
	give(len(left))
	_ = fill.Close()
	select {
	case code := <-came:
		t.Errorf("it came while another was read: %d", code)
	case <-time.After(never):
		first.answer()
		if code := <-came; code != http.StatusTeapot {
			t.Errorf("then: %d", code)
		}
	}
}
