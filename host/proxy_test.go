package host_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"innerd/events"
	"innerd/host"
)

// injector stands between client and server and spoils connections: each of
// the next ones is cut after as many bytes of the server's as its fault says.
type injector struct {
	ln   net.Listener
	to   string
	wg   sync.WaitGroup
	mu   sync.Mutex
	next []cutAt
	cuts int
	open map[net.Conn]bool
}

type cutAt struct {
	bytes int64
	reset bool // a reset instead of an end
	deaf  bool // the request is swallowed too
}

func newInjector(t *testing.T, to string, next []cutAt) *injector {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	j := &injector{ln: ln, to: strings.TrimPrefix(to, "http://"), open: map[net.Conn]bool{}, next: next}
	j.wg.Go(func() { // ends with the listener
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			j.wg.Go(func() { j.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		j.mu.Lock()
		for c := range j.open {
			_ = c.Close()
		}
		j.mu.Unlock()
		j.wg.Wait()
	})
	return j
}

func (j *injector) url() string { return "http://" + j.ln.Addr().String() }

func (j *injector) keep(c net.Conn) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[c] = true
}

func (j *injector) drop(c net.Conn) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.open, c)
	_ = c.Close()
}

func (j *injector) fault() (cutAt, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.next) == 0 {
		return cutAt{}, false
	}
	f := j.next[0]
	j.next = j.next[1:]
	j.cuts++
	return f, true
}

func (j *injector) serve(c net.Conn) {
	j.keep(c)
	defer j.drop(c)
	f, spoilt := j.fault()
	if f.deaf {
		return
	}
	srv, err := net.Dial("tcp", j.to)
	if err != nil {
		return
	}
	j.keep(srv)
	defer j.drop(srv)
	j.wg.Go(func() { // ends with either
		_, _ = io.Copy(srv, c)
		_ = srv.Close()
	})
	if !spoilt {
		_, _ = io.Copy(c, srv)
		return
	}
	_, _ = io.CopyN(c, srv, f.bytes)
	if f.reset {
		_ = c.(*net.TCPConn).SetLinger(0)
	}
}

// However a stream is cut, a hundred times, at any byte, before, in and after
// the answer's head: every event comes once, in order, and every tool runs once.
func TestStreamCutAHundredTimes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(250, 400).Draw(rt, "events")
		var text strings.Builder
		f := newFake(t, func(f *fake) {
			f.begin()
			for i := range n {
				d := strings.Repeat("x\u2028", i%40) + "."
				text.WriteString(d)
				f.say(events.MessageDelta{Delta: d, MessageID: "m"})
			}
			f.say(events.Message{Content: text.String(), MessageID: "m"}, call("tc_1", "t"))
			f.say(resolved("tc_1", f.result("tc_1")))
			f.end()
		})
		var next []cutAt
		for range 100 {
			next = append(next, cutAt{
				bytes: int64(rapid.IntRange(0, 700).Draw(rt, "bytes")),
				reset: rapid.Bool().Draw(rt, "reset"), deaf: rapid.IntRange(0, 9).Draw(rt, "deaf") == 0,
			})
		}
		j := newInjector(t, f.srv.URL, next)
		o := &host.Options{MinBackoff: 1, MaxBackoff: 1e5}
		c, err := host.New(j.url(), o)
		if err != nil {
			rt.Fatal(err)
		}
		defer c.CloseIdleConnections()
		runs := 0
		req := withTools(tool("t", func(context.Context, json.RawMessage) (host.Result, error) {
			runs++
			return host.Result{Text: "r"}, nil
		}))
		got := &host.Outcome{}
		var last int64
		for ev, err := range c.Stream(t.Context(), req) {
			if err != nil {
				rt.Fatalf("after event %d: %v", last, err)
			}
			if ev.ID != last+1 {
				rt.Fatalf("event %d after %d", ev.ID, last)
			}
			last = ev.ID
			got.Add(ev)
		}
		f.scripts.Wait()
		j.mu.Lock()
		cuts := j.cuts
		j.mu.Unlock()
		if cuts != 100 {
			rt.Fatalf("only %d cuts", cuts)
		}
		if got.State != events.Completed || got.Shown != text.String() || got.Text() != text.String() || runs != 1 || len(got.Calls) != 1 {
			rt.Fatalf("%s, %d bytes of %d, the tool ran %d times", got.State, len(got.Shown), text.Len(), runs)
		}
		for _, r := range f.seen().results["tc_1"] {
			if r.Result != "r" {
				rt.Fatalf("%+v", r)
			}
		}
		f.srv.CloseClientConnections()
	})
}
