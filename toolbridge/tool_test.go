package toolbridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"innerd/events"
	"innerd/toolbridge"
)

func TestArgumentsAreChecked(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"type":"integer"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := func(name, schema string) toolbridge.ToolSpec {
		return toolbridge.ToolSpec{Name: name, Schema: json.RawMessage(schema), Parallel: true}
	}
	_, s, r := open(t, func(c *toolbridge.SessionConfig) {
		c.Tools = []toolbridge.ToolSpec{
			spec("good", `{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}},"required":["n"],"additionalProperties":false}`),
			spec("broken", `{"type":12}`),
			spec("file", `{"type":"object","properties":{"n":{"$ref":"file://`+secret+`"}}}`),
			spec("none", ``),
			spec("nested", `{"type":"object","additionalProperties":{"$ref":"#"}}`),
		}
	})
	for _, c := range []struct{ tool, args, problem string }{
		{"good", `{"n":1}`, ""},
		{"good", `{"n":9007199254740993}`, ""},
		{"good", `{"n":9007199254740994}`, "maximum"},
		{"good", `{}`, "missing property 'n'"},
		{"good", ``, "missing property 'n'"},
		{"good", `{"n":"x"}`, "/n"},
		{"good", `{"n":1,"m":2}`, "'m'"},
		{"good", `{"n":`, "not JSON"},
		{"good", `[1]`, "not an object"},
		{"broken", `{"x":1}`, ""},
		{"file", `{"n":"not an integer"}`, ""}, // another document is never read
		{"none", ``, ""},
		{"nested", `{"a":{"b":{}}}`, ""},
		{"nested", `{"a":{"b":1}}`, "/a/b"},
		{"unknown", `{"a":1}`, ""},
		{"unknown", `"x"`, "not an object"},
	} {
		before := len(r.events())
		p := s.Request(t.Context(), call(c.tool, c.args))
		last := r.events()[before:]
		if len(last) != 1 {
			t.Fatalf("%+v: %v", c, last)
		}
		if c.problem == "" {
			if last[0].EventType() != events.TypeToolRequest {
				t.Errorf("%+v: %v", c, last[0])
			}
			continue
		}
		a, err := p.Wait()
		if err != nil || a.Outcome != events.OutcomeError || !a.IsError || !strings.Contains(a.Result, c.problem) || !strings.Contains(a.Result, c.tool) {
			t.Errorf("%+v: %+v %v", c, a, err)
		}
		if n, ok := last[0].(events.Status); !ok || n.State != events.StateNotice || n.Detail != a.Result {
			t.Errorf("%+v: %+v", c, last[0])
		}
	}
}

func TestSerialTools(t *testing.T) {
	for name, spec := range map[string]toolbridge.ToolSpec{
		"flag":   {Name: "one"},
		"schema": {Name: "one", Parallel: true, Schema: json.RawMessage(`{"type":"object","parallel":false}`)},
	} {
		b, s, r := open(t, func(c *toolbridge.SessionConfig) { c.Tools = []toolbridge.ToolSpec{spec} })
		ctx, cancel := context.WithCancel(t.Context())
		p1, p2 := s.Request(t.Context(), call("one", `{"n":1}`)), s.Request(ctx, call("one", `{"n":2}`))
		p3, p4 := s.Request(t.Context(), call("one", `{"n":3}`)), s.Request(t.Context(), call("one", `{"n":4}`))
		if got := s.Pending(); len(got) != 1 || got[0].ID != p1.ID() {
			t.Fatalf("%s: %+v", name, got)
		}
		if v := b.ToolResult("default", p2.ID(), toolbridge.Result{}); v != toolbridge.NotFound {
			t.Error("a call that was not announced:", v)
		}
		cancel()
		if a, err := p2.Wait(); a.Outcome != events.OutcomeCanceled || err == nil {
			t.Errorf("%+v %v", a, err)
		}
		b.ToolResult("default", p1.ID(), toolbridge.Result{Result: "1"})
		if got := s.Pending(); len(got) != 1 || got[0].ID != p3.ID() {
			t.Fatalf("%s: %+v", name, got)
		}
		b.ToolResult("default", p3.ID(), toolbridge.Result{Result: "3"})
		s.Close(nil)
		if a, _ := p4.Wait(); a.Outcome != events.OutcomeCanceled {
			t.Errorf("%+v", a)
		}
		var got []string
		for _, d := range r.events() {
			switch d := d.(type) {
			case events.ToolRequest:
				got = append(got, "+"+string(d.Arguments))
			case events.ToolResolved:
				got = append(got, d.Outcome)
			}
		}
		if d := cmp.Diff([]string{`+{"n":1}`, "ok", `+{"n":3}`, "ok", `+{"n":4}`, "canceled"}, got); d != "" {
			t.Error(name, d)
		}
	}
}

