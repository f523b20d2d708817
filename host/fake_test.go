package host_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/host"
)

func TestMain(m *testing.M) {
	checks := "20" // of properties, whose every check is a hundred connections
	if os.Getenv("INNERD_LONG") != "" {
		checks = "500"
	}
	if err := flag.Set("rapid.checks", checks); err != nil { // before the command line, which wins
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// fake is a server with one run, whose log a script writes. It can cut, delay
// and repeat what it sends.
type fake struct {
	t      *testing.T
	srv    *httptest.Server
	script func(*fake) // runs once, in the first POST's wake

	// plan says what happens on the n-th stream connection, from 0.
	plan func(n int) fault

	mu       sync.Mutex
	grown    chan struct{}
	frames   [][]byte
	ended    bool
	task     string
	request  api.Request
	streams  int
	posts    int
	cancels  []string
	pending  []api.Pending
	results  map[string][]api.ToolResult
	answers  map[string][]api.Answer
	loseAns  int // answers to results that get lost on the way
	extra    func(w http.ResponseWriter, r *http.Request) bool
	scripts  sync.WaitGroup
	canceled chan struct{}
}

type fault struct {
	cut      int           // abort after as many bytes of the body, if cuts
	cuts     bool          //
	noHeader bool          // close before any byte of an answer
	status   int           // answer this instead
	repeat   int64         // begin as many events earlier than asked
	skip     int64         // or later
	silent   bool          // send headers, then nothing
	delay    time.Duration // before the headers
	beat     bool          // send a heartbeat first
	noDone   bool          // end cleanly after what there is, before the run's end
}

func newFake(t *testing.T, script func(*fake)) *fake {
	f := &fake{
		t: t, script: script, grown: make(chan struct{}), canceled: make(chan struct{}),
		results: map[string][]api.ToolResult{}, answers: map[string][]api.Answer{},
	}
	f.srv = httptest.NewServer(f)
	t.Cleanup(func() {
		f.srv.CloseClientConnections()
		f.srv.Close()
		f.scripts.Wait()
	})
	return f
}

// client makes a client with short pauses.
func (f *fake) client(change ...func(*host.Options)) *host.Client {
	o := &host.Options{MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond}
	for _, c := range change {
		c(o)
	}
	c, err := host.New(f.srv.URL, o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.CloseIdleConnections)
	return c
}

func (f *fake) say(ds ...events.Data) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range ds {
		if f.ended {
			return
		}
		id := int64(len(f.frames) + 1)
		line, err := events.AppendLine(nil, id, 1700000000000, d)
		if err != nil {
			f.t.Error(err)
		}
		f.frames = append(f.frames, fmt.Appendf(nil, "id: %d\ndata: %s\n\n", id, line))
		if _, ok := d.(events.End); ok {
			f.ended = true
		}
	}
	close(f.grown)
	f.grown = make(chan struct{})
}

func (f *fake) begin() { f.say(events.TaskID{TaskID: f.taskID(), ContextID: "c", Backend: "simulate"}) }

func (f *fake) end() {
	f.say(events.Usage{Backend: "simulate"}, events.End{State: events.Completed, Reason: "end_turn"})
}

// result waits for the first result of a call.
func (f *fake) result(id string) api.ToolResult {
	for {
		f.mu.Lock()
		r, grown, over := f.results[id], f.grown, f.ended
		f.mu.Unlock()
		if len(r) > 0 {
			return r[0]
		}
		if over {
			return api.ToolResult{}
		}
		<-grown
	}
}

// waitFor waits until cond, which is asked with the lock held.
func (f *fake) waitFor(cond func() bool) {
	for {
		f.mu.Lock()
		ok, grown := cond() || f.ended, f.grown
		f.mu.Unlock()
		if ok {
			return
		}
		<-grown
	}
}

// seen is what a fake was asked so far. Tests look at it, never at the fake's
// own fields: a request that its client gave up may still be served.
type seen struct {
	posts, streams int
	request        api.Request
	cancels        []string
	results        map[string][]api.ToolResult
	answers        map[string][]api.Answer
	ended          bool
}

func (f *fake) taskID() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.task
}

func (f *fake) seen() seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := seen{
		posts: f.posts, streams: f.streams, request: f.request, cancels: slices.Clone(f.cancels), ended: f.ended,
		results: maps.Clone(f.results), answers: maps.Clone(f.answers),
	}
	for id, r := range s.results {
		s.results[id] = slices.Clone(r)
	}
	for id, a := range s.answers {
		s.answers[id] = slices.Clone(a)
	}
	return s
}

func (f *fake) wake() {
	close(f.grown)
	f.grown = make(chan struct{})
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.extra != nil && f.extra(w, r) {
		return
	}
	switch p := r.URL.Path; {
	case p == "/message:stream":
		f.post(w, r)
	case strings.HasSuffix(p, "/events"):
		after, _ := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
		f.stream(w, r, after)
	case strings.HasSuffix(p, ":cancel"):
		f.cancel(w, r)
	case strings.HasPrefix(p, "/tools/"):
		f.toolResult(w, r)
	case strings.Contains(p, "/requests/"):
		var a api.Answer
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			writeJSON(w, 400, api.Error{Detail: err.Error(), ErrorType: "invalid_request"})
			return
		}
		f.mu.Lock()
		id := p[strings.LastIndex(p, "/")+1:]
		f.answers[id] = append(f.answers[id], a)
		f.wake()
		f.mu.Unlock()
		writeJSON(w, 200, api.Task{ID: f.taskID()})
	default:
		f.mu.Lock()
		t := api.Task{ID: f.task, LastEventID: int64(len(f.frames)), Pending: f.pending}
		f.mu.Unlock()
		writeJSON(w, 200, t)
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (f *fake) post(w http.ResponseWriter, r *http.Request) {
	var req api.Request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		writeJSON(w, 400, api.Error{Detail: err.Error(), ErrorType: "invalid_request"})
		return
	}
	f.mu.Lock()
	f.posts++
	f.request = req
	first := f.task == ""
	f.task = req.Metadata.TaskID
	f.mu.Unlock()
	if first {
		f.scripts.Go(func() { f.script(f) })
	}
	f.stream(w, r, 0)
}

