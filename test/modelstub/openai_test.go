package modelstub_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"innerd/test/modelstub"
)

const (
	askResponses = `{"model":"m","stream":true,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}]}`
	askChat      = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hello"}]}`
)

func TestOpenAIStreams(t *testing.T) {
	stub := newStub(t)
	const odd = "Hello, \u0085 \u2028 👋🏽 “world” <b>."
	for name, tt := range map[string]struct {
		turn            modelstub.Turn
		responses, chat []string // "" in chat: the same
		end, finish     string   // "": completed, stop
	}{
		"text":                {turn: modelstub.Say(modelstub.Text(odd).Chunk(1)), responses: []string{"message:" + odd}, chat: []string{"text:" + odd}},
		"thinking, then text": {turn: modelstub.Say(modelstub.Thinking("let me see"), modelstub.Text("yes").Phase("final_answer")), responses: []string{"reasoning:let me see", "message final_answer:yes"}, chat: []string{"thinking:let me see", "text:yes"}},
		"parallel tools": {
			turn:      modelstub.Say(modelstub.Text("now"), modelstub.Tool("date", map[string]any{"zone": "x"}), modelstub.Tool("look", json.RawMessage(`{"a":1}`)).ID("same").Namespace("host")),
			responses: []string{"message:now", `function_call date call_stub_0001:{"zone":"x"}`, `function_call host look same:{"a":1}`},
			chat:      []string{"text:now", `function date call_stub_0001:{"zone":"x"}`, `function look same:{"a":1}`}, finish: "tool_calls",
		},
		"freeform tool": {
			turn:      modelstub.Say(modelstub.Custom("apply_patch", patch)),
			responses: []string{"custom_tool_call apply_patch call_stub_0001:" + patch}, chat: []string{"custom apply_patch call_stub_0001:" + patch}, finish: "tool_calls",
		},
		"broken input": {
			turn:      modelstub.Say(modelstub.BadTool("date", `{"zone": `)),
			responses: []string{`function_call date call_stub_0001:{"zone": `}, chat: []string{`function date call_stub_0001:{"zone": `}, finish: "tool_calls",
		},
		"empty":           {turn: modelstub.Empty()},
		"cut by a limit":  {turn: modelstub.Say(modelstub.Text("cut")).Stops("max_tokens"), responses: []string{"message:cut"}, chat: []string{"text:cut"}, end: "response.incomplete max_output_tokens", finish: "length"},
		"filtered":        {turn: modelstub.Say(modelstub.Text("bad")).Stops("content_filter"), responses: []string{"message:bad"}, chat: []string{"text:bad"}, end: "response.incomplete content_filter", finish: "content_filter"},
		"refused":         {turn: modelstub.Say(modelstub.Text("never")).Stops("refusal"), responses: []string{"message:never"}, chat: []string{"refusal:never"}},
		"flood":           {turn: modelstub.Say(modelstub.Flood(3, 5)), responses: []string{"message:loremloremlorem"}, chat: []string{"text:loremloremlorem"}},
		"templates":       {turn: modelstub.Say(modelstub.Text("{{prompt}} {{model}}")), responses: []string{"message:hello m"}, chat: []string{"text:hello m"}},
		"an unknown kind": {turn: modelstub.Say(modelstub.Raw(`{"type":"news","odd":"x"}`)), responses: []string{"news:"}, chat: []string{"odd:x"}},
	} {
		for api, a := range apis {
			t.Run(name+" "+api, func(t *testing.T) {
				blocks, end := tt.responses, tt.end
				if end == "" {
					end = "response.completed"
				}
				if api == "chat" {
					blocks, end = tt.chat, tt.finish
					if end == "" {
						end = "stop"
					}
					end += " [DONE]"
				}
				got := a.hear(t, mustPost(t, stub.Scenario(tt.turn), a.path, a.ask).Body)
				if diff := cmp.Diff(blocks, got.blocks); diff != "" {
					t.Error(diff)
				}
				if got.end != end || got.err != nil || got.failed != "" || got.usage == nil {
					t.Errorf("end %q, want %q; %+v", got.end, end, got)
				}
			})
		}
	}
}

