package a2a_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"innerd/adapter/a2a/extension"
	"innerd/adapter/a2a/spec"
	"innerd/test/a2a/rig"
	"innerd/test/contract"
)

// soon is how long a test waits for what should come at once, on a busy machine.
const soon = 3 * time.Minute

func start(t testing.TB, o rig.Options) *rig.Server {
	t.Helper()
	s, err := rig.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s
}

// client calls a server as one caller.
type client struct {
	t   testing.TB
	url string // of HTTP+JSON
	key string
	ext bool
	hdr map[string]string
}

func newClient(t testing.TB, s *rig.Server) *client { return &client{t: t, url: s.URL + "/a2a"} }

func (c *client) with(change func(*client)) *client {
	d := *c
	change(&d)
	return &d
}

// keepNone compares what is answered with docs/openapi.json.
var keepNone = &http.Client{Transport: contract.Transport(&http.Transport{DisableKeepAlives: true}, nil)}

func (c *client) request(ctx context.Context, method, path string, body any) *http.Request {
	c.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			c.t.Fatal(err)
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(contract.With(ctx, c.t), method, c.url+path, r)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("A2A-Version", "1.0")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if c.ext {
		req.Header.Set("A2A-Extensions", "urn:other:ext, "+extension.URI)
	}
	for k, v := range c.hdr {
		req.Header.Set(k, v)
	}
	return req
}

func (c *client) raw(method, path string, body any) (*http.Response, []byte) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), soon)
	defer cancel()
	resp, err := keepNone.Do(c.request(ctx, method, path, body))
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp, raw
}

// do makes a call that must succeed.
func do[T any](c *client, method, path string, body any) (v T) {
	c.t.Helper()
	resp, raw := c.raw(method, path, body)
	if resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%s %s: %s: %s", method, path, resp.Status, raw)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		c.t.Fatalf("%s %s: %v: %s", method, path, err, raw)
	}
	return v
}

// refused makes a call that must fail with a reason.
func (c *client) refused(reason, method, path string, body any) string {
	c.t.Helper()
	resp, raw := c.raw(method, path, body)
	if resp.StatusCode < 400 || !strings.Contains(string(raw), `"reason":"`+reason+`"`) {
		c.t.Errorf("%s %s: %s, want the reason %s: %s", method, path, resp.Status, reason, raw)
	}
	return string(raw)
}

var messages int

// message is one of a client; change alters it.
func message(prefix, text string, change ...func(*spec.Message)) *spec.SendMessageRequest {
	messages++
	m := &spec.Message{MessageID: fmt.Sprintf("%s-%d", prefix, messages), Role: spec.RoleUser, Parts: []spec.Part{spec.Text(text)}}
	for _, f := range change {
		f(m)
	}
	return &spec.SendMessageRequest{Message: m}
}

func inTask(id string) func(*spec.Message) { return func(m *spec.Message) { m.TaskID = id } }

// settings puts words of the extension into a message.
func settings(v map[string]any) func(*spec.Message) {
	return func(m *spec.Message) {
		raw, err := json.Marshal(map[string]any{extension.URI: v})
		if err != nil {
			panic(err)
		}
		m.Metadata = raw
	}
}

// script has the simulated agent play steps.
func script(steps string, more map[string]any) func(*spec.Message) {
	v := map[string]any{"backend": "simulate", "agent_options": map[string]any{"script": json.RawMessage(steps)}}
	for k, x := range more {
		v[k] = x
	}
	return settings(v)
}

// data makes a message of one data part.
func data(v any) func(*spec.Message) {
	return func(m *spec.Message) {
		raw, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		m.Parts = []spec.Part{spec.Data(raw)}
	}
}

func (c *client) send(req *spec.SendMessageRequest) *spec.Task {
	c.t.Helper()
	r := do[spec.StreamResponse](c, http.MethodPost, "/message:send", req)
	if r.Task == nil {
		c.t.Fatalf("no task: %+v", r)
	}
	return r.Task
}

// begin sends and does not wait.
func (c *client) begin(req *spec.SendMessageRequest) *spec.Task {
	c.t.Helper()
	req.Configuration = &spec.SendConfiguration{ReturnImmediately: true}
	return c.send(req)
}

