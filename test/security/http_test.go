//go:build linux

package security_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"innerd/test/server"
)

// No request hides another: what two readers of HTTP could take for different
// things is refused, and the connection closed.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const smuggled = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + otherKey + "\r\n\r\n"
	head := "POST /tasks/none:cancel HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + s.Key() + "\r\n"
	for name, text := range map[string]string{
		"two lengths":                      head + "Content-Length: 2\r\nContent-Length: 0\r\n\r\n{}" + smuggled,
		"two lengths in one":               head + "Content-Length: 2, 0\r\n\r\n{}" + smuggled,
		"signed length":                    head + "Content-Length: +2\r\n\r\n{}" + smuggled,
		"negative length":                  head + "Content-Length: -2\r\n\r\n{}" + smuggled,
		"hexadecimal length":               head + "Content-Length: 0x2\r\n\r\n{}" + smuggled,
		"folded length":                    head + "Content-Length: 0\r\n 2\r\n\r\n{}" + smuggled,
		"folded header":                    head + "X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 2x\r\n\r\n{}" + smuggled,
		"unknown encoding":                 head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled,
		"two encodings":                    head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + smuggled,
		"chunked not last":                 head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + smuggled,
		"space before the colon":           head + "Content-Length : 2\r\n\r\n{}" + smuggled,
		"NUL in a header":                  head + "X: a\x00b\r\nContent-Length: 2\r\n\r\n{}" + smuggled,
		"no colon":                         head + "Content-Length\r\n\r\n" + smuggled,
		"no host":                          "GET /health HTTP/1.1\r\n\r\n" + smuggled,
		"two hosts":                        "GET /health HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n" + smuggled,
		"a host with a path":               "GET /health HTTP/1.1\r\nHost: localhost/x y\r\n\r\n" + smuggled,
		"a chunk that is too long":         head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n" + smuggled,
		"a chunk of a wrong length":        head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}\r\n0\r\n\r\n" + smuggled,
		"a signed chunk":                   head + "Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n" + smuggled,
		"a line feed in a chunk extension": head + "Transfer-Encoding: chunked\r\n\r\n2;a\nb\r\n{}\r\n0\r\n\r\n" + smuggled,
		"endless chunk extensions":         head + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 1<<20) + "\r\n{}\r\n0\r\n\r\n" + smuggled,
		"a smuggled trailer":               head + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n" + smuggled,
		"another version":                  "GET /health HTTP/3.7\r\nHost: localhost\r\n\r\n" + smuggled,
		"a request of version 0.9":         "GET /health\r\n\r\n" + smuggled,
		"another host in the target":       "GET http://evil.example/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + s.Key() + "\r\nConnection: close\r\n\r\n" + smuggled,
		"two keys":                         "GET /tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + s.Key() + "\r\nAuthorization: Bearer " + otherKey + "\r\nConnection: close\r\n\r\n" + smuggled,
		"a carriage return in a header":    head + "X: a\rContent-Length: 9\r\nContent-Length: 2\r\n\r\n{}" + smuggled,
		"a tab before an encoding":         head + "Transfer-Encoding: \x0bchunked\r\nContent-Length: 2\r\n\r\n{}" + smuggled,
		"chunked twice":                    head + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"a hexadecimal chunk":              head + "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n" + smuggled,
		"a line feed after a chunk":        head + "Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n" + smuggled,
		"a chunk of version 1.0":           strings.Replace(head, "HTTP/1.1", "HTTP/1.0", 1) + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"an upgrade to HTTP/2":             "GET /tasks HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n" + smuggled,
		"a preface of HTTP/2":              "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + smuggled,
	} {
		t.Run(name, func(t *testing.T) {
			got := raw(t, s, text)
			if n := strings.Count(got, "HTTP/1."); n > 1 || strings.Contains(got, `"openapi"`) {
				t.Errorf("%d answers:\n%.600s", n, got)
			}
			if got != "" && !strings.HasPrefix(got, "HTTP/1.1 4") && !strings.HasPrefix(got, "HTTP/1.1 5") && !strings.HasPrefix(got, "HTTP/1.0 4") {
				t.Errorf("%.200s", got)
			}
		})
	}
	// A length beside chunks is legal, and chunks count; what stands behind
	// them must not be answered on the same connection.
	t.Run("length and chunks", func(t *testing.T) {
		got := raw(t, s, head+"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+smuggled)
		if n := strings.Count(got, "HTTP/1.1 "); n != 1 {
			t.Errorf("%d answers:\n%.600s", n, got)
		}
	})
}

