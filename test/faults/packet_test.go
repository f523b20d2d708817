//go:build linux

package faults_test

import (
	"context"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"innerd/test/ledger"
	"innerd/test/proxy"
)

// slow passes on what the server says in pieces of no particular size, each
// halved, with pauses before and between.
func slow(host io.Writer, srv io.Reader) (happened, reset bool) {
	buf := make([]byte, 4<<10)
	for {
		n, err := srv.Read(buf[:1+rand.N(len(buf))])
		for _, half := range [][]byte{buf[:n/2], buf[n/2 : n]} {
			time.Sleep(rand.N(2 * time.Millisecond)) // the fault
			if _, err := host.Write(half); err != nil {
				return true, false
			}
		}
		if err != nil {
			return true, false
		}
	}
}

// A network that delays and divides what it passes on is nobody's trouble.
func TestNetworkThatDelaysAndHalves(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, c *cast) {
		began := time.Now()
		r := c.rig(t).start()
		task := c.actor(t, r).does(t, endsOnly, think("some thought"), flood(c.many(6000, 1500), 60), say("over")).TaskID()
		l := ledger.New()
		n := newNetwork(t, r, proxy.Fault{Pass: slow}, proxy.Fault{Pass: slow})
		byHand, byHost := l.Reader("by hand").Whole(), l.Reader("the host client").Whole()
		first := read(t, byHand, func(ctx context.Context) error { return r.comeBack(ctx, byHand, task, n.URL) })
		second := read(t, byHost, func(ctx context.Context) error {
			_, err := listen(byHost, r.impatient(n.URL()).Follow(ctx, task, 0))
			return err
		})
		first.clean()
		second.clean()
		n.allSpoiled(t)
		c.result(t, "packets delayed and halved", r.compare(l, task), began)
	})
}

// twice says a part of a frame, or a few of them, a second time.
func twice(nth int, from, to func(said []byte, start, end int) int) proxy.Fault {
	return proxy.Fault{Pass: func(host io.Writer, srv io.Reader) (bool, bool) {
		a, b := 0, 0
		said, passed, where := pass(host, srv, untilFrame(nth, func(said []byte, start, end int) int {
			a, b = from(said, start, end), to(said, start, end)
			return b
		}))
		if where < 0 {
			return false, false
		}
		_, _ = host.Write(said[passed:where])
		_, _ = host.Write(said[a:b])
		_, _ = host.Write(said[where:])
		_, _ = io.Copy(host, srv)
		return true, false
	}}
}

// Bytes that come twice are no HTTP any more. Our host client takes a frame
// that can't be read, or comes before its turn, for a broken connection, and
// drops what it has had, so that its reader never sees any of it. What no client can see
// without TLS, and TLS makes impossible: a change inside of a text that leaves
// the frame a whole one.
func TestBytesThatComeTwice(t *testing.T) {
	t.Parallel()
	both(t, bytesTwice)
}

func bytesTwice(t *testing.T, c *cast) {
	r := c.rig(t).start()
	task := c.actor(t, r).does(t, nil, think("some thought"), flood(c.many(800, 300), 30), say("over")).Completed().TaskID()
	start, end := inFrame["before the id"], inFrame["after the blank line"]
	before := func(n int) func([]byte, int, int) int { return func(_ []byte, start, _ int) int { return start - n } }
	dataAt := func(n int) func([]byte, int, int) int {
		return func(said []byte, start, _ int) int { return afterLine(said, start) + 6 + n }
	}
	l := ledger.New()
	began := time.Now()
	for name, part := range map[string][2]func([]byte, int, int) int{
		"a frame":                   {start, end},
		"its id line":               {start, inFrame["between id and data"]},
		"half its number":           {inFrame["in the number"], inFrame["before the id's line end"]},
		"its data line":             {inFrame["between id and data"], inFrame["in the blank line"]},
		"the word data":             {inFrame["between id and data"], inFrame["before the data"]},
		"its blank line":            {inFrame["in the blank line"], end},
		"the end of its data":       {inFrame["before the data's last byte"], inFrame["before the data's line end"]},
		"its second half":           {inFrame["in the data"], end},
		"the beginning of the data": {dataAt(0), dataAt(9)},
		"a part of the event's id":  {dataAt(6), dataAt(7)},
		"the end of the one before": {before(20), inFrame["in id:"]},
		"a chunk's head":            {before(5), inFrame["in id:"]},
	} {
		for nth := range c.many(4, pick(2, 4)) {
			n := newNetwork(t, r, twice(nth+1, part[0], part[1]))
			if _, err := listen(l.Reader(name).Whole(), r.impatient(n.URL()).Follow(t.Context(), task, 0)); err != nil {
				t.Errorf("%s comes twice: %v", name, err)
			}
			n.allHappened(t)
		}
	}
	c.result(t, "bytes of frames that come twice, host client", r.compare(l, task), began)
}