// A schema that refers to itself without end does not end the process.
func TestSchemaLoops(t *testing.T) {
	for _, schema := range []string{`{"$ref":"#"}`, `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}}}`, `{"$dynamicRef":"#x","$dynamicAnchor":"x"}`} {
		_, s, r := open(t, func(c *toolbridge.SessionConfig) {
			c.Tools = []toolbridge.ToolSpec{{Name: "loop", Schema: json.RawMessage(schema)}}
		})
		s.Request(t.Context(), call("loop", `{"a":1}`))
		if len(r.events()) != 1 {
			t.Error(r.types())
		}
	}
}

// A host that runs calls one after another gets for each the time of all
// before it.
func TestToolDeadlinesAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s, r := open(t, func(c *toolbridge.SessionConfig) { c.ToolTimeout = time.Minute })
		begin := time.Now()
		var ps []*toolbridge.Pending
		for range 3 {
			ps = append(ps, s.Request(t.Context(), call("x", `{}`)))
		}
		time.Sleep(10 * time.Second)
		b.ToolResult("default", ps[0].ID(), toolbridge.Result{})
		ps = append(ps, s.Request(t.Context(), call("x", `{}`)))
		var got []float64
		for _, d := range r.events() {
			if d, ok := d.(events.ToolRequest); ok {
				got = append(got, d.DeadlineS)
			}
		}
		if d := cmp.Diff([]float64{60, 120, 180, 230}, got); d != "" {
			t.Error(d)
		}
		for i, at := range map[int]time.Duration{1: 120 * time.Second, 2: 180 * time.Second, 3: 240 * time.Second} {
			go func() {
				a, err := ps[i].Wait()
				if a.Outcome != events.OutcomeTimeout || !a.IsError || err != nil || time.Since(begin) != at {
					t.Errorf("%d: %+v %v after %s", i, a, err, time.Since(begin))
				}
			}()
		}
		_, _ = ps[3].Wait()
		synctest.Wait()
		if v := b.ToolResult("default", ps[1].ID(), toolbridge.Result{}); v != toolbridge.NotFound {
			t.Error("late:", v)
		}
		last := r.events()[7].(events.ToolResolved)
		if d := cmp.Diff(events.ToolResolved{ToolCallID: ps[3].ID(), Outcome: "timeout"}, last); d != "" {
			t.Error(d)
		}
	})
}

func TestToolDeadlineIsTheTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, r := open(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		p := s.Request(ctx, call("x", `{}`))
		s.Request(t.Context(), call("x", `{}`))
		req := call("x", `{}`)
		req.Timeout = time.Second
		s.Request(t.Context(), req) // behind one without a limit
		var got []float64
		for _, d := range r.events() {
			got = append(got, d.(events.ToolRequest).DeadlineS)
		}
		if d := cmp.Diff([]float64{90, 0, 0}, got); d != "" {
			t.Error(d)
		}
		if a, err := p.Wait(); a.Outcome != events.OutcomeCanceled || err != context.DeadlineExceeded {
			t.Errorf("%+v %v", a, err)
		}
	})
}