func TestOpenAIStreamsThatBreak(t *testing.T) {
	stub := newStub(t)
	half := modelstub.Text("half of it")
	for name, tt := range map[string]struct {
		turn   modelstub.Turn
		code   string
		broken bool
	}{
		"dropped":     {turn: modelstub.Say(half.Cut(modelstub.CutDrop)), broken: true},
		"ended":       {turn: modelstub.Say(half.Cut(modelstub.CutEOF))},
		"overloaded":  {turn: modelstub.Say(half.Overloaded()), code: "server_is_overloaded"},
		"rate limit":  {turn: modelstub.Say(half.Error(modelstub.Failure{Status: 429})), code: "rate_limit_exceeded"},
		"an own code": {turn: modelstub.Say(half.Error(modelstub.Failure{Code: "odd"})), code: "odd"},
		"too long":    {turn: modelstub.Say(half.Error(*modelstub.ContextTooLong().Fail)), code: "context_length_exceeded"},
	} {
		for api, a := range apis {
			t.Run(name+" "+api, func(t *testing.T) {
				got := a.hear(t, mustPost(t, stub.Scenario(tt.turn), a.path, a.ask).Body)
				if got.failed != tt.code || (got.err != nil) != tt.broken || got.end == "response.completed" || strings.Contains(got.end, "DONE") {
					t.Errorf("%+v", got)
				}
			})
		}
	}
	own := modelstub.Say(half.Error(modelstub.Failure{Body: `{"type":"error","error":` + "\n" + `{"type":"own"}}`}))
	if got := hearResponses(t, mustPost(t, stub.Scenario(own), "/responses", askResponses).Body); got.failed != "own" {
		t.Errorf("%+v", got)
	}
}

func TestOpenAIFailures(t *testing.T) {
	stub := newStub(t)
	for name, tt := range map[string]struct {
		turn             modelstub.Turn
		status           int
		kind, code, text string
		after            string
	}{
		"400":        {turn: modelstub.Fail(400), status: 400, kind: "invalid_request_error", code: "invalid_prompt"},
		"401":        {turn: modelstub.Fail(401), status: 401, kind: "invalid_request_error", code: "invalid_api_key"},
		"404":        {turn: modelstub.Fail(404), status: 404, kind: "invalid_request_error", code: "model_not_found"},
		"429":        {turn: modelstub.RateLimited(1500 * time.Millisecond), status: 429, kind: "requests", code: "rate_limit_exceeded", after: "2"},
		"500":        {turn: modelstub.Fail(500), status: 500, kind: "server_error", code: "server_error"},
		"502":        {turn: modelstub.Fail(502), status: 502, kind: "server_error", code: "server_error", text: "Bad Gateway"},
		"overloaded": {turn: modelstub.Overloaded(), status: 503, kind: "server_error", code: "server_is_overloaded"},
		"too long":   {turn: modelstub.ContextTooLong(), status: 400, kind: "invalid_request_error", code: "context_length_exceeded"},
		"no credit":  {turn: modelstub.NoCredit(), status: 429, kind: "insufficient_quota", code: "insufficient_quota"},
		"own":        {turn: modelstub.Turn{Fail: &modelstub.Failure{Status: 418, Type: "tea", Code: "pot", Message: "short", Header: http.Header{"Retry-After": {"7"}}}}, status: 418, kind: "tea", code: "pot", text: "short", after: "7"},
		"own body":   {turn: modelstub.Turn{Fail: &modelstub.Failure{Status: 429, Body: `{"error":{"type":"usage_limit_reached","code":"x","message":"y"}}`}}, status: 429, kind: "usage_limit_reached", code: "x"},
	} {
		for api, a := range apis {
			t.Run(name+" "+api, func(t *testing.T) {
				res := mustPost(t, stub.Scenario(tt.turn), a.path, a.ask)
				var body struct {
					Error struct{ Type, Code, Message string }
				}
				if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
					t.Fatal(err)
				}
				e := body.Error
				if res.StatusCode != tt.status || e.Type != tt.kind || e.Code != tt.code || e.Message == "" || !strings.Contains(e.Message, tt.text) || res.Header.Get("Retry-After") != tt.after {
					t.Errorf("%d %+v", res.StatusCode, body)
				}
			})
		}
	}
}

