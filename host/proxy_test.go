package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"innerd/events"
	"innerd/host"
	"innerd/test/proxy"
)

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
		var next []proxy.Fault
		for range 100 {
			fault := proxy.After(int64(rapid.IntRange(0, 700).Draw(rt, "bytes")), rapid.Bool().Draw(rt, "reset"))
			if rapid.IntRange(0, 9).Draw(rt, "deaf") == 0 {
				fault = proxy.Fault{} // the request is swallowed too
			}
			next = append(next, fault)
		}
		j := proxy.New(t, func() string { return f.srv.URL }, next...)
		o := &host.Options{MinBackoff: 1, MaxBackoff: 1e5}
		c, err := host.New(j.URL(), o)
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
		if _, left := j.Happened(); left > 0 {
			rt.Fatalf("only %d cuts", 100-left)
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
