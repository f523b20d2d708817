package netguard_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"innerd/adapter/netguard"
)

// names is a name server that says a public address first, and then this
// machine's, of every name.
func names(t *testing.T) (resolver *net.Resolver, asked *atomic.Int64) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked = new(atomic.Int64)
	done := make(chan struct{})
	go func() { // ends with conn
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(reply(buf[:n], asked), from)
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}, asked
}

// reply answers a question for an A record; of others there is none.
func reply(q []byte, asked *atomic.Int64) []byte {
	end := 12
	for q[end] != 0 {
		end += int(q[end]) + 1
	}
	end += 5
	out := append([]byte(nil), q[:end]...)
	out[2], out[3] = 0x81, 0x80 // an answer, without fault
	out[6], out[7], out[8], out[9], out[10], out[11] = 0, 0, 0, 0, 0, 0
	if binary.BigEndian.Uint16(q[end-4:]) != 1 {
		return out
	}
	addr := []byte{8, 8, 8, 8}
	if asked.Add(1) > 1 {
		addr = []byte{127, 0, 0, 1}
	}
	out[7] = 1
	out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the name asked for, A, IN, no life, four bytes
	return append(out, addr...)
}

// A name that is public when it is looked at, and this machine when it is
// called, is not called.
func TestNameThatMoves(t *testing.T) {
	resolver, asked := names(t)
	old := net.DefaultResolver
	net.DefaultResolver = resolver
	defer func() { net.DefaultResolver = old }()
	var hits atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer srv.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	g := netguard.New(nil, "--x")
	url := "http://moves.example:" + port + "/"
	if _, err := g.Check(t.Context(), url); err != nil {
		t.Fatalf("at first it is public: %v", err)
	}
	if _, err := g.Client(time.Minute, 3).Get(url); !errors.Is(err, netguard.ErrUnsafe) {
		t.Errorf("then it is this machine: %v", err)
	}
	if hits.Load() > 0 || asked.Load() < 2 {
		t.Errorf("it was called %d times, its name was asked %d times", hits.Load(), asked.Load())
	}
}
