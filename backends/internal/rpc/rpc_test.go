package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"innerd/backends/internal/proc"
	"innerd/backends/internal/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is the other end: it reads frames and writes what a test wants.
type fake struct {
	framing rpc.Framing
	in      chan map[string]json.RawMessage // what the peer has sent
	out     *io.PipeWriter
}

// connect makes a Peer that reads from a fake, with both framings' readers as
// backends use them.
func connect(t *testing.T, o rpc.Options) (*rpc.Peer, *fake) {
	t.Helper()
	r, w := io.Pipe()
	f := &fake{framing: o.Framing, in: make(chan map[string]json.RawMessage, 100), out: w}
	o.Send = func(b []byte) error {
		if o.Framing == rpc.Headers {
			_, b, _ = bytes.Cut(b, []byte("\r\n\r\n"))
		} else if bytes.IndexByte(b, '\n') != len(b)-1 {
			t.Errorf("not one line: %q", b)
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(b, &m); err != nil {
			t.Errorf("sent %q: %v", b, err)
		}
		f.in <- m
		return nil
	}
	p := rpc.New(o)
	done := make(chan struct{})
	go func() { // ends when the fake closes
		defer close(done)
		var err error
		if o.Framing == rpc.Headers {
			err = p.ReadFrames(r)
		} else {
			err = proc.ReadLines(r, 0, p.Handle, nil)
		}
		p.Close(err)
	}()
	t.Cleanup(func() { _ = w.Close(); <-done })
	return p, f
}

// say writes one message.
func (f *fake) say(format string, a ...any) {
	m := fmt.Sprintf(format, a...)
	if f.framing == rpc.Headers {
		m = fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(m), m)
	} else {
		m += "\n"
	}
	_, _ = io.WriteString(f.out, m)
}

func both(t *testing.T, test func(*testing.T, rpc.Framing)) {
	t.Run("lines", func(t *testing.T) { test(t, rpc.Lines) })
	t.Run("headers", func(t *testing.T) { test(t, rpc.Headers) })
}

func TestAnswersOutOfOrder(t *testing.T) {
	both(t, func(t *testing.T, framing rpc.Framing) {
		p, f := connect(t, rpc.Options{Framing: framing})
		const n = 20
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				var got int
				if err := p.Call(t.Context(), "double", map[string]int{"n": i}, &got); err != nil || got != 2*i {
					t.Errorf("double %d: %d, %v", i, got, err)
				}
			})
		}
		var asked []map[string]json.RawMessage
		for range n {
			asked = append(asked, <-f.in)
		}
		for i := range asked { // the last first, every other id as a string
			m := asked[n-1-i]
			var params struct{ N int }
			_ = json.Unmarshal(m["params"], &params)
			id := string(m["id"])
			if i%2 == 0 {
				id = `"` + id + `"`
			}
			f.say(`{"id":%s,"result":%d}`, id, 2*params.N)
		}
		wg.Wait()
	})
}

func TestRefusal(t *testing.T) {
	p, f := connect(t, rpc.Options{})
	go func() { m := <-f.in; f.say(`{"id":%s,"error":{"code":-32600,"message":"no","data":{"a":1}}}`, m["id"]) }()
	err := p.Call(t.Context(), "turn/start", nil, nil)
	var e *rpc.Error
	if !errors.As(err, &e) || e.Code != -32600 || string(e.Data) != `{"a":1}` || err.Error() != "turn/start: no (-32600)" {
		t.Errorf("error %v", err)
	}
}

