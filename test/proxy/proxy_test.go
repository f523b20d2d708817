package proxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"innerd/test/proxy"
)

// noted is a test that notes what it is told instead of failing.
type noted struct {
	testing.TB
	cleanup []func()
	said    []string
}

func (n *noted) Helper()           {}
func (n *noted) Failed() bool      { return len(n.said) > 0 }
func (n *noted) Cleanup(f func())  { n.cleanup = append(n.cleanup, f) }
func (n *noted) Error(args ...any) { n.said = append(n.said, fmt.Sprint(args...)) }
func (n *noted) Errorf(format string, args ...any) {
	n.said = append(n.said, fmt.Sprintf(format, args...))
}

// end ends the test and gives what it was told.
func (n *noted) end() []string {
	for _, f := range n.cleanup {
		f()
	}
	return n.said
}

// front is a checked proxy before a server that answers so.
func front(t *testing.T, h http.HandlerFunc) (*noted, *proxy.Proxy) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	n := &noted{TB: t}
	return n, proxy.Checked(n, func() string { return srv.URL })
}

const (
	notFound = `{"detail":"no such run","error_type":"not_found"}`
	first    = `id: 1` + "\n" + `data: {"id":1,"ts":1,"type":"session.task_id","data":{"task_id":"t","context_id":"c","backend":"simulate"}}` + "\n\n"
	last     = "data: [DONE]\n\n"
)

func answer(w http.ResponseWriter, status int, media, body string) {
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// Several answers of one connection are each compared, and what is wrong with
// one does not hide the next.
func TestEachAnswerOfAConnection(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		faults        int
	}{
		"both good":   {notFound, notFound, 0},
		"one is bad":  {`{"detail":7,"error_type":"not_found"}`, notFound, 1},
		"second, too": {`{}`, `{`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			n, p := front(t, func(w http.ResponseWriter, _ *http.Request) {
				asked++
				answer(w, 404, "application/json", []string{c.first, c.second}[asked-1])
			})
			client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
			defer client.CloseIdleConnections()
			for range 2 {
				resp, err := client.Get(p.URL() + "/tasks/t")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadAll(resp.Body); err != nil {
					t.Error(err)
				}
				_ = resp.Body.Close()
			}
			if said := n.end(); len(said) != c.faults {
				t.Errorf("%d faults: %q", len(said), said)
			}
		})
	}
}

// Each piece of a stream is there before the next one is written, events are
// compared, and a server that aborts is not taken for one that is done.
func TestStreamPassesAsItComes(t *testing.T) {
	for name, c := range map[string]struct {
		event  string
		abort  bool
		faults int
	}{
		"whole":   {first, false, 0},
		"aborted": {first, true, 0},
		"bad":     {strings.Replace(first, `"c"`, `7`, 1), false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan struct{})
			n, p := front(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, c.event)
				_ = http.NewResponseController(w).Flush()
				select {
				case <-seen:
				case <-r.Context().Done():
				}
				if c.abort {
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, last)
			})
			resp, err := http.Get(p.URL() + "/tasks/t/events")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close() //nolint:errcheck // only read
			r := bufio.NewReader(resp.Body)
			if _, err := r.ReadString('}'); err != nil {
				t.Fatal(err)
			}
			close(seen)
			if _, err = io.ReadAll(r); (err != nil) != c.abort {
				t.Errorf("the stream ended with %v", err)
			}
			if said := n.end(); len(said) != c.faults {
				t.Errorf("%d faults: %q", len(said), said)
			}
		})
	}
}

// A client that hangs up does so to the server.
func TestHangingUpPasses(t *testing.T) {
	gone := make(chan struct{})
	n, p := front(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	resp, err := http.Get(p.URL() + "/tasks/t/events")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	<-gone
	if said := n.end(); len(said) > 0 {
		t.Errorf("%q", said)
	}
}

// An answer to a body that is still to come, with an answer before it that
// says to go on, is the request's.
func TestAnswerBeforeTheBody(t *testing.T) {
	n, p := front(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Expect") != "" {
			_, _ = io.ReadAll(r.Body) // which says 100
		}
		ctl := http.NewResponseController(w)
		_ = ctl.EnableFullDuplex() // it waits for the body else
		answer(w, 404, "application/json", notFound)
		_ = ctl.Flush()
	})
	for _, head := range []string{"Expect: 100-continue\r\n", ""} {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		said := bufio.NewReader(c)
		_, _ = io.WriteString(c, "POST /tasks/t:cancel HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"+head+"\r\n")
		if head != "" {
			if line, err := said.ReadString('\n'); !strings.Contains(line, "100") {
				t.Errorf("%q %v", line, err)
			}
			_, _ = said.ReadString('\n')
			_, _ = io.WriteString(c, "{}")
		}
		if line, err := said.ReadString('\n'); !strings.Contains(line, "404") {
			t.Errorf("%q %v", line, err)
		}
		_ = c.Close()
	}
	if said := n.end(); len(said) > 0 {
		t.Errorf("%q", said)
	}
}

// What is no answer is told, and a connection that a server resets is reset.
func TestNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		says  string
		reset bool
		want  string
	}{
		"no HTTP":      {"hello\r\n\r\n", false, "what the server says"},
		"reset":        {"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{", true, ""},
		"half a head":  {"HTTP/1.1 4", false, "no answer was compared"},
		"no answer":    {"", false, "no answer was compared"},
		"bad chunking": {"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", false, "what the server says"},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close() //nolint:errcheck // the test is over
			heard := make(chan struct{})
			go func() { // ends with its one connection
				srv, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = http.ReadRequest(bufio.NewReader(srv))
				_, _ = io.WriteString(srv, c.says)
				<-heard
				if c.reset {
					_ = srv.(*net.TCPConn).SetLinger(0)
				}
				_ = srv.Close()
			}()
			n := &noted{TB: t}
			p := proxy.Checked(n, func() string { return "http://" + ln.Addr().String() })
			client, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close() //nolint:errcheck // only read
			_, _ = io.WriteString(client, "GET /tasks/t HTTP/1.1\r\nHost: x\r\n\r\n")
			got := make([]byte, len(c.says))
			if _, err := io.ReadFull(client, got); err != nil || string(got) != c.says {
				t.Errorf("%q %v", got, err)
			}
			close(heard)
			if _, err := client.Read(make([]byte, 1)); errors.Is(err, syscall.ECONNRESET) != c.reset {
				t.Errorf("the connection ended with %v", err)
			}
			said := strings.Join(n.end(), "\n")
			if !strings.Contains(said, c.want) || (c.want == "") != (said == "") {
				t.Errorf("%q, not %q", said, c.want)
			}
		})
	}
}
