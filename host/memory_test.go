package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/adapter/api"
	"innerd/events"
	"innerd/host"
)

// memory is a server without a socket, so that time can be virtual: what each
// start of a run gets is said by answer.
type memory struct {
	answer func(n int, req api.Request) any // []events.Data of a whole run, cut(…), or *api.Error with a status
	health error

	mu      sync.Mutex
	starts  int
	cancels int
	paths   []string
}

func (m *memory) set(health error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.health = health
}

// cut is a run whose stream breaks after some events, and can't be gone on with.
type cut []events.Data

// refusal is an answer without a run.
type refusal struct {
	status    int
	errorType string
	after     string // Retry-After
}

func (m *memory) RoundTrip(req *http.Request) (*http.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := context.Cause(req.Context()); err != nil {
		return nil, err
	}
	m.paths = append(m.paths, req.Method+" "+req.URL.Path)
	switch p := req.URL.Path; {
	case m.health != nil:
		return nil, m.health
	case p == "/health":
		return jsonAnswer(200, api.Health{Status: api.StatusOK, Backends: map[string]api.BackendHealth{}}), nil
	case p == "/backends":
		return jsonAnswer(200, api.Backends{Backends: []api.Backend{{Name: "simulate", Usable: true}, {Name: "codex", Why: "not there", Hint: "install it"}}}), nil
	case strings.HasSuffix(p, ":cancel"):
		m.cancels++
		return jsonAnswer(200, api.Task{}), nil
	case p == "/message:stream":
		body, _ := io.ReadAll(req.Body)
		var r api.Request
		if err := json.Unmarshal(body, &r); err != nil {
			return nil, err
		}
		n := m.starts
		m.starts++
		return m.run(m.answer(n, r)), nil
	case strings.HasSuffix(p, "/events"):
		return jsonAnswer(404, api.Error{Detail: "the server forgot it", ErrorType: api.ErrNotFound}), nil
	}
	return jsonAnswer(404, api.Error{Detail: "no such path", ErrorType: api.ErrNotFound}), nil
}

func jsonAnswer(status int, v any) *http.Response {
	raw, _ := json.Marshal(v)
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(raw)),
	}
}

func (m *memory) run(v any) *http.Response {
	switch v := v.(type) {
	case refusal:
		r := jsonAnswer(v.status, api.Error{Detail: "refused", ErrorType: v.errorType})
		if v.after != "" {
			r.Header.Set("Retry-After", v.after)
		}
		return r
	case cut:
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(frames(v)))}
	case []events.Data:
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(frames(v) + "data: [DONE]\n\n"))}
	}
	panic("no such answer")
}

func frames(data []events.Data) string {
	var b strings.Builder
	for i, d := range data {
		line, err := events.AppendLine(nil, int64(i+1), 1, d)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "id: %d\ndata: %s\n\n", i+1, line)
	}
	return b.String()
}

func (m *memory) client(t testing.TB) *host.Client {
	t.Helper()
	c, err := host.New("http://sandbox", &host.Options{Transport: m, MinBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var started = events.TaskID{TaskID: "t-12345678", ContextID: "c", Backend: "simulate"}

func ptr[T any](v T) *T { return &v }

// saying is a whole run that says a text and costs something.
func saying(text string) []events.Data {
	return []events.Data{
		started,
		events.MessageDelta{Delta: text, MessageID: "m1"},
		events.Message{Content: text, MessageID: "m1", FinishReason: "end_turn"},
		events.Usage{Cost: ptr(0.5), Backend: "simulate"},
		events.End{State: events.Completed, Reason: "end_turn"},
	}
}

// failing is a run that fails after it has said something, if that is not "".
func failing(errorType, said string) []events.Data {
	out := []events.Data{started}
	if said != "" {
		out = append(out, events.MessageDelta{Delta: said, MessageID: "m1"}, events.Message{Content: said, MessageID: "m1", Partial: true})
	}
	return append(out, events.NewError(errorType, "as planned"), events.End{State: events.Failed, Reason: errorType})
}

// nativeSays is a native loop that notes the requests that it got.
type nativeSays struct {
	text string
	got  []host.Request
}

func (n *nativeSays) Respond(_ context.Context, req host.Request) iter.Seq2[events.Event, error] {
	n.got = append(n.got, req)
	return host.Say(n.text, &events.Usage{Backend: "native", Cost: ptr(1.0)})
}

func newLoop(t testing.TB, m *memory, native host.Strategy, o *host.LoopOptions) *host.InnerLoop {
	t.Helper()
	l, err := host.NewInnerLoop(t.Context(), m.client(t), native, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask has a strategy answer, and gives all that came.
func ask(t testing.TB, s host.Strategy, req host.Request) (*host.Outcome, []events.Event, error) {
	t.Helper()
	var all []events.Event
	o, err := host.Collect(func(yield func(events.Event, error) bool) {
		for ev, err := range s.Respond(t.Context(), req) {
			if err == nil {
				all = append(all, ev)
			}
			if !yield(ev, err) {
				return
			}
		}
	})
	return o, all, err
}

var errDial = &net.OpError{Op: "dial", Err: errors.New("connection refused")}
