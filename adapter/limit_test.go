package adapter_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"innerd/adapter"
)

// A key's calls have a rate; those that runs are made of have none, whatever
// it is, and another key has its own.
func TestRateOfAKey(t *testing.T) {
	s := serve(t, func(o *adapter.Options) {
		o.Open, o.Keys, o.RateLimit = false, []adapter.Key{adapter.NewKey("a", "secret-a"), adapter.NewKey("b", "secret-b")}, 1
	})
	s.key = "secret-a"
	refused := 0
	for i := 0; i < 50 && refused < 2; i++ { // a slow machine may have filled up again
		res := s.do(t, http.MethodGet, "/tasks", "")
		body, _ := io.ReadAll(res.Body)
		switch {
		case res.StatusCode == http.StatusOK:
		case res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" || !strings.Contains(string(body), `"error_type":"rate_limit"`):
			t.Errorf("%d %v %s", res.StatusCode, res.Header, body)
		default:
			refused++
		}
	}
	if refused < 2 {
		t.Errorf("%d of 50 calls one after another were refused", refused)
	}
	for range 20 {
		for path, body := range map[string]string{
			"/message:send": `{"metadata":7}`, "/message:stream": `{`, "/tools/x/result": `{"result":""}`, "/tasks/none:cancel": ``, "/tasks/none/requests/r": `{}`,
		} {
			if code, got := s.call(t, http.MethodPost, path, body); code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
				t.Fatalf("%s: %d %s", path, code, got)
			}
		}
		if code, got := s.call(t, http.MethodGet, "/tasks/none/events", ""); code != http.StatusNotFound {
			t.Fatalf("a stream that is resumed: %d %s", code, got)
		}
		if code, got := s.call(t, http.MethodGet, "/health", ""); code != http.StatusOK {
			t.Fatalf("/health: %d %s", code, got)
		}
	}
	s.key = "secret-b"
	if code, got := s.call(t, http.MethodGet, "/tasks", ""); code != http.StatusOK {
		t.Errorf("another key: %d %s", code, got)
	}
}

// A body that nobody wants to read, and one that comes a byte now and then, do
// not hold their connection.
func TestBodiesThatDrip(t *testing.T) {
	s := serve(t, func(o *adapter.Options) {
		o.Open, o.Keys, o.ReadProgress = false, []adapter.Key{adapter.NewKey("a", "secret-a")}, 200*time.Millisecond
		o.Mounts = []adapter.Mount{{Prefix: "/mounted", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			_, _ = fmt.Fprint(w, err)
		})}}
	})
	for name, c := range map[string]struct {
		head string
		drip bool
	}{
		"refused, silent": {"POST /message:send HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n", false},
		"read, dripping":  {"POST /message:send HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-a\r\nContent-Length: 1000000\r\n\r\n", true},
		"chunked":         {"POST /message:send HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-a\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n", true},
		"of another room": {"POST /mounted HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-a\r\nContent-Length: 1000000\r\n\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, c.head)
			stop := make(chan struct{})
			defer close(stop)
			go func() { // ends with the test
				tick := time.NewTicker(20 * time.Millisecond)
				defer tick.Stop()
				for c.drip {
					select {
					case <-stop:
						return
					case <-tick.C:
						_, _ = conn.Write([]byte(" "))
					}
				}
			}()
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Error("it holds its connection")
			}
		})
	}
}
