//go:build linux

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"innerd/events"
	outside "innerd/test/server"
)

// wire is a connection that is written and read by hand.
type wire struct {
	t    testing.TB
	conn net.Conn
	br   *bufio.Reader
}

// dial opens a connection and sends a POST of a run; nothing is read.
func (s *server) dial(proto string, b body) *wire {
	s.T.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { _ = conn.Close() }) // the test may have closed it
	raw, err := json.Marshal(b)
	if err != nil {
		s.T.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST /message:stream %s\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", proto, key, len(raw), raw); err != nil {
		s.T.Fatal(err)
	}
	return &wire{s.T, conn, bufio.NewReader(conn)}
}

// answer reads the head of the answer.
func (w *wire) answer() *http.Response {
	w.t.Helper()
	resp, err := http.ReadResponse(w.br, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// A flood that no socket's buffers hold: some 13 MB of frames, half of them in the last.
const floodStep = `{"flood":{"deltas":6000,"bytes":1000}}`

// completed fails the test unless the reader saw a run that completed.
func completed(t testing.TB, p *tape) {
	t.Helper()
	p.whole(t)
	if end := p.end(); end == nil || end.State != events.Completed {
		t.Errorf("%s: the run ended with %+v\n%s", p.name, end, p)
	}
}

// A reader that does not read is nobody's trouble, and finds everything when
// it reads at last, though memory has let it go long ago.
func TestReaderThatWaits(t *testing.T) {
	s := serve(t, "--log-memory", "1MiB")
	waits := s.dial("HTTP/1.1", script(`[`+floodStep+`,{"text":"over"}]`, map[string]any{"task_id": "the-flood", "events": "all"}))
	waits.answer()
	others := []*tape{s.follow("the first of the others", "the-flood", 0), s.follow("the second", "the-flood", 0)}
	for _, p := range others {
		completed(t, p)
	}
	late := newTape("the reader that waited", nil)
	late.read(newChunks(waits.br))
	late.whole(t)
	s.equal(s.journal("the-flood"), true, append(others, late)...)
	checkOrder(t, others[0].events())
}

// newChunks reads a chunked body. A cut one is an error, not an end.
func newChunks(br *bufio.Reader) io.Reader {
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), br)), nil)
	if err != nil {
		panic(err) // the head is right above
	}
	return resp.Body
}

// A reader that takes nothing is cut in the end, and its stream does not end
// as if it were whole. One that runs a tool is not: it has something else to
// do.
func TestReaderThatNeverReads(t *testing.T) {
	// The flood must be over, and the tool called, within that of the first write that hangs.
	s := serve(t, "--write-timeout", "10s")
	steps := `[` + floodStep + `,{"call":{"tool":"slow","arguments":{}}},{"text":"over"}]`
	busy := s.dial("HTTP/1.1", script(steps, map[string]any{"task_id": "busy-with-a-tool"}))
	busy.answer()
	s.follow("beside", "busy-with-a-tool", 0).until(t, events.TypeToolRequest)

	idle := s.dial("HTTP/1.1", script(`[`+floodStep+`,{"sleep_ms":600000}]`, map[string]any{"task_id": "just-does-not-read"}))
	idle.answer()
	if !s.Says(`"stream cut","run":"just-does-not-read"`) {
		t.Error("it is not cut")
	}
	cut := newTape("the reader that was cut", nil)
	cut.read(newChunks(idle.br))
	if cut.err == nil || cut.done {
		t.Errorf("a stream that was cut ended with %v, [DONE] %v", cut.err, cut.done)
	}
	rest := s.follow("and came back", "just-does-not-read", cut.last())
	rest.until(t, events.TypeMessage)
	s.equal(s.journal("just-does-not-read"), false, cut, rest)

	call := s.task("busy-with-a-tool").Pending[0].ID
	s.Do(http.MethodPost, "/tools/"+call+"/result", `{"result":"done at last"}`, nil)
	late := newTape("the reader that was busy", nil)
	late.read(newChunks(busy.br))
	completed(t, late)
	s.equal(s.journal("busy-with-a-tool"), false, late)
	if strings.Contains(s.Log(), `"stream cut","run":"busy-with-a-tool"`) {
		t.Error("the busy reader was cut")
	}
	s.Do(http.MethodPost, "/tasks/just-does-not-read:cancel", nil, nil)
}

// A reader that takes a little now and then gets all.
func TestSlowReader(t *testing.T) {
	s := serve(t, "--write-timeout", "10s") // a busy machine may be still for longer than a second or two
	slow := s.dial("HTTP/1.1", script(`[`+floodStep+`]`, map[string]any{"task_id": "the-slow-one", "events": "all"}))
	slow.answer()
	p := newTape("the slow one", nil)
	p.read(newChunks(bufio.NewReaderSize(&trickle{r: slow.br, t: t, s: s}, 512)))
	completed(t, p)
	s.equal(s.journal("the-slow-one"), true, p)
}

// trickle has another call made between any two of its larger reads.
type trickle struct {
	r io.Reader
	t testing.TB
	s *server
	n int
}

func (r *trickle) Read(b []byte) (int, error) {
	if r.n++; r.n%1000 == 0 {
		r.s.get("/health", nil)
	}
	return r.r.Read(b)
}

// A client that speaks HTTP/1.0 gets its stream without chunks, up to the end
// of the connection.
func TestHTTP10(t *testing.T) {
	s := serve(t)
	w := s.dial("HTTP/1.0", prompt("simulate", "in the old way", map[string]any{"events": "all"}))
	resp := w.answer()
	if resp.StatusCode != 200 || len(resp.TransferEncoding) > 0 || resp.ContentLength >= 0 {
		t.Errorf("%v %v %d", resp.Status, resp.TransferEncoding, resp.ContentLength)
	}
	p := newTape("the old client", nil)
	p.read(w.br)
	completed(t, p)
	checkOrder(t, p.events())
	s.equal(s.journal(p.taskID()), true, p)
}

// A run of a POST whose reader has gone is canceled, unless it comes back.
func TestHangUp(t *testing.T) {
	s := serve(t)
	steps := `[{"text":"a"},{"call":{"tool":"never","arguments":{}}}]`
	for name, c := range map[string]struct {
		meta map[string]any
		back bool
	}{
		"gone": {map[string]any{"detach_grace_s": 0.05}, false},
		"back": {map[string]any{"detach_grace_s": 600}, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, hangUp := context.WithCancel(t.Context())
			resp, err := s.stream(ctx, http.MethodPost, "/message:stream", script(steps, c.meta))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close() //nolint:errcheck // only read
			p := newTape("who hangs up", func(e events.Event) {
				if e.Type() == events.TypeToolRequest {
					hangUp()
				}
			})
			p.read(resp.Body)
			hangUp()
			if p.err == nil {
				t.Error("the stream ended cleanly")
			}
			id := p.taskID()
			if c.back {
				s.follow("who came back", id, p.last())
				s.Do(http.MethodPost, "/tasks/"+id+":cancel", nil, nil)
			}
			outside.Eventually(t, "the run is canceled", func() bool { return s.task(id).Status.State == "canceled" })
			log := s.follow("afterwards", id, 0)
			log.whole(t)
			checkOrder(t, log.events())
			if got := log.end().Reason; (got == "disconnected") == c.back {
				t.Errorf("the reason is %q", got)
			}
			s.equal(s.journal(id), false, p)
		})
	}
}