func TestOpenAIUsage(t *testing.T) {
	stub := newStub(t)
	use := modelstub.Usage{Input: 1, CacheRead: 20, CacheWrite: 300, Output: 40, Thinking: 5}
	want := map[string]string{
		"responses": `{"input_tokens":321,"input_tokens_details":{"cache_write_tokens":300,"cached_tokens":20},"output_tokens":40,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":361}`,
		"chat":      `{"completion_tokens":40,"completion_tokens_details":{"reasoning_tokens":5},"prompt_tokens":321,"prompt_tokens_details":{"cached_tokens":20},"total_tokens":361}`,
	}
	for api, a := range apis {
		got := a.hear(t, mustPost(t, stub.Scenario(modelstub.Say(modelstub.Text("x")).Uses(use)), a.path, a.ask).Body)
		if js, _ := json.Marshal(got.usage); string(js) != want[api] {
			t.Errorf("%s: %s", api, js)
		}
	}
	unasked := strings.Replace(askChat, "true}", "false}", 1)
	if got := hearChat(t, mustPost(t, stub.Scenario(modelstub.Empty()), "/chat/completions", unasked).Body); got.usage != nil {
		t.Errorf("usage without asking: %v", got.usage)
	}
}

// Both requests say the same; so does what the stub makes of them.
func TestOpenAIRequestsAreParsed(t *testing.T) {
	stub := newStub(t)
	const png = `"data:image/png;base64,AAAA"`
	bodies := map[string]string{
		"responses": `{"model":"m-1","max_output_tokens":7,"stream":true,"instructions":"be","tools":[{"type":"function","name":"date","description":"tells","parameters":{"type":"object"}},
			{"type":"custom","name":"patch","format":{"syntax":"lark"}},{"type":"namespace","name":"host","tools":[{"type":"function","name":"deep"}]},{"type":"web_search"}],
			"input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"kind"}]},
			{"role":"user","content":[{"type":"input_text","text":"<environment_context>no</environment_context>"}]},
			{"role":"user","content":[{"type":"input_text","text":"hello"},{"type":"input_image","image_url":` + png + `}]},
			{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"so"}]},
			{"type":"function_call","call_id":"t1","name":"date","arguments":"{\"zone\":\"x\"}"},{"type":"custom_tool_call","call_id":"t2","name":"patch","input":"*** x"},
			{"type":"function_call_output","call_id":"t1","output":"a"},
			{"type":"custom_tool_call_output","call_id":"t2","output":[{"type":"input_text","text":"b"},{"type":"input_image","image_url":` + png + `},{"type":"input_text","text":"c"}]}]}`,
		"chat": `{"model":"m-1","max_tokens":7,"stream":true,"tools":[{"type":"function","function":{"name":"date","description":"tells","parameters":{"type":"object"}}},
			{"type":"custom","custom":{"name":"patch","format":{"syntax":"lark"}}}],
			"messages":[{"role":"system","content":"be"},{"role":"developer","content":"kind"},
			{"role":"user","content":[{"type":"text","text":"<current_datetime>no</current_datetime>\n\nhello"},{"type":"image_url","image_url":{"url":` + png + `}}]},
			{"role":"assistant","reasoning_content":"hm","content":"so","tool_calls":[{"id":"t1","type":"function","function":{"name":"date","arguments":"{\"zone\":\"x\"}"}},
			{"id":"t2","type":"custom","custom":{"name":"patch","input":"*** x"}}]},
			{"role":"tool","tool_call_id":"t1","content":"a"},
			{"role":"tool","tool_call_id":"t2","content":[{"type":"text","text":"b"},{"type":"image_url","image_url":{"url":` + png + `}},{"type":"text","text":"c"}]}]}`,
	}
	for api, a := range apis {
		t.Run(api, func(t *testing.T) {
			sc := stub.Scenario()
			a.hear(t, mustPost(t, sc, a.path, bodies[api]).Body)
			r := sc.Requests()[0]
			if r.Model != "m-1" || r.MaxTokens != 7 || r.System != "be\n\nkind" || r.Prompt() != "hello" || r.ToolResult() != "b\nc" {
				t.Errorf("%+v", r)
			}
			date, _ := r.Tool("date")
			if custom, ok := r.Tool("patch"); !ok || !custom.Custom || string(date.Schema) != `{"type":"object"}` || date.Description != "tells" {
				t.Errorf("tools %+v", r.Tools)
			}
			if deep, ok := r.Tool("deep"); ok != (api == "responses") || ok && deep.Namespace != "host" {
				t.Errorf("tools %+v", r.Tools)
			}
			n := len(r.Messages)
			asked, said, res := r.Messages[n-3].Parts, r.Messages[n-2].Parts, r.ToolResults()
			if asked[1].Type != "image" || asked[1].MediaType != "image/png" || asked[1].Data != "AAAA" {
				t.Errorf("asked %+v", asked)
			}
			if len(said) != 4 || said[0].Text != "hm" || said[1].Text != "so" || string(said[2].Input) != `{"zone":"x"}` || said[3].Name != "patch" || string(said[3].Input) != `"*** x"` {
				t.Errorf("said %+v", said)
			}
			if len(res) != 2 || res[0].ID != "t1" || res[0].Text != "a" || res[1].Parts[1].Data != "AAAA" {
				t.Errorf("results %+v", res)
			}
		})
	}
}

