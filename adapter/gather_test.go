package adapter_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/adapter"
)

// flushes models so many streams, each with so many events a second: after
// some windows, how often all of them are flushed together.
func flushes(streams, perSecond float64) (rate float64, pause time.Duration) {
	const window = 100 * time.Millisecond
	for range 100 {
		period := max(1/perSecond, pause.Seconds()+0.5/perSecond)
		rate = streams / period
		pause = adapter.NextGather(pause, int64(rate*window.Seconds()), window)
	}
	return rate, pause
}

// Few flushes wait for nothing. Many are brought down to about the number that
// a machine bears, and no frame waits for long.
func TestManyFlushesGather(t *testing.T) {
	for _, c := range []struct{ streams, perSecond float64 }{{1, 2000}, {16, 1000}, {100, 100}, {190, 100}} {
		if rate, pause := flushes(c.streams, c.perSecond); pause != 0 || rate < c.streams*c.perSecond*0.99 {
			t.Errorf("%+v: %.0f flushes a second, pause %v", c, rate, pause)
		}
	}
	for _, c := range []struct{ streams, perSecond float64 }{{600, 100}, {50, 2000}, {128, 10_000}} {
		if rate, pause := flushes(c.streams, c.perSecond); rate > adapter.ManyFlushes*1.05 || rate < adapter.ManyFlushes/3 || pause > adapter.LongestGather {
			t.Errorf("%+v: %.0f flushes a second, pause %v", c, rate, pause)
		}
	}
	if _, pause := flushes(1e6, 100); pause != adapter.LongestGather {
		t.Errorf("a million streams: pause %v", pause)
	}
	if pause := adapter.NextGather(adapter.LongestGather, 1, time.Minute); pause != 0 {
		t.Errorf("after a quiet minute: %v", pause)
	}
}

// While a stream gathers, nothing is lost: all comes after it, in order. A
// heartbeat does not wait for it, and takes along what is there.
func TestStreamsGather(t *testing.T) {
	for _, pause := range []time.Duration{20 * time.Millisecond, time.Hour} {
		s := serve(t, func(o *adapter.Options) { o.Heartbeat = 100 * time.Millisecond })
		s.adapter.Gather(pause)
		r := s.stream(t, "POST", "/message:stream", `{}`)
		run := <-s.fake.started
		r.want("session.task_id")
		for _, text := range []string{"a", "b", "c"} {
			run.say(t, delta(text), delta(text), delta(text))
			for range 3 {
				f, err := r.next()
				for f.typ == "heartbeat" {
					f, err = r.next()
				}
				if err != nil || f.typ != "assistant.message_delta" || !strings.Contains(f.data, `"delta":"`+text+`"`) {
					t.Fatalf("pause %v: %+v, %v", pause, f, err)
				}
			}
		}
		r.want("heartbeat")
		run.end(t)
		list := slices.DeleteFunc(r.finish(), func(f frame) bool { return f.typ == "heartbeat" })
		if got := types(list); got != "assistant.usage session.end" {
			t.Errorf("pause %v: %s", pause, got)
		}
	}
}
