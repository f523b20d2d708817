package adapter_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"innerd/adapter"
	"innerd/adapter/api"
	"innerd/events"
	"innerd/events/journal"
	"innerd/runs"
	"innerd/telemetry"
)

// odd is sources whose every word is one that no set has.
func odd() adapter.Sources {
	var h telemetry.Histogram
	h.Observe(time.Second)
	return adapter.Sources{
		Runs: func() runs.Stats {
			return runs.Stats{
				Resolved: map[runs.Resolution]int64{{Kind: "odd", Outcome: "odd1"}: 1, {Kind: "odd", Outcome: "odd2"}: 2},
				Waits:    map[events.RequestKind]telemetry.Times{events.KindTool: h.Times()},
				Backends: map[string]runs.BackendStats{"simulate": {
					Ended: map[runs.Ending]int64{{State: "odd", ErrorType: "odd"}: 3, {State: events.Completed}: 4}, Starts: map[string]int64{"odd": 5},
					Conversations: map[string]int{"odd": 6}, Breaker: runs.BreakerInfo{State: "open", LastError: "odd"},
					Run: h.Times(), FirstDelta: h.Times(), Start: h.Times(), Unknown: 13,
				}},
			}
		},
		Log: func() journal.Stats {
			return journal.Stats{Events: map[events.Type]int64{"odd": 7, "": 8, events.TypeEnd: 9}, DiskFull: true, Lag: 10, WriteErrors: 14}
		},
		Requests: func() map[events.RequestKind]int { return map[events.RequestKind]int{"odd": 11} },
		Children: func() int { return 12 },
	}
}

// TestNoWordOfOthersIsALabel: what is not in a label's set is counted as other,
// together.
func TestNoWordOfOthersIsALabel(t *testing.T) {
	s := serve(t, nil)
	s.adapter.Watch(odd())
	s.adapter.Watch(adapter.Sources{}) // only the first counts
	code, _ := s.call(t, "ODD", "/odd", "")
	if code != http.StatusNotFound {
		t.Error(code)
	}
	_, text := s.call(t, "GET", "/metrics", "")
	for _, want := range []string{
		`innerd_requests_resolved_total{kind="other",outcome="other"} 3`,
		`innerd_runs_ended_total{backend="simulate",error_type="other",state="other"} 3`,
		`innerd_runs_ended_total{backend="simulate",error_type="none",state="completed"} 4`,
		`innerd_agent_starts_total{backend="simulate",result="other"} 5`,
		`innerd_conversations{backend="simulate",state="other"} 6`,
		`innerd_events_total{type="other"} 15`,
		`innerd_events_total{type="session.end"} 9`,
		`innerd_requests_open{kind="other"} 11`,
		`innerd_agent_processes 12`,
		`innerd_reader_lag_events 10`,
		`innerd_journal_disk_full 1`,
		`innerd_journal_write_errors_total 14`,
		`innerd_agent_unknown_messages_total{backend="simulate"} 13`,
		`innerd_breaker_state{backend="simulate",state="open"} 1`,
		`innerd_http_requests_total{code="404",method="other",route="other"} 1`,
		`innerd_run_first_delta_seconds_bucket{backend="simulate",le="1"} 1`,
		`innerd_run_first_delta_seconds_bucket{backend="simulate",le="0.5"} 0`,
		`go_goroutines `, `go_gc_heap_live_bytes `, `process_open_fds `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(text, "odd") {
		t.Error("a word of others is a label:\n" + text)
	}
}

// TestMetricsAreAsPrometheusWantsThem: names, units and help; and each that
// the docs list is there.
func TestMetricsAreAsPrometheusWantsThem(t *testing.T) {
	s := serve(t, nil)
	s.adapter.Watch(odd())
	_, _ = s.call(t, "GET", "/health", "")
	res := s.do(t, "GET", "/metrics", "")
	if ct := res.Header.Get("Content-Type"); !strings.HasPrefix(ct, "text/plain; version=0.0.4") {
		t.Error(ct)
	}
	problems, err := promlint.New(res.Body).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	_, text := s.call(t, "GET", "/metrics", "")
	n := 0
	for line := range strings.Lines(adapter.MetricsTable()) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			n++
			if !strings.Contains(text, "# TYPE "+name+" ") {
				t.Errorf("%s is documented, and not there", name)
			}
		}
	}
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE innerd_"); ok && !strings.Contains(adapter.MetricsTable(), "`innerd_"+strings.Fields(name)[0]+"`") {
			t.Errorf("innerd_%s is not documented", name)
		}
	}
	if n < 40 {
		t.Errorf("only %d", n)
	}
}

// TestAReaderThatStalls: it is seen how long it has taken nothing, and how far
// it is behind; not while it runs a tool.
func TestAReaderThatStalls(t *testing.T) {
	s := serve(t, nil)
	conn := rawStream(t, s, "HTTP/1.1", "/message:stream", "")
	run := <-s.fake.started
	<-run.attached
	look := func() (st api.StreamInfo, stall string) {
		t.Helper()
		var all api.Streams
		_, body := s.call(t, "GET", "/debug/streams", "")
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			t.Fatal(err)
		}
		_, text := s.call(t, "GET", "/metrics", "")
		_, stall, _ = strings.Cut(text, "\ninnerd_reader_stall_seconds ")
		stall, _, _ = strings.Cut(stall, "\n")
		return all.ActiveStreams[run.ID()], stall
	}
	until := time.Now().Add(time.Minute)
	for st, stall := look(); st.StallS != 0 || stall != "0"; st, stall = look() { // its first frame is on its way
		if time.Now().After(until) {
			t.Fatalf("%+v %s", st, stall)
		}
	}
	fill(t, run)
	for {
		st, stall := look()
		if st.StallS > 0 && st.Lag > 0 && stall != "0" {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%+v %s", st, stall)
		}
	}
	run.open.Store(true)
	if st, stall := look(); st.StallS != 0 || stall != "0" {
		t.Errorf("with a tool: %+v %s", st, stall)
	}
	_ = conn.Close()
	<-run.attached
	if _, text := s.call(t, "GET", "/metrics", ""); !strings.Contains(text, "innerd_http_streams_cut_total 0") {
		t.Error("who hangs up was cut")
	}
	run.end(t)
}

// TestTheHostsPlaceReachesTheRun: what is no place does not.
func TestTheHostsPlaceReachesTheRun(t *testing.T) {
	const place = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s := serve(t, nil)
	for given, want := range map[string]string{place: place, "odd": "", "": ""} {
		r := s.stream(t, "POST", "/message:stream", `{}`, "traceparent", given, "tracestate", "a=1")
		run := <-s.fake.started
		if got := s.fake.spec(t).Trace; got.Parent != want || (got.State == "a=1") != (want != "") {
			t.Errorf("%q: %+v", given, got)
		}
		run.end(t)
		r.finish()
	}
}
