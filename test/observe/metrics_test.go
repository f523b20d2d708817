//go:build linux

package observe_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/test/server"
)

// scrape reads GET /metrics as Prometheus does.
func scrape(t *testing.T, s *server.Server) map[string]*dto.MetricFamily {
	t.Helper()
	status, text := s.Call(http.MethodGet, "/metrics", nil)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	p := expfmt.NewTextParser(model.LegacyValidation)
	out, err := p.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// value sums the samples of a metric whose labels are these.
func value(all map[string]*dto.MetricFamily, name string, labels ...string) (sum float64) {
	for _, m := range all[name].GetMetric() {
		if has(m, labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// has reports whether a sample has these labels.
func has(m *dto.Metric, labels []string) bool {
	have := map[string]string{}
	for _, l := range m.Label {
		have[l.GetName()] = l.GetValue()
	}
	for i := 0; i < len(labels); i += 2 {
		if have[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// awaits waits until a metric says what it should: what a run was is counted
// when its readers have its end.
func awaits(t *testing.T, s *server.Server, want float64, name string, labels ...string) {
	t.Helper()
	server.Eventually(t, fmt.Sprint(name, labels, " is ", want), func() bool { return value(scrape(t, s), name, labels...) == want })
}

func lookup(t *testing.T, s *server.Server, p *server.Tape) {
	t.Helper()
	s.Result(server.Until[events.ToolRequest](p, 1).ToolCallID, map[string]any{"result": "x"})
}

var bridged = map[string]any{"native_tool_schemas": []any{map[string]any{"name": "lookup", "description": "d", "parameters": map[string]any{"type": "object"}}}}

func TestMetricsSayWhatWas(t *testing.T) {
	s := server.New(t, innerd)
	s.Start()
	p := s.Post(t, simulated("ctx", working, bridged))
	server.Until[events.ToolRequest](p, 1)
	awaits(t, s, 1, "innerd_runs", "backend", "simulate", "state", "waiting")
	awaits(t, s, 1, "innerd_requests_open", "kind", "tool")
	awaits(t, s, 1, "innerd_http_streams")
	lookup(t, s, p)
	p.Completed()
	s.Post(t, simulated("", `[{"error":{"error_type":"overloaded","message":"m"}}]`, nil)).Whole()
	awaits(t, s, 1, "innerd_runs_ended_total", "backend", "simulate", "state", "failed", "error_type", "overloaded")
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "innerd_ready", nil},
		{1, "innerd_build_info", nil},
		{2, "innerd_runs_accepted_total", []string{"backend", "simulate"}},
		{1, "innerd_runs_ended_total", []string{"state", "completed", "error_type", "none"}},
		{2, "innerd_run_duration_seconds", []string{"backend", "simulate"}},
		{1, "innerd_run_first_delta_seconds", []string{"backend", "simulate"}},
		{0, "innerd_runs", nil},
		{1, "innerd_requests_resolved_total", []string{"kind", "tool", "outcome", "ok"}},
		{1, "innerd_request_duration_seconds", []string{"kind", "tool"}},
		{1, "innerd_conversations", []string{"backend", "simulate", "state", "idle"}},
		{2, "innerd_agent_starts_total", []string{"backend", "simulate"}},
		{1, "innerd_breaker_state", []string{"backend", "simulate", "state", "closed"}},
		{1, "innerd_backend_usable", []string{"backend", "simulate"}},
		{2, "innerd_events_total", []string{"type", "session.end"}},
		{1, "innerd_events_total", []string{"type", "tool.execution_request"}},
		{2, "innerd_http_requests_total", []string{"method", "POST", "route", "/message:stream", "code", "200"}},
		{1, "innerd_http_requests_total", []string{"method", "POST", "route", "/tools/:id/result", "code", "200"}},
		{2, "innerd_journal_runs", nil},
		{0, "innerd_journal_memory_only", nil},
		{0, "innerd_journal_disk_full", nil},
		{0, "innerd_http_streams_cut_total", nil},
	} {
		awaits(t, s, c.want, c.name, c.labels...)
	}
	if all := scrape(t, s); value(all, "innerd_journal_written_bytes_total") < 500 || value(all, "innerd_journal_disk_bytes") < 500 {
		t.Error("nothing was written")
	}
	s.Kill()
	s.Start()
	if all := scrape(t, s); value(all, "innerd_journal_runs") != 2 {
		t.Error("runs are forgotten")
	}
}

// TestARunThatWasLeftIsCounted: its end is written by the next server.
func TestARunThatWasLeftIsCounted(t *testing.T) {
	s := server.New(t, innerd)
	s.Start()
	server.Until[events.ToolRequest](s.Post(t, simulated("", working, bridged)), 1)
	s.Kill()
	s.Start()
	awaits(t, s, 1, "innerd_runs_ended_total", "backend", "simulate", "state", "failed", "error_type", "adapter_restarted")
}

// TestWhatAlertsCountBeginsAtZero: in a series that begins with its first one
// there is no increase, and the alert on it would miss that.
func TestWhatAlertsCountBeginsAtZero(t *testing.T) {
	s := server.New(t, innerd)
	s.Start()
	s.Post(t, simulated("", `[{"text":"done"}]`, nil)).Completed()
	awaits(t, s, 1, "innerd_runs_ended_total")
	all := scrape(t, s)
	for _, c := range [][]string{
		{"innerd_runs_ended_total", "backend", "simulate", "state", "failed", "error_type", "auth"},
		{"innerd_runs_ended_total", "backend", "simulate", "state", "failed", "error_type", "backend_crashed"},
		{"innerd_runs_ended_total", "backend", "simulate", "state", "failed", "error_type", "stalled"},
		{"innerd_runs_ended_total", "backend", "simulate", "state", "canceled", "error_type", "canceled"},
		{"innerd_agent_starts_total", "backend", "simulate", "result", "failed"},
		{"innerd_requests_resolved_total", "kind", "tool", "outcome", "timeout"},
		{"innerd_requests_resolved_total", "kind", "permission", "outcome", "expired"},
		{"innerd_requests_resolved_total", "kind", "question", "outcome", "expired"},
		{"innerd_agent_unknown_messages_total", "backend", "simulate"},
	} {
		found := 0
		for _, m := range all[c[0]].GetMetric() {
			if has(m, c[1:]) {
				found++
			}
		}
		if found != 1 || value(all, c[0], c[1:]...) != 0 {
			t.Errorf("%q: %d series", c, found)
		}
	}
}

var metricName = regexp.MustCompile(`\b(?:innerd|go|process)_[a-z0-9_]+\b`)

// TestDashboardAndRulesNameWhatIsThere: each metric that they name is in a
// scrape. What a query is otherwise, test/promql knows.
func TestDashboardAndRulesNameWhatIsThere(t *testing.T) {
	s := server.New(t, innerd)
	s.Start()
	s.Post(t, simulated("", `[{"text":"done"}]`, nil)).Completed()
	awaits(t, s, 1, "innerd_runs_ended_total")
	there := map[string]bool{}
	for name, f := range scrape(t, s) {
		there[name] = true
		if f.GetType() == dto.MetricType_HISTOGRAM {
			there[name+"_bucket"], there[name+"_sum"], there[name+"_count"] = true, true, true
		}
	}
	for _, path := range []string{"../../deploy/grafana/innerd.json", "../../deploy/prometheus/rules.yaml", "../../docs/observability.md"} {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		names := metricName.FindAllString(string(raw), -1)
		if len(names) < 20 {
			t.Errorf("%s: only %d names", path, len(names))
		}
		for _, name := range names {
			if !there[name] {
				t.Errorf("%s names %s, which a server does not show", path, name)
			}
		}
	}
}

// TestNobodyMakesSeries puts made-up words into every place that a caller can
// fill. No label has one, and there are no more series after it than before.
func TestNobodyMakesSeries(t *testing.T) {
	s := server.New(t, innerd)
	s.Start()
	hostile := func(i int) {
		word := fmt.Sprintf("madeup%d", i)
		s.Header = map[string]string{"traceparent": word, "tracestate": word, "User-Agent": word, "X-Forwarded-Host": word}
		meta := map[string]any{"native_tool_schemas": []any{map[string]any{"name": word, "parameters": map[string]any{"type": "object"}}}, "source": word, "model": word}
		script := `[{"tool":{"name":"` + word + `"}},{"call":{"tool":"` + word + `","arguments":{}}},{"error":{"error_type":"overloaded","message":"` + word + `"}}]`
		p := s.Post(t, simulated(word, script, meta))
		lookup(t, s, p)
		p.Whole()
		strange(t, s, "MADEUP", "/"+word)
		strange(t, s, http.MethodGet, "/tasks/"+word)
		strange(t, s, http.MethodGet, "/a2a/"+word)
		strange(t, s, http.MethodPost, "/message:stream")
	}
	// What was answered is counted when its handler returns: all of it makes its
	// series before they are counted.
	counted := func(rounds int) {
		awaits(t, s, float64(rounds), "innerd_runs_ended_total", "backend", "simulate")
		server.Eventually(t, "all calls are counted", func() bool {
			all := scrape(t, s)
			return value(all, "innerd_http_requests_total")-value(all, "innerd_http_requests_total", "route", "/metrics") == float64(6*rounds)
		})
	}
	hostile(0)
	counted(1)
	before := count(t, s)
	const rounds = 20
	for i := range rounds {
		hostile(1 + i)
	}
	counted(1 + rounds)
	if after := count(t, s); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	for name, f := range scrape(t, s) {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if strings.Contains(strings.ToLower(l.GetValue()), "madeup") {
					t.Errorf("%s has the label %s=%q", name, l.GetName(), l.GetValue())
				}
			}
		}
	}
}

// strange makes a request that no description has.
func strange(t *testing.T, s *server.Server, method, path string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Key())
	resp, err := plain.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

var plain = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func count(t *testing.T, s *server.Server) (n int) {
	t.Helper()
	for name, f := range scrape(t, s) {
		if strings.HasPrefix(name, "innerd_") {
			n += len(f.Metric)
		}
	}
	return n
}

// TestWhoMayLook: metrics and debug pages are behind the key unless a flag
// opens them, profiles are off unless one turns them on.
func TestWhoMayLook(t *testing.T) {
	get := func(t *testing.T, s *server.Server, path, key string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := plain.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // only read
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	for _, c := range []struct {
		flags []string
		open  map[string]int // by path, without a key
		keyed map[string]int // with one
	}{
		{nil, map[string]int{"/metrics": 401, "/debug/streams": 401, "/debug/pprof/": 401, "/debug/pprof/heap": 401}, map[string]int{"/metrics": 200, "/debug/streams": 200, "/debug/pprof/": 404, "/debug/pprof/heap": 404}},
		{[]string{"--open-metrics", "--pprof"}, map[string]int{"/metrics": 200, "/debug/streams": 401, "/debug/pprof/heap": 401, "/tasks": 401}, map[string]int{"/debug/pprof/": 200, "/debug/pprof/heap": 200, "/debug/pprof/goroutine": 200, "/debug/pprof/cmdline": 404, "/debug/pprof/symbol": 404}},
		{[]string{"--open-debug", "--pprof"}, map[string]int{"/metrics": 401, "/debug/streams": 200, "/debug/pprof/": 200, "/debug/../tasks": 404, "/debug/../metrics": 404}, nil},
	} {
		t.Run(strings.Join(c.flags, " "), func(t *testing.T) {
			s := server.New(t, innerd)
			s.Args = append(s.Args, c.flags...)
			s.Start()
			for path, want := range c.open {
				if got := get(t, s, path, ""); got != want {
					t.Errorf("%s without a key: %d, not %d", path, got, want)
				}
			}
			for path, want := range c.keyed {
				if got := get(t, s, path, s.Key()); got != want {
					t.Errorf("%s: %d, not %d", path, got, want)
				}
			}
		})
	}
}

// TestDebugStreamsShowsARun: what its owner asks for while it runs.
func TestDebugStreamsShowsARun(t *testing.T) {
	s := server.New(t, innerd)
	s.Start()
	p := s.Post(t, simulated("ctx", working, bridged))
	server.Until[events.ToolRequest](p, 1)
	queued := s.Post(t, simulated("other", `[{"call":{"tool":"lookup","arguments":{}}}]`, bridged))
	server.Until[events.ToolRequest](queued, 1)
	var got api.Streams
	// A reader has what came before when its stream looks for more.
	server.Eventually(t, "nobody is behind", func() bool {
		got = api.Streams{}
		s.Do(http.MethodGet, "/debug/streams", nil, &got)
		return got.Runs[p.TaskID()].Lag == 0 && got.ActiveStreams[p.TaskID()].Lag == 0
	})
	r := got.Runs[p.TaskID()]
	if r.State != "waiting" || r.Backend != "simulate" || r.ConversationID == "" || r.Readers != 1 || r.Pending != 1 || r.LastEventID < 4 || r.Lag != 0 {
		t.Errorf("%+v", r)
	}
	if st := got.ActiveStreams[p.TaskID()]; st.Readers != 1 || st.Lag != 0 || st.StallS != 0 {
		t.Errorf("%+v", st)
	}
	if got.StreamCount != 2 || len(got.Runs) != 2 || got.Pool == nil || got.Pool.WarmLimit < 2 || got.Log == nil || got.Log.Live != 2 || got.Log.Readers != 2 {
		raw, _ := json.Marshal(got) // for the message
		t.Errorf("%s", raw)
	}
	if b := got.Backends["simulate"]; b.Runs["waiting"] != 2 || b.Conversations["running"] != 2 || b.Breaker.State != "closed" {
		t.Errorf("%+v", b)
	}
	lookup(t, s, p)
	lookup(t, s, queued)
	p.Completed()
	queued.Whole()
	server.Eventually(t, "no run is shown", func() bool {
		var after api.Streams
		s.Do(http.MethodGet, "/debug/streams", nil, &after)
		return len(after.Runs) == 0 && after.Pool.Warm == 2
	})
}

// TestTheLogNamesRuns: each line about a run, or a conversation, says of which
// conversation and backend, and none has what was said.
func TestTheLogNamesRuns(t *testing.T) {
	s := server.New(t, innerd)
	s.Args = append(s.Args, "--log-level", "debug")
	s.Start()
	p := s.Post(t, simulated("ctx", working, bridged))
	lookup(t, s, p)
	p.Completed()
	s.Post(t, simulated("", `[{"text":"canary"},{"error":{"error_type":"overloaded","message":"canary"}}]`, nil)).Whole()
	server.Until[events.ToolRequest](s.Post(t, simulated("", working, bridged)), 1)
	server.Eventually(t, "both ends are in the log", func() bool { return strings.Count(s.Log(), `"msg":"run ended"`) == 2 })
	s.Kill()
	s.Start()
	s.Stop()
	ended := 0
	for line := range strings.Lines(s.Log()) {
		var rec map[string]any
		if json.Unmarshal([]byte(line), &rec) != nil {
			t.Errorf("no JSON: %s", line)
			continue
		}
		if _, odd := rec["task"]; odd {
			t.Errorf("a run by another name: %s", line)
		}
		if rec["run"] == nil && rec["conversation"] == nil {
			continue
		}
		for _, key := range []string{"conversation", "backend"} {
			if text, _ := rec[key].(string); text == "" {
				t.Errorf("no %s in %s", key, line)
			}
		}
		if slices.Contains([]string{"run ended", "run of an earlier server ended"}, fmt.Sprint(rec["msg"])) {
			ended++
		}
	}
	if ended != 3 {
		t.Errorf("%d runs ended in the log", ended)
	}
	for _, word := range []string{"canary", "what the user says", s.Key()} {
		if strings.Contains(s.Log(), word) {
			t.Errorf("the log has %q", word)
		}
	}
}
