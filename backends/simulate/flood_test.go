package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"innerd/backends"
	"innerd/backends/simulate"
	"innerd/events"
)

// counting is a host that takes a flood without keeping it.
type counting struct {
	deltas, bytes, messages int64
	open, longest           int64 // bytes of a message
	wrong                   string
	size                    int
	ids                     map[string]bool
	stopAt                  int64
	stop                    func()
}

func (h *counting) Emit(e events.Event) {
	switch d := e.Data.(type) {
	case events.MessageDelta:
		if h.size > 0 && d.Delta != simulate.FloodDelta(h.deltas, h.size) {
			h.wrong = fmt.Sprintf("delta %d is %q", h.deltas, d.Delta)
		}
		if h.ids[d.MessageID] {
			h.wrong = "a delta of a message that was closed"
		}
		h.deltas++
		h.bytes += int64(len(d.Delta))
		h.open += int64(len(d.Delta))
		if h.deltas == h.stopAt {
			h.stop()
		}
	case events.Message:
		h.messages++
		h.longest = max(h.longest, h.open)
		h.open = 0
		h.ids[d.MessageID] = true
	}
}

func (h *counting) Request(context.Context, events.Request) backends.Pending { panic("no request") }

func flood(deltas int64, bytes int, perSecond float64) backends.Input {
	return script(fmt.Sprintf(`[{"flood":{"deltas":%d,"bytes":%d,"per_second":%g}}]`, deltas, bytes, perSecond))
}

func TestFloodIsExact(t *testing.T) {
	c := open(t, nil)
	rapid.Check(t, func(rt *rapid.T) {
		deltas := rapid.Int64Range(1, 20_000).Draw(rt, "deltas")
		bytes := rapid.OneOf(rapid.IntRange(1, 200), rapid.IntRange(1, 1<<20)).Draw(rt, "bytes")
		deltas = min(deltas, max(1, 8<<20/int64(bytes)))
		h := &counting{size: bytes, ids: map[string]bool{}}
		if _, err := c.Run(t.Context(), flood(deltas, bytes, 0), h); err != nil {
			rt.Fatal(err)
		}
		if h.wrong != "" {
			rt.Fatal(h.wrong)
		}
		if h.deltas != deltas || h.bytes != deltas*int64(bytes) {
			rt.Fatalf("%d deltas, %d bytes", h.deltas, h.bytes)
		}
		if h.longest > 1<<20 || h.open != 0 {
			rt.Fatalf("a message of %d bytes; %d left open", h.longest, h.open)
		}
	})
}

func TestFloodPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, nil)
		for _, rate := range []float64{0.5, 3, 1000, 123_456, 1e7} {
			h := &counting{ids: map[string]bool{}}
			deltas := int64(min(max(rate*2, 2), 200_000))
			start := time.Now()
			if _, err := c.Run(t.Context(), flood(deltas, 40, rate), h); err != nil {
				t.Fatal(err)
			}
			// The first comes at once, the last of n after n-1 pauses.
			want, took := float64(deltas-1)/rate, time.Since(start).Seconds()
			if h.deltas != deltas || took < want || took > want*1.01+0.001 {
				t.Errorf("rate %g: %d of %d deltas in %.6f s, want %.6f s", rate, h.deltas, deltas, took, want)
			}
		}
	})
}

func TestFloodStopsAtOnce(t *testing.T) {
	for _, rate := range []float64{0, 1e6} {
		ctx, cancel := context.WithCancelCause(t.Context())
		h := &counting{ids: map[string]bool{}, stopAt: 50_000, stop: func() { cancel(backends.ErrDeadline) }}
		_, err := open(t, nil).Run(ctx, flood(1_000_000_000, 40, rate), h)
		if !errors.Is(err, backends.ErrDeadline) {
			t.Errorf("error is %v", err)
		}
		if h.deltas > h.stopAt+5000 {
			t.Errorf("%d deltas after the cancel", h.deltas-h.stopAt)
		}
	}
}

// A stamp is the time at which the delta was said.
func TestFloodStamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := script(`[{"flood":{"deltas":500,"per_second":1000,"stamp":true}},{"flood":{"deltas":5,"bytes":20,"stamp":true}}]`)
		h := &stamped{t: t, sizes: map[int]int{40: 500, 20: 5}}
		if _, err := open(t, nil).Run(t.Context(), in, h); err != nil {
			t.Fatal(err)
		}
		if h.sizes[40] != 0 || h.sizes[20] != 0 {
			t.Errorf("of each size are missing: %v", h.sizes)
		}
	})
}

type stamped struct {
	t     *testing.T
	sizes map[int]int // of deltas that are to come
}

func (h *stamped) Emit(e events.Event) {
	d, ok := e.Data.(events.MessageDelta)
	if !ok {
		return
	}
	h.sizes[len(d.Delta)]--
	stamp, _, _ := strings.Cut(d.Delta, " ")
	if n, err := strconv.ParseInt(stamp, 10, 64); err != nil || n != time.Now().UnixNano() {
		h.t.Errorf("stamp of %q: %d, %v; now is %d", d.Delta, n, err, time.Now().UnixNano())
	}
}

func (*stamped) Request(context.Context, events.Request) backends.Pending { panic("no request") }

// A delta must cost the agent nothing, or the agent is what a load test measures.
func TestFloodAllocatesNothing(t *testing.T) {
	c := open(t, nil)
	in := flood(100_000, 40, 0)
	n := testing.AllocsPerRun(3, func() {
		if _, err := c.Run(t.Context(), in, discard{}); err != nil {
			t.Fatal(err)
		}
	})
	if n > 2000 {
		t.Errorf("%v allocations for 100,000 deltas", n)
	}
}

type discard struct{}

func (discard) Emit(events.Event)                                        {}
func (discard) Request(context.Context, events.Request) backends.Pending { panic("no request") }

func BenchmarkFlood(b *testing.B) {
	c := open(b, nil)
	in := flood(int64(b.N), 40, 0)
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := c.Run(b.Context(), in, discard{}); err != nil {
		b.Fatal(err)
	}
}
