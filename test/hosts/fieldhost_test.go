//go:build linux

package hosts_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/host"
	"innerd/test/contract"
	"innerd/test/modelstub"
	"innerd/test/proxy"
	"innerd/test/server"
)

// The field host's reader, in its own language, plays every case of every
// backend over the real server: what it ends up with is what the log has, its
// bill is right, and its breaker counts as it does in the field.
func TestFieldHostWithSimulate(t *testing.T) { playAll(t, simulated(), 8) }

func TestFieldHostWithClaudeCode(t *testing.T) {
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	playAll(t, claudeCode(t, stub), 4)
}

func TestFieldHostWithCodex(t *testing.T) {
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	playAll(t, codex(t, stub), 4)
}

func TestFieldHostWithCopilot(t *testing.T) {
	stub := modelstub.New()
	t.Cleanup(stub.Close)
	playAll(t, copilot(t, stub), 4)
}

func playAll(t *testing.T, r rig, atOnce int) {
	t.Parallel()
	python(t)
	shared := r.server(t)
	shared.Start()
	places := make(chan struct{}, atOnce) // the cases of one backend at once: an agent is large
	var together, idle []backendtest.Case
	for _, c := range backendtest.Cases() {
		if r.large && r.impossible(c) == "" && goesOn(c) {
			together = append(together, c)
			continue
		}
		if r.large && r.impossible(c) == "" && waits(c) {
			idle = append(idle, c)
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if why := r.impossible(c); why != "" {
				t.Skip(why)
			}
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			s := shared.For(t)
			if alone(c) {
				s = r.server(t)
				s.Start()
			}
			main := newTalk(t, s, r, c.Name)
			if len(c.Beside) > 0 {
				beside := newTalk(t, s, r, c.Name+"-beside")
				done := make(chan struct{})
				go func() { defer close(done); beside.play(c.Beside) }() // ends with its turns
				defer func() { <-done }()
			}
			main.play(c.Turns)
		})
	}
	if len(together) > 0 {
		t.Run("in one conversation", func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			inOne(t, shared.For(t), r, together, idle)
		})
	}
}

// inOne plays cases as turns of one conversation, so that they need no agent
// of their own: one takes a second to start. Those that are idle for most of
// their time have conversations of their own beside it.
func inOne(t *testing.T, s *server.Server, r rig, cases, idle []backendtest.Case) {
	var beside sync.WaitGroup
	defer beside.Wait()
	for _, c := range idle {
		beside.Go(func() { // ends with its turns
			t.Run(c.Name, func(t *testing.T) { newTalk(t, s.For(t), r, c.Name).play(c.Turns) })
		})
	}
	k := newTalk(t, s, r, "one")
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			k.during(t)
			k.fresh, k.failures = true, 0
			k.play(c.Turns)
		})
	}
}

// waits reports whether a case is of a limit: an agent waits long before it
// asks again.
func waits(c backendtest.Case) bool {
	return len(c.Beside) == 0 && !alone(c) && c.Uses(func(s backendtest.Step) bool { return s.Error != nil && s.Error.Type == events.ErrRateLimit })
}

// goesOn reports whether a case can be a turn of any conversation.
func goesOn(c backendtest.Case) bool {
	if len(c.Turns) != 1 || len(c.Beside) > 0 || alone(c) {
		return false
	}
	t := c.Turns[0]
	apart := func(s backendtest.Step) bool { // much text, or a limit that the server then knows to hold
		return s.Flood != nil || s.Error != nil && (s.Error.Type == events.ErrRateLimit || s.Error.Type == events.ErrQuota)
	}
	return t.Before == "" && t.System == "" && t.History == "" && !t.Interactive && t.Permission == "" && !slices.ContainsFunc(t.Steps, apart)
}

func (r rig) server(t testing.TB) *server.Server {
	s := newServer(t)
	s.Env = append(s.Env, r.env...)
	return s
}

// alone reports whether a case ends its server, or all of its agents.
func alone(c backendtest.Case) bool {
	dies := func(s backendtest.Step) bool { return s.Crash != nil }
	return slices.ContainsFunc(c.Turns, func(t backendtest.Turn) bool {
		return t.Before == backendtest.BeforeKill || t.Before == backendtest.BeforeRestart || slices.ContainsFunc(t.Steps, dies)
	})
}

func (r rig) impossible(c backendtest.Case) string {
	if c.Long && !long() {
		return "takes over a minute; set " + backendtest.LongEnv + "=1"
	}
	if why := r.skip[c.Name]; why != "" {
		return why
	}
	for _, need := range c.Needs {
		if why := r.lacks[need]; why != "" {
			return string(need) + ": " + why
		}
	}
	return ""
}

// fieldHost is the reader's process, which has one breaker.
type fieldHost struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
	url *atomic.Pointer[string] // of the server that it has, which may move
}

func newFieldHost(t testing.TB, s *server.Server, key string) *fieldHost {
	t.Helper()
	url := &atomic.Pointer[string]{}
	at := s.URL()
	url.Store(&at)
	way := proxy.Checked(t, func() string { return *url.Load() })
	cmd := exampleAt(t, way.URL(), key, "fieldhost/fieldhost.py", "--play")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errOut strings.Builder
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Errorf("the reader: %v\n%s", err, &errOut)
		} else if err != nil {
			t.Logf("the reader: %v\n%s", err, &errOut)
		}
	})
	return &fieldHost{t: t, cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20), url: url}
}