func TestResultParts(t *testing.T) {
	b, s, r := open(t, nil)
	sent := []events.Part{
		events.Text(""),
		{Type: "image", Data: "aW\r\n1n"},
		{Type: "image", MimeType: "image/gif", Data: "!!"},
		{Type: "image", URL: "data:image/webp;base64,aW1n"},
		{Type: "image", URL: "https://example.com/a.png", MimeType: "image/png"},
		{Type: "audio", Data: "c25kMQ"},
		{Type: "file", Name: "a", Path: "/tmp/a"},
		{Type: "file", Name: "empty"},
		{Type: "json", JSON: json.RawMessage(`{"a":1}`)},
		{Type: "json", JSON: json.RawMessage(`{a`)},
		{Type: "json"},
		{Type: "hologram", Data: "x"},
	}
	p := s.Request(t.Context(), call("x", `{}`))
	if v := b.ToolResult("default", p.ID(), toolbridge.Result{Result: "r", Content: sent}); v != toolbridge.Accepted {
		t.Fatal(v)
	}
	note := func(n int, why string) events.Part {
		return events.Text(fmt.Sprintf("[part %d of the tool's result can't be used: %s]", n, why))
	}
	want := []events.Part{
		events.Text(""),
		{Type: "image", MimeType: "image/png", Data: "aW1n"},
		note(3, "its data is not base64"),
		{Type: "image", MimeType: "image/webp", Data: "aW1n"},
		{Type: "image", URL: "https://example.com/a.png", MimeType: "image/png"},
		{Type: "audio", MimeType: "audio/mpeg", Data: "c25kMQ=="},
		{Type: "file", Name: "a", MimeType: "application/octet-stream", Path: "/tmp/a"},
		note(8, "file without data, url or path"),
		{Type: "json", JSON: json.RawMessage(`{"a":1}`)},
		{Type: "json", JSON: json.RawMessage(`"{a"`)},
		note(11, "a json part without json"),
		note(12, `unknown type "hologram"`),
	}
	a, _ := p.Wait()
	if d := cmp.Diff(want, a.Content); d != "" {
		t.Error(d)
	}
	logged := r.events()[1].(events.ToolResolved)
	sent[9].JSON = json.RawMessage(`"{a"`)
	if d := cmp.Diff(events.ToolResolved{ToolCallID: p.ID(), Outcome: "ok", Result: "r", Content: sent}, logged); d != "" {
		t.Error("the log has what the host sent:", d)
	}
}

func TestCallbacksCount(t *testing.T) {
	var mu sync.Mutex
	var got []string
	b, s, _ := open(t, func(c *toolbridge.SessionConfig) {
		note := func(what string) func(events.RequestKind, int) {
			return func(k events.RequestKind, n int) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprintf("%s %s %d", what, k, n))
			}
		}
		c.OnOpen, c.OnClose = note("open"), note("close")
	})
	p := s.Request(t.Context(), call("x", `{}`))
	s.Request(t.Context(), question("?", ""))
	b.ToolResult("default", p.ID(), toolbridge.Result{})
	s.Close(nil)
	if d := cmp.Diff([]string{"open tool 1", "open question 2", "close tool 1", "close question 0"}, got); d != "" {
		t.Error(d)
	}
}

func TestPanicsInCallbacks(t *testing.T) {
	b, s, _ := open(t, func(c *toolbridge.SessionConfig) {
		c.Log = func(events.Data) { panic("log") }
		c.OnOpen = func(events.RequestKind, int) { panic("open") }
		c.OnClose = func(events.RequestKind, int) { panic("close") }
	})
	p := s.Request(t.Context(), call("x", `{}`))
	if v := b.ToolResult("default", p.ID(), toolbridge.Result{Result: "r"}); v != toolbridge.Accepted {
		t.Fatal(v)
	}
	if a, err := p.Wait(); a.Result != "r" || err != nil {
		t.Errorf("%+v %v", a, err)
	}
}

// A log that waits for the disk holds up neither Pending nor another run.
func TestSlowLog(t *testing.T) {
	b := toolbridge.New(nil)
	gate, entered := make(chan struct{}), make(chan struct{}, 10)
	slow := b.Open(toolbridge.SessionConfig{RunID: "slow", Owner: "default", Log: func(events.Data) { entered <- struct{}{}; <-gate }})
	rec := &recorder{}
	c := config(rec)
	quick := b.Open(c)
	defer quick.Close(nil)
	done := make(chan *toolbridge.Pending)
	go func() { done <- slow.Request(t.Context(), call("x", `{}`)) }()
	<-entered
	id := slow.Pending()[0].ID
	p := quick.Request(t.Context(), call("x", `{}`))
	if v := b.ToolResult("default", p.ID(), toolbridge.Result{}); v != toolbridge.Accepted {
		t.Fatal(v)
	}
	verdict := make(chan toolbridge.Verdict)
	go func() { verdict <- b.ToolResult("default", id, toolbridge.Result{}) }()
	close(gate)
	if a, err := (<-done).Wait(); a.Outcome != events.OutcomeOK || err != nil || <-verdict != toolbridge.Accepted {
		t.Errorf("%+v %v", a, err)
	}
	slow.Close(nil)
}
