package modelstub_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"innerd/test/modelstub"
)

func TestStreams(t *testing.T) {
	stub := newStub(t)
	for name, tt := range map[string]struct {
		turn   modelstub.Turn
		body   string
		blocks []string
		stop   string
	}{
		"text": {
			turn:   modelstub.Say(modelstub.Text("Hello, \u0085 \u2028 👋🏽 “world”.").Chunk(1)),
			blocks: []string{"text:Hello, \u0085 \u2028 👋🏽 “world”."}, stop: "end_turn",
		},
		"thinking, then text": {
			turn:   modelstub.Say(modelstub.Thinking("let me see"), modelstub.Text("yes")),
			blocks: []string{"thinking:let me see", "text:yes"}, stop: "end_turn",
		},
		"parallel tools": {
			turn: modelstub.Say(modelstub.Tool("Bash", map[string]any{"command": "date"}),
				modelstub.Tool("Read", json.RawMessage(`{"file_path":"/x"}`)).ID("toolu_same")),
			blocks: []string{`tool_use Bash toolu_stub_0001:{"command":"date"}`, `tool_use Read toolu_same:{"file_path":"/x"}`}, stop: "tool_use",
		},
		"broken input of a tool": {
			turn: modelstub.Say(modelstub.BadTool("Bash", `{"command": "da`)), blocks: []string{`tool_use Bash toolu_stub_0001:{"command": "da`}, stop: "tool_use",
		},
		"empty":       {turn: modelstub.Empty(), stop: "end_turn"},
		"stop reason": {turn: modelstub.Say(modelstub.Text("cut")).Stops("max_tokens"), blocks: []string{"text:cut"}, stop: "max_tokens"},
		"prompt": {
			turn:   modelstub.Say(modelstub.Text("you said {{prompt}} to {{model}}")),
			body:   `{"model":"m","stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>no</system-reminder>"},{"type":"text","text":"hi \"x\""},{"type":"text","text":"<system-reminder>no</system-reminder>"}]}]}`,
			blocks: []string{`text:you said hi "x" to m`}, stop: "end_turn",
		},
		"tool result, in a tool's input": {
			turn: modelstub.Say(modelstub.Tool("Bash", map[string]any{"command": "echo {{tool_result}}"})),
			body: `{"model":"m","stream":true,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"no"},` +
				`{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"say \"42\""}]}]}]}`,
			blocks: []string{`tool_use Bash toolu_stub_0001:{"command":"echo say \"42\""}`}, stop: "tool_use",
		},
	} {
		t.Run(name, func(t *testing.T) {
			sc := stub.Scenario(tt.turn)
			if tt.body == "" {
				tt.body = ask
			}
			res := mustPost(t, sc, "/v1/messages?beta=true", tt.body)
			got := listen(res.Body)
			if diff := cmp.Diff(tt.blocks, got.blocks); diff != "" {
				t.Error(diff)
			}
			if got.stop != tt.stop || got.err != nil || got.events[0] != "message_start" || got.events[len(got.events)-1] != "message_stop" {
				t.Errorf("stop %q, error %v, events %v", got.stop, got.err, got.events)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	stub := newStub(t)
	for name, tt := range map[string]struct {
		turn       modelstub.Turn
		status     int
		kind, text string
		retryAfter string
	}{
		"400":      {turn: modelstub.Fail(400), status: 400, kind: "invalid_request_error"},
		"401":      {turn: modelstub.Fail(401), status: 401, kind: "authentication_error"},
		"403":      {turn: modelstub.Fail(403), status: 403, kind: "permission_error"},
		"404":      {turn: modelstub.Fail(404), status: 404, kind: "not_found_error"},
		"429":      {turn: modelstub.RateLimited(1500 * time.Millisecond), status: 429, kind: "rate_limit_error", retryAfter: "2"},
		"500":      {turn: modelstub.Fail(500), status: 500, kind: "api_error"},
		"529":      {turn: modelstub.Fail(529), status: 529, kind: "overloaded_error"},
		"502":      {turn: modelstub.Fail(502), status: 502, kind: "api_error", text: "Bad Gateway"},
		"too long": {turn: modelstub.ContextTooLong(), status: 400, kind: "invalid_request_error", text: "prompt is too long"},
		"credit":   {turn: modelstub.NoCredit(), status: 400, kind: "invalid_request_error", text: "credit balance"},
		"own": {
			turn:   modelstub.Turn{Fail: &modelstub.Failure{Status: 418, Type: "tea", Message: "short and stout", Header: http.Header{"Retry-After": {"7"}}}},
			status: 418, kind: "tea", text: "short and stout", retryAfter: "7",
		},
	} {
		t.Run(name, func(t *testing.T) {
			res := mustPost(t, stub.Scenario(tt.turn), "/v1/messages", ask)
			var body struct {
				Type, RequestID string
				Error           struct{ Type, Message string }
			}
			if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != tt.status || body.Type != "error" || body.Error.Type != tt.kind || !strings.Contains(body.Error.Message, tt.text) ||
				body.Error.Message == "" || res.Header.Get("Retry-After") != tt.retryAfter {
				t.Errorf("%d %+v, headers %v", res.StatusCode, body, res.Header)
			}
		})
	}
}

func TestStreamsThatBreak(t *testing.T) {
	stub := newStub(t)
	half := modelstub.Text("half of it")
	g := modelstub.NewGate()
	g.Release()
	for name, tt := range map[string]struct {
		turn   modelstub.Turn
		blocks []string
		event  string
		err    error
	}{
		"dropped in a block":    {turn: modelstub.Say(half.Cut(modelstub.CutDrop)), blocks: []string{"text:half of it"}, err: io.ErrUnexpectedEOF},
		"ended in a block":      {turn: modelstub.Say(half.Cut(modelstub.CutEOF)), blocks: []string{"text:half of it"}},
		"ended after a block":   {turn: modelstub.Say(half, modelstub.Control().Cut(modelstub.CutEOF)), blocks: []string{"text:half of it"}},
		"overloaded in a block": {turn: modelstub.Say(half.Overloaded()), blocks: []string{"text:half of it"}, event: "overloaded_error"},
		"an error of its own":   {turn: modelstub.Say(modelstub.Control().Error(modelstub.Failure{Type: "odd"})), event: "odd"},
		"past an open gate":     {turn: modelstub.Say(half.Hold(g).Add(" and more").Sleep(time.Millisecond)), blocks: []string{"text:half of it and more"}},
		"unknown events": {
			turn:   modelstub.Say(half.Event("news", `{"type":"news"}`).Add("!"), modelstub.Control().Event("more_news", `{}`)),
			blocks: []string{"text:half of it!"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := listen(mustPost(t, stub.Scenario(tt.turn), "/v1/messages", ask).Body)
			if diff := cmp.Diff(tt.blocks, got.blocks); diff != "" {
				t.Error(diff)
			}
			if got.errorMsg != tt.event || !errors.Is(got.err, tt.err) {
				t.Errorf("error event %q, error %v", got.errorMsg, got.err)
			}
		})
	}
}

func TestResets(t *testing.T) {
	stub := newStub(t)
	if _, err := post(t, stub.Scenario(modelstub.NoHeaders(modelstub.CutReset)), "/v1/messages", ask); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("before the headers: %v", err)
	}
	if _, err := post(t, stub.Scenario(modelstub.NoHeaders(modelstub.CutDrop)), "/v1/messages", ask); !errors.Is(err, io.EOF) {
		t.Errorf("before the headers, dropped: %v", err)
	}
	sc := stub.Scenario(modelstub.Say(modelstub.Text("half").Cut(modelstub.CutDrop)).CutWhole(modelstub.CutReset))
	listen(mustPost(t, sc, "/v1/messages", ask).Body)
	if _, err := post(t, sc, "/v1/messages", strings.Replace(ask, `"stream":true`, `"stream":false`, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("asked without streaming: %v", err)
	}
	// A reset may overtake what was sent before it, unless the reader has it already.
	g := modelstub.NewGate()
	sr := newSSE(mustPost(t, stub.Scenario(modelstub.Say(modelstub.Text("half").Hold(g).Cut(modelstub.CutReset))), "/v1/messages", ask).Body)
	var s said
	for s.deltas == 0 {
		e, err := sr.next()
		if err != nil {
			t.Fatal(err)
		}
		s.take(e)
	}
	g.Release()
	if _, err := sr.next(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("in the stream: %v", err)
	}
}
