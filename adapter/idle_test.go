package adapter_test

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
)

// TestIdleFollowers: what a reader needs that has read what there is and waits.
// Its stack is one of 8 KB, beside the one of net/http's that watches for its
// end, and what it wrote with is there for the next reader.
func TestIdleFollowers(t *testing.T) {
	const n = 128
	s := serve(t, nil)
	s.stream(t, "POST", "/message:stream", `{"metadata":{"task_id":"followed"}}`)
	run := <-s.fake.started
	for range 400 { // chunks of several sizes, whose frames are joined
		run.say(t, delta(strings.Repeat("x", 40)))
	}
	run.say(t, delta("the last"))
	follow(t, s, n) // what only the first ones need: pools, and what is made once

	stacks, heap := memoryInUse()
	follow(t, s, n)
	stacksNow, heapNow := memoryInUse()
	if each := (stacksNow - stacks) / n; each > 16<<10 {
		t.Errorf("the stacks of a reader that waits are %d bytes", each)
	}
	if each := (heapNow - heap) / n; each > 28<<10 {
		t.Errorf("a reader that waits holds %d bytes", each)
	}
}

// follow opens n streams and reads each up to where it waits, with nothing that
// would need a stack on this side.
func follow(t *testing.T, s *server, n int) {
	t.Helper()
	buf, mark := make([]byte, 64<<10), []byte("the last")
	for range n {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := fmt.Fprintf(c, "GET /tasks/followed/events HTTP/1.1\r\nHost: %s\r\n\r\n", s.Listener.Addr()); err != nil {
			t.Fatal(err)
		}
		for at := 0; !bytes.Contains(buf[:at], mark); {
			at = copy(buf, buf[max(0, at-len(mark)):at])
			n, err := c.Read(buf[at:])
			if err != nil {
				t.Fatal(err)
			}
			at += n
		}
	}
}

// memoryInUse is what stacks and the heap's objects take when the garbage, and
// what pools hold, is gone.
func memoryInUse() (stacks, heap int64) {
	runtime.GC()
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64()), int64(sample[1].Value.Uint64())
}