// The peer's requests have ids of their own, which may equal ours, and are
// answered late, by anyone, in any order.
func TestRequests(t *testing.T) {
	both(t, func(t *testing.T, framing rpc.Framing) {
		asked := make(chan *rpc.Request, 3)
		p, f := connect(t, rpc.Options{Framing: framing, Request: func(r *rpc.Request) bool {
			if r.Method != "tool" {
				return false
			}
			asked <- r
			return true
		}})
		called := make(chan error, 1)
		go func() { called <- p.Call(t.Context(), "turn", nil, nil) }()
		ours := <-f.in
		f.say(`{"id":1,"method":"tool","params":{"x":"<&>"}}`)
		f.say(`{"id":"one","method":"tool"}`)
		f.say(`{"id":0,"method":"strange"}`)
		first, second := <-asked, <-asked
		if m := <-f.in; string(m["id"]) != "0" || !strings.Contains(string(m["error"]), "-32601") {
			t.Errorf("unknown method: %s", m)
		}
		if err := second.Respond(map[string]string{"text": "<&>"}); err != nil {
			t.Error(err)
		}
		if m := <-f.in; string(m["id"]) != `"one"` || string(m["result"]) != `{"text":"<&>"}` {
			t.Errorf("answer %s", m)
		}
		if err := first.Respond(nil); err != nil {
			t.Error(err)
		}
		if m := <-f.in; string(m["id"]) != `1` || string(m["result"]) != `null` {
			t.Errorf("answer %s", m)
		}
		if err := first.Fail(1, "again"); !errors.Is(err, rpc.ErrAnswered) {
			t.Errorf("second answer: %v", err)
		}
		f.say(`{"id":%s,"result":{}}`, ours["id"])
		if err := <-called; err != nil {
			t.Error(err)
		}
	})
}

func TestOrderOfNotifications(t *testing.T) {
	both(t, func(t *testing.T, framing rpc.Framing) {
		var got []string
		done := make(chan struct{})
		p, f := connect(t, rpc.Options{Framing: framing, Notification: func(method string, params json.RawMessage) {
			got = append(got, string(params))
			if method == "end" {
				close(done)
			}
		}})
		if _, err := p.Go("start", nil, func(raw json.RawMessage, _ error) { got = append(got, string(raw)) }); err != nil {
			t.Fatal(err)
		}
		<-f.in
		for i := range 100 {
			f.say(`{"method":"n","params":%d}`, i)
			if i == 49 {
				f.say(`{"id":1,"result":"half"}`)
			}
		}
		f.say(`{"method":"end","params":100}`)
		<-done
		if len(got) != 102 || got[50] != `"half"` || got[51] != "50" || got[101] != "100" {
			t.Errorf("order %v", got)
		}
	})
}

func TestCancel(t *testing.T) {
	p, f := connect(t, rpc.Options{Garbage: func(what string) { t.Errorf("garbage: %s", what) }})
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-f.in; cancel(cause) }()
	if err := p.Call(ctx, "slow", nil, nil); !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	f.say(`{"id":1,"result":1}`) // late, and no garbage
	go func() { m := <-f.in; f.say(`{"id":%s,"result":2}`, m["id"]) }()
	var got int
	if err := p.Call(t.Context(), "next", nil, &got); err != nil || got != 2 {
		t.Errorf("next: %d, %v", got, err)
	}
}

func TestDeath(t *testing.T) {
	exit := errors.New("exit status 3: out of memory")
	sent := make(chan struct{}, 10)
	p := rpc.New(rpc.Options{Send: func([]byte) error { sent <- struct{}{}; return nil }})
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if err := p.Call(t.Context(), "turn", nil, nil); !errors.Is(err, exit) {
				t.Errorf("open call: %v", err)
			}
		})
	}
	for range 5 {
		<-sent
	}
	p.Close(exit)
	p.Close(nil) // the first counts
	wg.Wait()
	<-p.Done()
	if !errors.Is(p.Err(), exit) {
		t.Errorf("Err: %v", p.Err())
	}
	if err := p.Call(t.Context(), "turn", nil, nil); !errors.Is(err, exit) {
		t.Errorf("later call: %v", err)
	}
	if err := p.Notify("n", nil); !errors.Is(err, exit) {
		t.Errorf("later notification: %v", err)
	}
}

