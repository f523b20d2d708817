package adapter

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"innerd/events"
	"innerd/events/journal"
	"innerd/runs"
	"innerd/telemetry"
)

// Sources are what GET /metrics and GET /debug/streams look at, each time that
// they are asked: nothing is counted for them on the way of an event. What is
// nil is not shown.
type Sources struct {
	Runs     func() runs.Stats
	Live     func(owner string) []runs.LiveRun
	Log      func() journal.Stats
	Requests func() map[events.RequestKind]int
	Children func() int // processes of agents
}

// Watch gives the sources, once they are there. Only the first call counts.
func (s *Server) Watch(src Sources) { s.sources.CompareAndSwap(nil, &src) }

// metricsPage is GET /metrics; made when it is asked for the first time.
type metricsPage struct {
	once    sync.Once
	handler http.Handler
}

func (s *Server) getMetrics(c *gin.Context) error {
	s.page.once.Do(func() { s.page.handler = promhttp.HandlerFor(s.registry(), promhttp.HandlerOpts{}) })
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(answerTime))
	s.page.handler.ServeHTTP(c.Writer, c.Request)
	return nil
}

// registry is the server's own metrics, those of the process and of Go.
func (s *Server) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		newScrape(s),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
			collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)},
		)),
	)
	return r
}

// httpCounts counts requests. The zero value is ready.
type httpCounts struct {
	mu       sync.Mutex
	requests map[httpRequest]int64
	cut      int64
}

type httpRequest struct {
	method, route string
	code          int
}

func (h *httpCounts) request(method, route string, code int) {
	if route == "" {
		route = otherValue
	}
	method = ofMethod.clamp(method)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.requests == nil {
		h.requests = map[httpRequest]int64{}
	}
	h.requests[httpRequest{method, route, code}]++
}

// streamCut counts a stream that we ended: who hung up is not cut.
func (h *httpCounts) streamCut(request context.Context, err error) {
	if request.Err() != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut++
}

// answered remembers the status and the size of an answer.
type answered struct {
	http.ResponseWriter
	code int
	n    int64 // bytes of its body
}

func (a *answered) Write(p []byte) (int, error) {
	n, err := a.ResponseWriter.Write(p)
	a.n += int64(n)
	return n, err
}

func (a *answered) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
	a.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// serveCounted serves a request of a mount, whose prefix is its route.
func (s *Server) serveCounted(m *Mount, w http.ResponseWriter, r *http.Request) {
	a := &answered{ResponseWriter: w}
	defer func() {
		PutDown(r.Context())
		s.counts.request(r.Method, m.Prefix, cmp.Or(a.code, http.StatusOK))
		s.scales.done(a.n)
	}()
	m.Handler.ServeHTTP(a, r)
}