func TestOpenAISideRequests(t *testing.T) {
	stub := newStub(t)
	sc := stub.Scenario(modelstub.Say(modelstub.Thinking("hm"), modelstub.Text("half").Cut(modelstub.CutDrop), modelstub.Tool("date", struct{}{})).Times(2))
	for _, a := range apis {
		a.hear(t, mustPost(t, sc, a.path, a.ask).Body)
		got := body(t, mustPost(t, sc, a.path, strings.Replace(a.ask, `"stream":true`, `"stream":false`, 1)))
		if !json.Valid([]byte(got)) || !strings.Contains(got, `"half"`) || !strings.Contains(got, `"hm"`) || !strings.Contains(got, `"date"`) {
			t.Error(got)
		}
		if res := mustPost(t, sc, a.path, "{}"); res.StatusCode != http.StatusBadRequest {
			t.Error(res.Status)
		}
	}
	if got := body(t, mustPost(t, sc, "/v1/responses/input_tokens", askResponses)); !strings.Contains(got, `"input_tokens":`) {
		t.Error(got)
	}
	for path, want := range map[string]int{"/v1/models": 200, "/models": 200, "/v1/other": 404} {
		res, err := http.Get(sc.BaseURL() + path)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != want {
			t.Errorf("%s: %s", path, res.Status)
		}
		body(t, res)
	}
	http.DefaultClient.CloseIdleConnections()
	kinds := map[modelstub.Kind]int{}
	for _, r := range sc.Side() {
		kinds[r.Kind]++
	}
	want := map[modelstub.Kind]int{modelstub.KindWhole: 2, modelstub.KindOther: 3, modelstub.KindCount: 1, modelstub.KindModels: 2}
	if diff := cmp.Diff(want, kinds); diff != "" || sc.Count() != 2 {
		t.Errorf("%d streams, side %s", sc.Count(), diff)
	}
}

func TestPackedBodies(t *testing.T) {
	sc := newStub(t).Scenario()
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	_, _ = io.WriteString(zw, askResponses)
	_ = zw.Close()
	for encoding, want := range map[string]int{"gzip": 200, "br": 415} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, sc.V1()+"/responses", bytes.NewReader(packed.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Encoding", encoding)
		req.Header.Set("Authorization", "Bearer "+sc.Key())
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if body(t, res); res.StatusCode != want {
			t.Errorf("%s: %s", encoding, res.Status)
		}
	}
	if rs := sc.Requests(); len(rs) != 1 || rs[0].Prompt() != "hello" {
		t.Errorf("%+v", rs)
	}
}

// What Anthropic has no word for is said in its nearest.
func TestAnthropicFreeformTool(t *testing.T) {
	got := listen(mustPost(t, newStub(t).Scenario(modelstub.Say(modelstub.Custom("apply_patch", "a \"b\"\n").Chunk(1))), "/v1/messages", ask).Body)
	if diff := cmp.Diff([]string{`tool_use apply_patch toolu_stub_0001:{"input":"a \"b\"\n"}`}, got.blocks); diff != "" {
		t.Error(diff)
	}
}