func (f *fake) stream(w http.ResponseWriter, r *http.Request, after int64) {
	f.mu.Lock()
	n := f.streams
	f.streams++
	f.mu.Unlock()
	var p fault
	if f.plan != nil {
		p = f.plan(n)
	}
	time.Sleep(p.delay)
	if p.noHeader {
		panic(http.ErrAbortHandler)
	}
	if p.status != 0 {
		w.Header().Set("Retry-After", "0.001")
		writeJSON(w, p.status, api.Error{Detail: "as planned", ErrorType: "internal"})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(200)
	_ = http.NewResponseController(w).Flush()
	if p.beat {
		_, _ = io.WriteString(w, "data: {\"type\":\"heartbeat\",\"data\":{\"status\":\"waiting\",\"elapsed_s\":15}}\n\n")
	}
	if p.silent {
		<-r.Context().Done()
		return
	}
	f.copy(w, r, max(0, after-p.repeat)+p.skip, p)
}

// copy sends frames until the run's end, or until the plan cuts it.
func (f *fake) copy(w http.ResponseWriter, r *http.Request, next int64, p fault) {
	left := p.cut
	send := func(b []byte) {
		if p.cuts && left < len(b) {
			_, _ = w.Write(b[:left])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		left -= len(b)
		_, _ = w.Write(b)
		_ = http.NewResponseController(w).Flush()
	}
	for {
		f.mu.Lock()
		frames, ended, grown := f.frames[min(int(next), len(f.frames)):], f.ended, f.grown
		f.mu.Unlock()
		for _, fr := range frames {
			send(fr)
			next++
		}
		if ended {
			send([]byte("data: [DONE]\n\n"))
			return
		}
		if p.noDone {
			return
		}
		select {
		case <-grown:
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fake) cancel(w http.ResponseWriter, r *http.Request) {
	var c api.Cancel
	_ = json.NewDecoder(r.Body).Decode(&c)
	f.mu.Lock()
	f.cancels = append(f.cancels, c.Reason)
	if len(f.cancels) == 1 {
		close(f.canceled)
	}
	f.mu.Unlock()
	f.say(events.NewError(events.ErrCanceled, c.Reason), events.End{State: events.Canceled})
	writeJSON(w, 200, api.Task{ID: f.taskID(), Status: api.TaskStatus{State: api.StateCanceled}})
}

func (f *fake) toolResult(w http.ResponseWriter, r *http.Request) {
	var res api.ToolResult
	if err := json.NewDecoder(r.Body).Decode(&res); err != nil { // cut on its way here
		writeJSON(w, 400, api.Error{Detail: err.Error(), ErrorType: "invalid_request"})
		return
	}
	id := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/tools/"), "/result")
	f.mu.Lock()
	f.results[id] = append(f.results[id], res)
	lost := len(f.results[id]) <= f.loseAns
	f.wake()
	f.mu.Unlock()
	if lost {
		panic(http.ErrAbortHandler)
	}
	writeJSON(w, 200, api.ToolResultStatus{Status: api.StatusOK, ToolCallID: id})
}

// hello is a run with text that is hard on line readers.
func hello(f *fake) {
	f.begin()
	f.say(events.ReasoningDelta{Delta: "hm", ReasoningID: "r1"}, events.Reasoning{Content: "hm", ReasoningID: "r1"})
	for _, s := range []string{"ha", "ha", "\u0085\u2028 🙂", "\n\ndata: x"} {
		f.say(events.MessageDelta{Delta: s, MessageID: "m1"})
	}
	f.say(events.Message{Content: "haha\u0085\u2028 🙂\n\ndata: x", MessageID: "m1"})
	f.end()
}

// collect reads a stream to its end and checks that each event came once.
func collect(t *testing.T, stream func(func(events.Event, error) bool)) []events.Event {
	t.Helper()
	var got []events.Event
	for ev, err := range stream {
		if err != nil {
			t.Fatalf("after %d events: %v", len(got), err)
		}
		if ev.ID == 0 {
			continue
		}
		if want := int64(len(got) + 1); ev.ID != want {
			t.Fatalf("event %d where %d was to come", ev.ID, want)
		}
		got = append(got, ev)
	}
	return got
}

func textOf(evs []events.Event) string {
	var b strings.Builder
	for _, ev := range evs {
		if d, ok := ev.Data.(events.MessageDelta); ok {
			b.WriteString(d.Delta)
		}
	}
	return b.String()
}

func prompt() host.Request { return host.Prompt("", "hello") }

// alive has the fake answer what an InnerLoop asks at its start.
func alive(*fake) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/health":
			writeJSON(w, 200, api.Health{Status: api.StatusOK})
		case "/backends":
			writeJSON(w, 200, api.Backends{Backends: []api.Backend{{Name: "simulate", Usable: true}}})
		default:
			return false
		}
		return true
	}
}