// counted counts the requests that were routed.
func (s *Server) counted(c *gin.Context) {
	defer func() {
		s.counts.request(c.Request.Method, strings.ReplaceAll(c.FullPath(), `\`, ""), c.Writer.Status())
		s.scales.done(int64(c.Writer.Size()))
	}()
	c.Next()
}

// refuse answers a request that is not routed.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, _ := statusOf(err)
	s.counts.request(r.Method, "", status)
	s.fail(w, r, err)
}

// scrape makes the metrics of the sources, when it is asked.
type scrape struct {
	s     *Server
	table map[string]metric
	descs map[string]*prometheus.Desc
}

func newScrape(s *Server) *scrape {
	x := &scrape{s: s, table: map[string]metric{}, descs: map[string]*prometheus.Desc{}}
	for _, m := range metrics {
		var names []string
		for _, l := range m.labels {
			names = append(names, l.name)
		}
		x.table[m.name] = m
		x.descs[m.name] = prometheus.NewDesc(m.name, m.help, names, nil)
	}
	return x
}

// Describe implements prometheus.Collector.
func (x *scrape) Describe(out chan<- *prometheus.Desc) {
	for _, d := range x.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (x *scrape) Collect(out chan<- prometheus.Metric) {
	p := &series{x: x, values: map[string]map[string]*sample{}}
	p.set("innerd_build_info", 1, x.s.opt.Version, runtime.Version())
	p.flag("innerd_ready", len(x.s.notReady()) == 0)
	x.http(p)
	if src := x.s.sources.Load(); src != nil {
		x.domain(p, src)
	}
	p.give(out)
}

func (x *scrape) http(p *series) {
	count, stall := x.s.streams.measure()
	p.set("innerd_http_streams", float64(count))
	p.set("innerd_reader_stall_seconds", stall.Seconds())
	p.set("innerd_http_connections", float64(x.s.opt.Places.Connections()))
	p.set("innerd_http_waiting", float64(x.s.opt.Places.Waiting()))
	h := &x.s.counts
	h.mu.Lock()
	defer h.mu.Unlock()
	p.set("innerd_http_streams_cut_total", float64(h.cut))
	for r, n := range h.requests {
		p.set("innerd_http_requests_total", float64(n), r.method, r.route, strconv.Itoa(r.code))
	}
}

func (x *scrape) domain(p *series, src *Sources) {
	if src.Runs != nil {
		x.runs(p, src.Runs())
	}
	if src.Log != nil {
		x.log(p, src.Log())
	}
	if src.Requests != nil {
		for kind, n := range src.Requests() {
			p.set("innerd_requests_open", float64(n), string(kind))
		}
	}
	if src.Children != nil {
		p.set("innerd_agent_processes", float64(src.Children()))
	}
}

func (x *scrape) runs(p *series, st runs.Stats) {
	p.set("innerd_conversations_warm_limit", float64(st.MaxWarm))
	p.set("innerd_agent_starts_running", float64(st.Starting))
	p.set("innerd_agent_starts_limit", float64(st.MaxStarting))
	p.set("innerd_events_late_total", float64(st.Late))
	for kind, outcomes := range resolvedAs {
		for _, o := range outcomes {
			p.set("innerd_requests_resolved_total", 0, string(kind), o)
		}
	}
	for r, n := range st.Resolved {
		p.set("innerd_requests_resolved_total", float64(n), string(r.Kind), r.Outcome)
	}
	for kind, t := range st.Waits {
		p.times("innerd_request_duration_seconds", t, string(kind))
	}
	for name, b := range st.Backends {
		x.backend(p, name, b)
	}
}

func (x *scrape) backend(p *series, name string, b runs.BackendStats) {
	p.set("innerd_runs", float64(b.Queued), name, runs.StageQueued)
	p.set("innerd_runs", float64(b.Working), name, runs.StageWorking)
	p.set("innerd_runs", float64(b.Waiting), name, runs.StageWaiting)
	p.set("innerd_runs_accepted_total", float64(b.Accepted), name)
	// Those that have not been are 0, and not absent: Prometheus sees no increase
	// in a series that begins with its first one.
	p.set("innerd_runs_ended_total", 0, name, events.Completed, noError)
	p.set("innerd_runs_ended_total", 0, name, events.Canceled, events.ErrCanceled)
	for _, t := range events.ErrorTypes() {
		if t != events.ErrCanceled {
			p.set("innerd_runs_ended_total", 0, name, events.Failed, t)
		}
	}
	for _, result := range ofStart.values {
		p.set("innerd_agent_starts_total", 0, name, result)
	}
	for e, n := range b.Ended {
		errorType := e.ErrorType
		if errorType == "" {
			errorType = noError
		}
		p.set("innerd_runs_ended_total", float64(n), name, e.State, errorType)
	}
	for state, n := range b.Conversations {
		p.set("innerd_conversations", float64(n), name, state)
	}
	for result, n := range b.Starts {
		p.set("innerd_agent_starts_total", float64(n), name, result)
	}
	p.set("innerd_agent_unknown_messages_total", float64(b.Unknown), name)
	p.flag("innerd_backend_usable", b.Usable, name)
	for _, state := range ofBreaker.values {
		p.flag("innerd_breaker_state", b.Breaker.State == state, name, state)
	}
	p.times("innerd_run_duration_seconds", b.Run, name)
	p.times("innerd_run_first_delta_seconds", b.FirstDelta, name)
	p.times("innerd_agent_start_duration_seconds", b.Start, name)
}

func (x *scrape) log(p *series, st journal.Stats) {
	for t, n := range st.Events {
		p.set("innerd_events_total", float64(n), string(t))
	}
	for name, v := range map[string]int64{
		"innerd_events_dropped_total": st.Dropped, "innerd_events_damaged_total": st.Damaged,
		"innerd_readers": int64(st.Readers), "innerd_reader_lag_events": st.Lag,
		"innerd_journal_written_bytes_total": st.Written, "innerd_journal_write_errors_total": st.WriteErrors,
		"innerd_journal_sync_errors_total": st.SyncErrors, "innerd_journal_unwritten_bytes": st.Unwritten,
		"innerd_journal_memory_bytes": st.MemoryBytes, "innerd_journal_disk_bytes": st.DiskBytes,
		"innerd_journal_runs": int64(st.Runs), "innerd_journal_waiting_runs": int64(st.Full),
	} {
		p.set(name, float64(v))
	}
	p.flag("innerd_journal_disk_full", st.DiskFull)
	p.flag("innerd_journal_memory_only", st.MemoryOnly)
}

// series gathers the samples of one scrape: what the rule of labels makes the
// same is added up.
type series struct {
	x      *scrape
	values map[string]map[string]*sample // by metric and labels
}

type sample struct {
	labels []string
	value  float64
	times  telemetry.Times
}

func (p *series) at(name string, labels []string) *sample {
	m := p.x.table[name]
	key, kept := "", make([]string, len(m.labels))
	for i, l := range m.labels {
		kept[i] = l.clamp(labels[i])
		key += kept[i] + "\x00"
	}
	if p.values[name] == nil {
		p.values[name] = map[string]*sample{}
	}
	if p.values[name][key] == nil {
		p.values[name][key] = &sample{labels: kept}
	}
	return p.values[name][key]
}

func (p *series) set(name string, v float64, labels ...string) { p.at(name, labels).value += v }

func (p *series) flag(name string, on bool, labels ...string) {
	v := 0.0
	if on {
		v = 1
	}
	p.set(name, v, labels...)
}

func (p *series) times(name string, t telemetry.Times, labels ...string) {
	p.at(name, labels).times = t
}

func (p *series) give(out chan<- prometheus.Metric) {
	for name, all := range p.values {
		for _, v := range all {
			switch p.x.table[name].kind {
			case histogram:
				out <- prometheus.MustNewConstHistogram(p.x.descs[name], v.times.Count, v.times.Sum, v.times.Buckets, v.labels...)
			case counter:
				out <- prometheus.MustNewConstMetric(p.x.descs[name], prometheus.CounterValue, v.value, v.labels...)
			default:
				out <- prometheus.MustNewConstMetric(p.x.descs[name], prometheus.GaugeValue, v.value, v.labels...)
			}
		}
	}
}
