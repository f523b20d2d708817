package adapter

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"innerd/events"
	"innerd/runs"
)

// The rule of labels: a value is one of a set that is known when the server
// starts. Nothing that a caller, an agent or a model says becomes one, so that
// nobody can make series; what is not in its set is counted as "other". A set
// that the table cannot name (nil) is made of this server's own words.

const otherValue = "other"

// label is a label and what it can be.
type label struct {
	name   string
	values []string // nil: made of the server's own words, which about says
	about  string
}

func (l label) clamp(v string) string {
	if l.values == nil || slices.Contains(l.values, v) {
		return v
	}
	return otherValue
}

// words is the set for the docs.
func (l label) words() string {
	if l.values == nil {
		return l.about
	}
	if l.about != "" {
		return l.about
	}
	return strings.Join(l.values, ", ")
}

type metricKind string

const (
	gauge     metricKind = "gauge"
	counter   metricKind = "counter"
	histogram metricKind = "histogram"
)

// metric is one that GET /metrics shows.
type metric struct {
	name   string
	kind   metricKind
	labels []label
	help   string
}

const noError = "none"

var (
	ofBackend = label{"backend", nil, "the backends of this server"}
	ofState   = label{"state", []string{events.Completed, events.Failed, events.Canceled}, ""}
	ofError   = label{"error_type", append(events.ErrorTypes(), noError), "the error types, or none"}
	ofStage   = label{"state", []string{runs.StageQueued, runs.StageWorking, runs.StageWaiting}, ""}
	ofType    = label{"type", eventTypes(), "the types of events"}
	ofKind    = label{"kind", []string{string(events.KindTool), string(events.KindPermission), string(events.KindQuestion)}, ""}
	ofOutcome = label{"outcome", []string{
		events.OutcomeOK, events.OutcomeError, events.OutcomeTimeout, events.OutcomeCanceled,
		events.OutcomeAllowed, events.OutcomeDenied, events.OutcomeExpired, events.OutcomeAnswered,
	}, ""}
	ofConversation = label{"state", []string{runs.ConversationRunning, runs.ConversationIdle, runs.ConversationCold}, ""}
	ofStart        = label{"result", []string{runs.StartOK, runs.StartFailed, runs.StartUnclear}, ""}
	ofBreaker      = label{"state", []string{"closed", "open", "half-open"}, ""}
	ofMethod       = label{"method", []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete, http.MethodOptions}, ""}
	ofRoute        = label{"route", nil, "the routes of this server"}
	ofCode         = label{"code", statusCodes(), "the statuses"}
	ofVersion      = label{"version", nil, "of innerd"}
	ofGo           = label{"goversion", nil, "of Go"}
)

// resolvedAs is how requests end, by kind.
var resolvedAs = map[events.RequestKind][]string{
	events.KindTool:       {events.OutcomeOK, events.OutcomeError, events.OutcomeTimeout, events.OutcomeCanceled},
	events.KindPermission: {events.OutcomeAllowed, events.OutcomeDenied, events.OutcomeExpired, events.OutcomeCanceled},
	events.KindQuestion:   {events.OutcomeAnswered, events.OutcomeExpired, events.OutcomeCanceled},
}

func eventTypes() []string {
	var out []string
	for _, t := range events.Types() {
		out = append(out, string(t))
	}
	return out
}

func statusCodes() []string {
	var out []string
	for code := 100; code < 600; code++ {
		if http.StatusText(code) != "" {
			out = append(out, strconv.Itoa(code))
		}
	}
	return out
}

