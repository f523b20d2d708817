package modelstub_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"innerd/test/modelstub"
)

func text(t *testing.T, sc *modelstub.Scenario, body string) string {
	t.Helper()
	got := listen(mustPost(t, sc, "/v1/messages", body).Body)
	if got.err != nil || len(got.blocks) != 1 {
		t.Fatalf("%+v", got)
	}
	return strings.TrimPrefix(got.blocks[0], "text:")
}

func TestTurnsInOrder(t *testing.T) {
	stub := newStub(t)
	sc := stub.Scenario(modelstub.Say(modelstub.Text("one")), modelstub.Say(modelstub.Text("two")).Times(2))
	for _, want := range []string{"one", "two", "two", "(script over)", "(script over)"} {
		if got := text(t, sc, ask); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	sc.Func(func(r modelstub.Request) modelstub.Turn {
		return modelstub.Say(modelstub.Text("dynamic " + r.Prompt()))
	})
	sc.Add(modelstub.Say(modelstub.Text("added")))
	for _, want := range []string{"added", "dynamic hello"} {
		if got := text(t, sc, ask); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	sc.Add(modelstub.Say(modelstub.Text("always")).Forever(), modelstub.Say(modelstub.Text("never")))
	for range 3 {
		if got := text(t, sc, ask); got != "always" {
			t.Errorf("%q", got)
		}
	}
	if sc.Count() != 10 || len(sc.Side()) != 0 || sc.Requests()[9].N != 10 {
		t.Errorf("%d requests, side %v", sc.Count(), sc.Side())
	}
}

func TestRequestIsParsed(t *testing.T) {
	stub := newStub(t)
	sc := stub.Scenario()
	body := `{"model":"m-1","max_tokens":7,"stream":true,"system":[{"type":"text","text":"be"},{"type":"text","text":"kind"}],
		"tools":[{"name":"Bash","description":"runs","input_schema":{"type":"object"}}],
		"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"x"}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"a"},
		{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"text","text":"b"}]}]}]}`
	listen(mustPost(t, sc, "/v1/messages?beta=true", body).Body)
	r := sc.Requests()[0]
	tool, ok := r.Tool("Bash")
	res := r.ToolResults()
	if r.Model != "m-1" || r.MaxTokens != 7 || r.System != "be\n\nkind" || !ok || string(tool.Schema) != `{"type":"object"}` ||
		r.Path != "/v1/messages?beta=true" || r.Header.Get("X-Api-Key") != sc.Key() || string(r.Body) != body {
		t.Errorf("%+v", r)
	}
	if len(res) != 1 || !res[0].IsError || res[0].ID != "t1" || r.ToolResult() != "a\nb" || res[0].Parts[1].Data != "AAAA" || r.Prompt() != "hello" {
		t.Errorf("%+v", res)
	}
	if call := r.Messages[1].Parts; call[0].Text != "hm" || call[1].Name != "Bash" || string(call[1].Input) != `{"command":"x"}` {
		t.Errorf("%+v", call)
	}
}

func TestSideRequestsUseNoTurn(t *testing.T) {
	stub := newStub(t)
	sc := stub.Scenario(
		modelstub.Say(modelstub.Text("half").Cut(modelstub.CutDrop)),
		modelstub.Say(modelstub.Tool("Bash", map[string]any{"command": "x"})),
		modelstub.Say(modelstub.Text("x").Overloaded()).Instead(modelstub.Text("whole")),
		modelstub.Fail(404),
	)
	whole := `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hello"}]}`
	for _, want := range []string{`"text":"half"`, `"stop_reason":"tool_use"`, `"text":"whole"`, `"not_found_error"`} {
		listen(mustPost(t, sc, "/v1/messages", ask).Body)
		if got := body(t, mustPost(t, sc, "/v1/messages", whole)); !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if got := body(t, mustPost(t, sc, "/v1/messages", strings.Replace(whole, "100", "1", 1))); !strings.Contains(got, `"stop_reason":"max_tokens"`) {
		t.Error(got)
	}
	if got := body(t, mustPost(t, sc, "/v1/messages/count_tokens", whole)); got != `{"input_tokens":19}` {
		t.Error(got)
	}
	if res := mustPost(t, sc, "/v1/messages", "{"); res.StatusCode != http.StatusBadRequest {
		t.Error(res.Status)
	}
	if res := mustPost(t, sc, "/v1/other", "{}"); res.StatusCode != http.StatusNotFound {
		t.Error(res.Status)
	}
	res, err := http.Post(sc.BaseURL()+"/v1/messages", "application/json", strings.NewReader(ask))
	if err != nil {
		t.Fatal(err)
	}
	if got := body(t, res); res.StatusCode != http.StatusUnauthorized || !strings.Contains(got, "authentication_error") {
		t.Error(res.Status, got)
	}
	http.DefaultClient.CloseIdleConnections()
	kinds := map[modelstub.Kind]int{}
	for _, r := range sc.Side() {
		kinds[r.Kind]++
	}
	if sc.Count() != 4 || kinds[modelstub.KindWhole] != 4 || kinds[modelstub.KindProbe] != 1 || kinds[modelstub.KindCount] != 1 ||
		kinds[modelstub.KindOther] != 2 || kinds[modelstub.KindRejected] != 1 {
		t.Errorf("%d streams, side %v", sc.Count(), kinds)
	}
}

func body(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return string(b)
}

func TestGates(t *testing.T) {
	stub := newStub(t)
	headers, middle := modelstub.NewGate(), modelstub.NewGate()
	sc := stub.Scenario(modelstub.Say(modelstub.Text("before ").Hold(middle).Add("after")).Behind(headers))
	answer := make(chan string)
	go func() { answer <- text(t, sc, ask) }()
	if err := sc.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	<-headers.Reached()
	select {
	case <-middle.Reached():
		t.Error("the second gate is reached before the first is open")
	default:
	}
	headers.Release()
	<-middle.Reached()
	middle.Release()
	middle.Release()
	if got := <-answer; got != "before after" {
		t.Errorf("%q", got)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := sc.Await(ctx, 2); !errors.Is(err, why) || !strings.Contains(err.Error(), "1 of 2") {
		t.Error(err)
	}
	if err := sc.AwaitIdle(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestHangsEndWithTheClientOrTheServer(t *testing.T) {
	stub := newStub(t)
	sc := stub.Scenario(modelstub.NoAnswer(), modelstub.Say(modelstub.Text("half").Hang()), modelstub.Say(modelstub.Text("x")).After(time.Hour))
	var cancels []context.CancelFunc
	for n := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		cancels = append(cancels, cancel)
		go func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, sc.BaseURL()+"/v1/messages", strings.NewReader(ask))
			req.Header.Set("Authorization", "Bearer "+sc.Key())
			if res, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		}()
		if err := sc.Await(t.Context(), n+1); err != nil {
			t.Fatal(err)
		}
	}
	cancels[0]() // the first two clients go away, the third stays
	cancels[1]()
	stub.Close()
	if err := sc.AwaitIdle(t.Context()); err != nil {
		t.Error(err)
	}
	cancels[2]()
}

func TestUsage(t *testing.T) {
	stub := newStub(t)
	given := modelstub.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Thinking: 1}
	sc := stub.Scenario(modelstub.Say(modelstub.Text(strings.Repeat("word ", 80))), modelstub.Say(modelstub.Text("x")), modelstub.Say().Uses(given))
	var us []map[string]any
	for range 3 {
		us = append(us, listen(mustPost(t, sc, "/v1/messages", ask).Body).usage)
	}
	if us[0]["output_tokens"] != 101. || us[0]["cache_read_input_tokens"] != 0. || us[0]["cache_creation_input_tokens"] == 0. {
		t.Errorf("first: %v", us[0])
	}
	if us[1]["cache_read_input_tokens"] != us[0]["cache_creation_input_tokens"] || us[1]["cache_creation_input_tokens"] != 0. {
		t.Errorf("second: %v after %v", us[1], us[0])
	}
	if js, _ := json.Marshal(us[2]); string(js) != `{"cache_creation_input_tokens":3,"cache_read_input_tokens":2,"input_tokens":1,"output_tokens":4,"output_tokens_details":{"thinking_tokens":1}}` {
		t.Errorf("third: %s", js)
	}
}

func TestFloods(t *testing.T) {
	stub := newStub(t)
	got := listen(mustPost(t, stub.Scenario(modelstub.Say(modelstub.Flood(100_000, 20))), "/v1/messages", ask).Body)
	if got.deltas != 100_000 || len(got.blocks[0]) != len("text:")+2_000_000 || got.err != nil {
		t.Errorf("%d deltas, %v", got.deltas, got.err)
	}
	got = listen(mustPost(t, stub.Scenario(modelstub.Say(modelstub.Huge(8<<20))), "/v1/messages", ask).Body)
	if got.deltas != 1 || len(got.blocks[0]) != len("text:")+8<<20 || got.err != nil {
		t.Errorf("%d deltas, %v", got.deltas, got.err)
	}
}

// Many agents use one server at a time, and one scenario.
func TestManyAtOnce(t *testing.T) {
	stub := newStub(t)
	shared := stub.Scenario()
	shared.Func(func(r modelstub.Request) modelstub.Turn { return modelstub.Say(modelstub.Text(r.Prompt())) })
	done := make(chan string)
	for range 16 {
		go func() {
			own := stub.Scenario(modelstub.Say(modelstub.Text("own")))
			done <- text(t, own, ask) + " " + text(t, shared, ask)
		}()
	}
	for range 16 {
		if got := <-done; got != "own hello" {
			t.Errorf("%q", got)
		}
	}
	if shared.Count() != 16 {
		t.Error(shared.Count())
	}
}