// The sizes of a request are bounded, each with its own answer.
func TestLimits(t *testing.T) {
	t.Parallel()
	s := serve(t, "--max-body", "4KiB", "--rate-limit", "1")
	for _, path := range []string{"/message:send", "/message:stream", "/tools/tc_x/result", "/tasks/none:reply", "/a2a/message:send"} {
		a := call(t, s, s.Key(), http.MethodPost, path, `{"x":"`+strings.Repeat("x", 8<<10)+`"}`, "A2A-Version", versionFor(path))
		if a.status != http.StatusRequestEntityTooLarge || !strings.HasPrefix(a.header.Get("Content-Type"), "application/") {
			t.Errorf("a long body to %s: %d %.100s", path, a.status, a.body)
		}
	}
	big := raw(t, s, "GET /health HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 128<<10)+"\r\n\r\n")
	many := raw(t, s, "GET /health HTTP/1.1\r\nHost: localhost\r\n"+strings.Repeat("X: y\r\n", 20_000)+"\r\n")
	for _, got := range []string{big, many} {
		if got != "" && !strings.HasPrefix(got, "HTTP/1.1 431 ") { // "": it was closed while we still sent
			t.Errorf("long headers: %.100s", got)
		}
	}
	limited := 0
	for i := 0; i < 100 && limited == 0; i++ { // a busy machine may take a second for some
		if a := call(t, s, s.Key(), http.MethodGet, "/tasks", nil); a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") != "" {
			limited++
		}
	}
	if limited == 0 {
		t.Error("no call is above the rate")
	}
	for range 8 {
		if a := call(t, s, s.Key(), http.MethodPost, "/message:send", "{", "X", "y"); a.status != http.StatusBadRequest {
			t.Errorf("/message:send: %d %.100s", a.status, a.body)
		}
	}
}

// A request whose header, or whose body, comes a byte now and then does not
// keep its connection.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for name, begin := range map[string]string{
		"header":     "GET /health HTTP/1.1\r\nHost: localhost\r\nX: ",
		"first line": "GET /",
		"silence":    "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close() //nolint:errcheck // only read
			_, _ = io.WriteString(conn, begin)
			ctx := t.Context()
			go func() { // ends with the test
				for tick := time.NewTicker(500 * time.Millisecond); ; {
					select {
					case <-ctx.Done():
						tick.Stop()
						return
					case <-tick.C:
						if begin != "" {
							_, _ = conn.Write([]byte("x"))
						}
					}
				}
			}()
			_ = conn.SetReadDeadline(time.Now().Add(server.Soon))
			if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Error("it keeps its connection")
			}
		})
	}
}