func (c *client) task(id string) *spec.Task {
	c.t.Helper()
	t := do[spec.Task](c, http.MethodGet, "/tasks/"+id, nil)
	return &t
}

// eventually waits for a state of a task.
func (c *client) eventually(id string, is func(*spec.Task) bool) *spec.Task {
	c.t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(5 * time.Millisecond) {
		t := c.task(id)
		if is(t) {
			return t
		}
		if time.Now().After(end) {
			c.t.Fatalf("it did not come to this: %+v", t)
		}
	}
}

func state(s spec.TaskState) func(*spec.Task) bool {
	return func(t *spec.Task) bool { return t.Status.State == s }
}

// event is one of a stream.
type event struct {
	spec.StreamResponse
	id string
}

// stream reads a stream's events as they come.
type stream struct {
	c    *client
	resp *http.Response
	sc   *bufio.Reader
	stop context.CancelFunc
}

func (c *client) open(method, path string, body any) *stream {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), soon)
	resp, err := keepNone.Do(c.request(ctx, method, path, body))
	if err != nil {
		cancel()
		c.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		raw, _ := io.ReadAll(resp.Body)
		cancel()
		c.t.Fatalf("%s %s: %s: %s", method, path, resp.Status, raw)
	}
	s := &stream{c, resp, bufio.NewReader(resp.Body), cancel}
	c.t.Cleanup(s.close)
	return s
}

func (s *stream) close() {
	s.stop()
	_ = s.resp.Body.Close() // only read
}

// next gives the next event; false at the end of the stream.
func (s *stream) next() (e event, ok bool) {
	s.c.t.Helper()
	for {
		line, err := s.sc.ReadString('\n')
		if err != nil {
			if err != io.EOF {
				s.c.t.Fatalf("stream: %v", err)
			}
			return e, false
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "id: "):
			e.id = line[4:]
		case strings.HasPrefix(line, "data: "):
			if err := json.Unmarshal([]byte(line[6:]), &e.StreamResponse); err != nil {
				s.c.t.Fatalf("%s: %v", line, err)
			}
		case line == "" && (e.Task != nil || e.Message != nil || e.StatusUpdate != nil || e.ArtifactUpdate != nil):
			return e, true
		}
	}
}

func (s *stream) all() (out []event) {
	s.c.t.Helper()
	for {
		e, ok := s.next()
		if !ok {
			return out
		}
		out = append(out, e)
	}
}

// until reads up to an event.
func (s *stream) until(is func(event) bool) (out []event) {
	s.c.t.Helper()
	for {
		e, ok := s.next()
		if !ok {
			s.c.t.Fatalf("the stream ended before that: %s", show(out))
		}
		out = append(out, e)
		if is(e) {
			return out
		}
	}
}

func show(list []event) string {
	raw, _ := json.Marshal(list)
	return string(raw)
}

// fold puts a stream together as a client does.
func fold(task spec.Task, list []event) spec.Task {
	for _, e := range list {
		switch {
		case e.Task != nil:
			task = *e.Task
		case e.StatusUpdate != nil:
			task.Status = e.StatusUpdate.Status
		case e.ArtifactUpdate != nil:
			put(&task, e.ArtifactUpdate)
		}
	}
	return task
}

func put(task *spec.Task, u *spec.ArtifactUpdate) {
	for i, a := range task.Artifacts {
		if a.ArtifactID != u.Artifact.ArtifactID {
			continue
		}
		if u.Append {
			task.Artifacts[i].Parts = append(task.Artifacts[i].Parts, u.Artifact.Parts...)
		} else {
			task.Artifacts[i] = u.Artifact
		}
		return
	}
	task.Artifacts = append(task.Artifacts, u.Artifact)
}

// text is the text of an artifact.
func text(a spec.Artifact) string {
	var b strings.Builder
	for _, p := range a.Parts {
		if p.Text != nil {
			b.WriteString(*p.Text)
		}
	}
	return b.String()
}

// extended is the extension's event in a status update, if there is one.
func extended(e event) (x extension.Event, ok bool) {
	if e.StatusUpdate == nil || e.StatusUpdate.Status.Message == nil {
		return x, false
	}
	for _, p := range e.StatusUpdate.Status.Message.Parts {
		if p.Data != nil && json.Unmarshal(p.Data, &x) == nil && x.Kind != "" {
			return x, true
		}
	}
	return x, false
}