// has is what the field host ends up with.
type has struct {
	Text, Shown string
	Reasoning   []string
	Calls       []struct {
		ID   string          `json:"tool_call_id"`
		Name string          `json:"tool_name"`
		Args json.RawMessage `json:"arguments"`
	}
	Native  []string
	Usage   []events.Usage
	TaskID  string `json:"task_id"`
	Beats   int
	Ignored int
	Failed  bool
	Why     string
	Refused bool
	HungUp  bool `json:"hung_up"`
}

type breakerState struct {
	State    string
	Failures int
	Left     int
}

// said is a line of the reader.
type said struct {
	Task     string
	Call     *struct{ Tool_name string } //nolint:revive // its JSON name
	Question *struct{ Message string }
	End      *has
	Breaker  breakerState
}

// order has the host run a request.
type order struct {
	URL         string  `json:"url,omitempty"` // instead of the way on which its answers are compared
	Request     any     `json:"request"`
	ReadTimeout float64 `json:"read_timeout,omitempty"`
	HangUpAt    string  `json:"hang_up_at,omitempty"`
	Fresh       bool    `json:"fresh,omitempty"` // with a new breaker
}

// answerer is what the host does meanwhile; a nil answer is none.
type answerer interface {
	started(taskID string)
	call(tool string) any
	question() any
}

// moved has the host find the server where it is now.
func (f *fieldHost) moved(url string) { f.url.Store(&url) }

// run has the host run a request to its end.
func (f *fieldHost) run(o order, a answerer) (has, breakerState) {
	f.t.Helper()
	f.write(o)
	for {
		line, err := f.out.ReadBytes('\n')
		if err != nil {
			f.t.Fatalf("the reader ended: %v %s", err, line)
		}
		var s said
		if err := json.Unmarshal(line, &s); err != nil {
			f.t.Fatalf("%v: %.300s", err, line)
		}
		switch {
		case s.End != nil:
			return *s.End, s.Breaker
		case s.Task != "":
			a.started(s.Task)
		case s.Call != nil:
			f.write(a.call(s.Call.Tool_name))
		case s.Question != nil:
			f.write(a.question())
		}
	}
}

func (f *fieldHost) write(v any) {
	raw, err := json.Marshal(v)
	if err == nil {
		_, err = f.in.Write(append(raw, '\n'))
	}
	if err != nil {
		f.t.Errorf("the reader: %v", err)
	}
}

// checked is a transport as the library's own, which compares what is answered
// with docs/openapi.json.
func checked(t testing.TB) http.RoundTripper {
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.DisableCompression = true
	return contract.Transport(own, t)
}

// newClient is the library's client of the server, which reads the whole log.
func newClient(t testing.TB, s *server.Server, change ...func(*host.Options)) *host.Client {
	t.Helper()
	o := &host.Options{Key: s.Key(), MinBackoff: 5 * time.Millisecond, Transport: checked(t)}
	for _, f := range change {
		f(o)
	}
	c, err := host.New(s.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// check holds what the host has against the log.
func check(t testing.TB, got has, log []events.Event) {
	t.Helper()
	var text string
	var reasoning, native, calls []string
	var usage []events.Usage
	var end events.End
	var failure *events.Error
	discarded := false
	for _, e := range log {
		switch d := e.Data.(type) {
		case events.Message:
			text = d.Content
		case events.Reasoning:
			reasoning = append(reasoning, d.Content)
		case events.ToolCall:
			native = append(native, d.Name)
		case events.ToolRequest:
			calls = append(calls, d.ToolCallID+" "+d.ToolName+" "+string(compact(d.Arguments)))
		case events.Usage:
			usage = append(usage, d)
		case events.Discarded:
			discarded = true
		case events.Error:
			failure = &d
		case events.End:
			end = d
		}
	}
	var ran []string
	for _, c := range got.Calls {
		ran = append(ran, c.ID+" "+c.Name+" "+string(compact(c.Args)))
	}
	if got.Failed == (end.State == events.Completed) || failure != nil && got.Why != failure.Message {
		t.Errorf("the run ended as %s with %+v; for the host it failed: %v, %s", end.State, failure, got.Failed, got.Why)
	}
	if (got.Text != text || !slices.Equal(got.Reasoning, reasoning)) && !discarded {
		t.Errorf("the host has %.300q and %.300q; the log %.300q and %.300q", got.Text, got.Reasoning, text, reasoning)
	}
	if discarded && text != "" && got.Text != text {
		t.Errorf("after a discarded message the host has %.300q, not %.300q", got.Text, text)
	}
	if !slices.Equal(ran, calls) || !slices.Equal(got.Native, native) || got.Ignored != 0 {
		t.Errorf("the host ran %q and saw %q, and ignored %d lines; the log has %q and %q", ran, got.Native, got.Ignored, calls, native)
	}
	if end.State == events.Completed && len(usage) != 1 || len(got.Usage) != len(usage) || len(usage) > 0 && asJSON(got.Usage) != asJSON(usage) {
		t.Errorf("the host bills %s, the log has %s", asJSON(got.Usage), asJSON(usage))
	}
}

func asJSON(v any) string {
	raw, _ := json.Marshal(v) // plain values
	return string(raw)
}

func compact(raw json.RawMessage) json.RawMessage {
	var v any
	_ = json.Unmarshal(raw, &v) // a stream's arguments are JSON
	out, _ := json.Marshal(v)
	return out
}

func message(role, text string, attach ...events.Part) map[string]any {
	m := map[string]any{"role": role, "content": text}
	var images []any
	for i, p := range attach {
		images = append(images, map[string]any{"id": fmt.Sprint("image-", i), "content": p.Data, "mime_type": p.MimeType})
	}
	if images != nil {
		m["images"] = images
	}
	return m
}