// Pages of other sites get nothing: no answer allows them to read it, and what
// they send is refused; nor does a name that a page made point here.
func TestPagesGetNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, o := range operations(t) {
		path := parameter.ReplaceAllString(o.path, "abcdefgh")
		for _, method := range []string{o.method, http.MethodOptions} {
			a := call(t, s, s.Key(), method, path, nil, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Access-Control-Request-Method", o.method, "Access-Control-Request-Headers", "authorization")
			for name := range a.header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s answers with %s", method, path, name)
				}
			}
			if method == http.MethodPost && a.status != http.StatusForbidden {
				t.Errorf("%s %s of another site: %d", method, path, a.status)
			}
			if o.open {
				continue
			}
			if a := call(t, s, s.Key(), o.method, path, nil, "Host", "rebound.example:18100"); a.status != http.StatusForbidden {
				t.Errorf("%s %s under another name: %d", o.method, path, a.status)
			}
		}
	}
	for _, host := range []string{"localhost", "127.0.0.1", "[::1]:80", "LOCALHOST:18100", "localhost."} {
		if a := call(t, s, s.Key(), http.MethodGet, "/tasks", nil, "Host", host); a.status != http.StatusOK {
			t.Errorf("as %s: %d", host, a.status)
		}
	}
}

const (
	forged  = "time=2026-01-01T00:00:00Z level=ERROR msg=forged"
	control = "\x1b[31mred\x1b[0m\x07\x08\x7f\u0085\u2028\u202e"
)

// What others send makes no line of its own in the log, no control character,
// and no header.
func TestNothingIsInjected(t *testing.T) {
	t.Parallel()
	s := server.New(t, innerd)
	s.Args = append(s.Args, "--log-format", "text", "--log-level", "debug")
	s.Start()
	evil := "x\r\n" + forged + "\r\nX-Forged: 1\r\n\r\n" + control
	b := simulate(evil, obj{"task_id": "task-id-1", "model": evil, "source": evil, "detach": true, "system_message": evil},
		obj{"tool": obj{"name": evil, "input": obj{evil: evil}, "output": evil}}, obj{"text": evil}, obj{"crash": obj{"exit_code": 3, "stderr": evil}})
	b["context_id"] = evil
	s.Post(t, b).Whole()
	// What a frame is begins a line of its own and nothing else does.
	_, stream := s.Call(http.MethodGet, "/tasks/task-id-1/events", nil) // whole: the run has ended
	if !strings.HasSuffix(string(stream), "[DONE]\n\n") {
		t.Errorf("the stream ends with %.200q", stream[max(0, len(stream)-200):])
	}
	for line := range strings.Lines(string(stream)) {
		line = strings.TrimRight(line, "\n")
		if line != "" && !strings.HasPrefix(line, "id: ") && !strings.HasPrefix(line, "data: ") || strings.ContainsFunc(line, odd) {
			t.Errorf("the stream has the line %.200q", line)
		}
	}
	headers := []string{"Last-Event-ID", "\u009b31m", "User-Agent", forged, "A2A-Extensions", "\u009b31m"}
	for _, path := range []string{"/tasks/%0d%0aX-Forged:%201", "/%0d%0aX-Forged:%201", "/tasks?state=%0d%0aX-Forged:1", "/a2a/tasks/%0d%0aX-Forged:1", "/agents/%0d%0aX-Forged:1", "/tasks/x/blobs/%0d%0aX-Forged:1", "/tasks/x/events?after=%0aX"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			a := call(t, s, s.Key(), method, path, nil, append(headers, "A2A-Version", versionFor(path))...)
			if a.header.Get("X-Forged") != "" {
				t.Errorf("%s %s: a header was forged: %v", method, path, a.header)
			}
			if strings.ContainsFunc(a.body, odd) {
				t.Errorf("%s %s: %q", method, path, a.body)
			}
		}
	}
	if got := raw(t, s, "GET /tasks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nA2A-Version: 9\x1b[31m\r\n\r\n"); strings.ContainsRune(got, '\x1b') {
		t.Errorf("%q", got)
	}
	s.Stop()
	for line := range strings.SplitSeq(s.Log(), "\n") {
		if line != "" && !strings.HasPrefix(line, "time=") || strings.HasPrefix(line, forged) || strings.ContainsFunc(line, odd) {
			t.Errorf("the log has the line %q", line)
		}
	}
}

// odd are the characters that change what a terminal or a reader of lines shows.
func odd(r rune) bool {
	return r < ' ' && r != '\t' || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' || r == '\u202e'
}