// metrics is all of them, in the order of the docs. Those of the process and
// of Go stand beside them.
var metrics = []metric{
	{"innerd_build_info", gauge, []label{ofVersion, ofGo}, "1, with what was built"},
	{"innerd_ready", gauge, nil, "1 when the server takes runs, as GET /ready says"},

	{"innerd_runs", gauge, []label{ofBackend, ofStage}, "runs that are not over; waiting: for the host"},
	{"innerd_runs_accepted_total", counter, []label{ofBackend}, "runs that were accepted"},
	{"innerd_runs_ended_total", counter, []label{ofBackend, ofState, ofError}, "runs that ended; those that an earlier server left count too, as adapter_restarted"},
	{"innerd_run_duration_seconds", histogram, []label{ofBackend}, "from a run's acceptance to its end"},
	{"innerd_run_first_delta_seconds", histogram, []label{ofBackend}, "from a run's acceptance to the first piece of text or reasoning"},

	{"innerd_requests_open", gauge, []label{ofKind}, "requests that wait for their hosts"},
	{"innerd_requests_resolved_total", counter, []label{ofKind, ofOutcome}, "requests to hosts that ended"},
	{"innerd_request_duration_seconds", histogram, []label{ofKind}, "from a request to its end: how long hosts take"},

	{"innerd_conversations", gauge, []label{ofBackend, ofConversation}, "conversations; idle: with a warm agent, cold: without one"},
	{"innerd_conversations_warm_limit", gauge, nil, "agents that are kept at once, --max-warm"},
	{"innerd_agent_processes", gauge, nil, "processes of agents that the server has started and that run"},
	{"innerd_agent_starts_total", counter, []label{ofBackend, ofStart}, "agents that were started; unclear: canceled, or for a reason that says nothing of the machine"},
	{"innerd_agent_starts_running", gauge, nil, "agents that come up now"},
	{"innerd_agent_starts_limit", gauge, nil, "agents that may come up at once, --max-spawns"},
	{"innerd_agent_start_duration_seconds", histogram, []label{ofBackend}, "from an agent's start to its first sign of life"},
	{"innerd_agent_unknown_messages_total", counter, []label{ofBackend}, "what agents said and this version does not know; by type in GET /debug/streams"},
	{"innerd_backend_usable", gauge, []label{ofBackend}, "1 when it could run when it was asked last"},
	{"innerd_breaker_state", gauge, []label{ofBackend, ofBreaker}, "1 for the state that the breaker of the backend's starts is in"},

	{"innerd_events_total", counter, []label{ofType}, "events that were logged"},
	{"innerd_events_late_total", counter, nil, "events that came after the end of their run, or that were not the agent's to send"},
	{"innerd_events_dropped_total", counter, nil, "events that nobody saw, because the disk stayed full"},
	{"innerd_events_damaged_total", counter, nil, "events that could not be read any more"},

	{"innerd_readers", gauge, nil, "readers of logs: streams, A2A, push, and the server's own"},
	{"innerd_reader_lag_events", gauge, nil, "events that the slowest reader is behind"},
	{"innerd_reader_stall_seconds", gauge, nil, "how long the most patient stream has taken nothing of what is there for it"},
	{"innerd_http_streams", gauge, nil, "streams of POST /message:stream and GET /tasks/{id}/events that are open"},
	{"innerd_http_connections", gauge, nil, "connections of the HTTP and the gRPC listener"},
	{"innerd_http_waiting", gauge, nil, "calls that wait for the place of a stream, --max-connections"},
	{"innerd_http_streams_cut_total", counter, nil, "streams that ended before their log did, but for hosts that hung up"},
	{"innerd_http_requests_total", counter, []label{ofMethod, ofRoute, ofCode}, "requests that were answered; route other: none of ours, or refused before it was looked for"},

	{"innerd_journal_written_bytes_total", counter, nil, "bytes of events that the disk has taken"},
	{"innerd_journal_write_errors_total", counter, nil, "writes of events that failed"},
	{"innerd_journal_sync_errors_total", counter, nil, "syncs of events that failed"},
	{"innerd_journal_unwritten_bytes", gauge, nil, "bytes of events that wait for the disk, unseen"},
	{"innerd_journal_memory_bytes", gauge, nil, "bytes of events in memory, --log-memory at most"},
	{"innerd_journal_disk_bytes", gauge, nil, "bytes of events on disk, about"},
	{"innerd_journal_runs", gauge, nil, "runs that are kept, ended or not"},
	{"innerd_journal_waiting_runs", gauge, nil, "runs whose events wait for space"},
	{"innerd_journal_disk_full", gauge, nil, "1 when the disk was full and has taken nothing since"},
	{"innerd_journal_memory_only", gauge, nil, "1 when new runs are kept in memory only"},
}

// standard is what the client library of Prometheus tells of the process and
// of Go, as far as one needs it; GET /metrics has more.
var standard = []metric{
	{"process_resident_memory_bytes", gauge, nil, "memory of the server, without its agents"},
	{"process_cpu_seconds_total", counter, nil, "CPU of the server, without its agents"},
	{"process_open_fds", gauge, nil, "descriptors that are open"},
	{"process_max_fds", gauge, nil, "and how many can be"},
	{"process_start_time_seconds", gauge, nil, "when the server was started, as Unix time"},
	{"go_goroutines", gauge, nil, "goroutines"},
	{"go_gc_heap_live_bytes", gauge, nil, "heap that the last collection found in use"},
	{"go_memstats_heap_inuse_bytes", gauge, nil, "heap that is in use, or not collected yet"},
}

// MetricsTable is the metrics as Markdown.
func MetricsTable() string {
	var b strings.Builder
	b.WriteString("| Metric | Kind | Labels | What |\n|---|---|---|---|\n")
	for _, m := range slices.Concat(metrics, standard) {
		var labels []string
		for _, l := range m.labels {
			labels = append(labels, "`"+l.name+"`: "+l.words())
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, strings.Join(labels, "; "), m.help)
	}
	return b.String()
}