// The pipe breaks a moment before anybody knows why.
func TestDeathWhileSending(t *testing.T) {
	exit := errors.New("killed")
	var p *rpc.Peer
	p = rpc.New(rpc.Options{Send: func([]byte) error { go p.Close(exit); return proc.ErrClosed }})
	if err := p.Call(t.Context(), "turn", nil, nil); !errors.Is(err, exit) {
		t.Errorf("error %v", err)
	}
}

func TestGarbage(t *testing.T) {
	for _, line := range []string{
		"Warning: something", "[1,2]", "null", "17", `{"id":`, `{}`, `{"id":null}`, `{"id":99,"result":1}`,
		`{"id":"x","result":1}`, `{"method":7}`, "\x00\xff", `{"id":-1,"error":{}}`,
	} {
		said := ""
		p := rpc.New(rpc.Options{Garbage: func(what string) { said += what }})
		p.Handle([]byte(line))
		if said == "" {
			t.Errorf("%q: nothing is said", line)
		}
	}
}

func TestFramesAmongGarbage(t *testing.T) {
	ping := `{"method":"ping"}`
	good := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(ping), ping)
	tests := []struct {
		name, stream string
		pings        int
		garbage      int
		err          error
	}{
		{"plain", good + good, 2, 0, nil},
		{"other headers", "Content-Type: x; charset=utf-8\r\ncontent-length:17\r\nContent-Type: y\r\n\r\n" + ping + good, 2, 0, nil},
		{"bare LF", "Content-Length: 17\n\n" + ping, 1, 0, nil},
		{"a warning", "(node:1) Warning: old\n\n" + good + "no line end" + good, 2, 2, nil},
		{"bad lengths", "Content-Length: -1\r\n\r\nContent-Length: 99999999999999999999\r\n\r\nContent-Length:\r\n\r\n" + good, 1, 3, nil},
		{"bad JSON", "Content-Length: 3\r\n\r\n{x}" + good, 1, 1, nil},
		{"too long", "Content-Length: 200\r\n\r\n" + strings.Repeat("x", 200) + good, 1, 1, nil},
		{"cut", good + good[:len(good)-1], 1, 0, io.ErrUnexpectedEOF},
		{"cut too long", "Content-Length: 200\r\n\r\nx", 0, 1, io.ErrUnexpectedEOF},
		{"huge and absent", "Content-Length: 99\r\n\r\nx", 0, 0, io.ErrUnexpectedEOF},
		{"no end of header", "Content-Length: 9", 0, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pings, garbage := 0, 0
			p := rpc.New(rpc.Options{
				Framing: rpc.Headers, MaxFrame: 100,
				Notification: func(string, json.RawMessage) { pings++ },
				Garbage:      func(string) { garbage++ },
			})
			err := p.ReadFrames(strings.NewReader(tt.stream))
			if pings != tt.pings || garbage != tt.garbage || !errors.Is(err, tt.err) {
				t.Errorf("%d pings, %d garbage, %v", pings, garbage, err)
			}
		})
	}
}

// What is written without a line end before a message does not swallow it,
// however long it is: its header may lie across the end of any buffer.
func TestLongGarbageBeforeAFrame(t *testing.T) {
	ping := `{"method":"ping"}`
	good := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(ping), ping)
	for _, buffers := range []int{1, 3} {
		for cut := range len(good) + 2 {
			pings, garbage := 0, 0
			p := rpc.New(rpc.Options{
				Framing:      rpc.Headers,
				Notification: func(string, json.RawMessage) { pings++ },
				Garbage:      func(string) { garbage++ },
			})
			stream := strings.Repeat("x", buffers<<16-cut) + good + strings.Repeat("y", 200<<10) + "\n" + good
			if err := p.ReadFrames(strings.NewReader(stream)); err != nil || pings != 2 || garbage < 2 || garbage > 4 {
				t.Errorf("%d bytes before the end of buffer %d: %d pings, %d garbage, %v", cut, buffers, pings, garbage, err)
			}
		}
	}
}
