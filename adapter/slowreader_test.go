package adapter_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"innerd/adapter"
)

// fill writes until the reader's sockets are full, and goes on in the log.
func fill(t *testing.T, run *fakeRun) {
	t.Helper()
	big := delta(strings.Repeat("x", 1<<20))
	for range 16 {
		run.say(t, big)
	}
}

func rawStream(t *testing.T, s *server, version, path string, header string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(128 << 10)
	if _, err := fmt.Fprintf(conn, "POST %s %s\r\nHost: localhost\r\nContent-Length: 2\r\n%s\r\n{}", path, version, header); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestReaderThatTakesNothingIsCut(t *testing.T) {
	s := serve(t, func(o *adapter.Options) { o.WriteProgress = 100 * time.Millisecond })
	conn := rawStream(t, s, "HTTP/1.1", "/message:stream", "")
	run := <-s.fake.started
	<-run.attached
	fill(t, run)
	if n := <-run.attached; n != -1 { // cut while it does not read
		t.Error("not detached")
	}
	data, err := io.ReadAll(conn)
	if bytes.Contains(data, []byte("[DONE]")) || bytes.HasSuffix(data, []byte("\r\n0\r\n\r\n")) {
		t.Errorf("a clean end: %v", err)
	}
	// The run goes on, and the reader may come back.
	run.end(t)
	list := s.stream(t, "GET", "/tasks/"+run.ID()+"/events?after=16", "").finish()
	if got := types(list); got != "assistant.message_delta assistant.usage session.end" {
		t.Error(got)
	}
}

func TestReaderMayStandStillWhileItRunsATool(t *testing.T) {
	const limit = 3 * time.Second // TCP itself may take 200 ms to go on, and a busy machine more
	s := serve(t, func(o *adapter.Options) { o.WriteProgress = limit })
	conn := rawStream(t, s, "HTTP/1.1", "/message:stream", "Connection: close\r\n")
	run := <-s.fake.started
	<-run.attached
	run.open.Store(true)
	fill(t, run)
	select {
	case <-run.attached:
		t.Fatal("cut while a tool request is open")
	case <-time.After(limit + limit/2):
	}
	// The answer is there: now it has the whole limit again, and reads.
	run.open.Store(false)
	run.end(t)
	data, err := io.ReadAll(conn)
	if err != nil || !bytes.Contains(data, []byte("[DONE]")) {
		t.Fatalf("%d bytes without an end: %v", len(data), err)
	}
}

// A reader that takes little, but steadily, is not cut.
func TestSlowReaderIsNotCut(t *testing.T) {
	const limit = 3 * time.Second // a busy machine may not run the reader for a good part of a second
	s := serve(t, func(o *adapter.Options) { o.WriteProgress = limit })
	conn := rawStream(t, s, "HTTP/1.1", "/message:stream", "Connection: close\r\n")
	run := <-s.fake.started
	<-run.attached
	fill(t, run)
	run.end(t)
	buf := make([]byte, 64<<10)
	began, total := time.Now(), 0
	var tail []byte
	for {
		n, err := io.ReadFull(conn, buf)
		total += n
		tail = append(tail, buf[:n]...)
		tail = tail[max(0, len(tail)-64):]
		if err != nil {
			break
		}
		if time.Since(began) < 3*limit {
			time.Sleep(40 * time.Millisecond) // the slowness under test: one write takes longer than the limit
		}
	}
	if !bytes.Contains(tail, []byte("[DONE]\n\n")) || time.Since(began) < 2*limit {
		t.Errorf("%d bytes in %v, tail %q", total, time.Since(began), tail)
	}
}
