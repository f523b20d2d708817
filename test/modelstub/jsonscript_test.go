package modelstub_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/test/modelstub"
)

func script(t *testing.T, stub *modelstub.Server, js string) *modelstub.Scenario {
	t.Helper()
	sc, err := stub.Script([]byte(js))
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

func TestScriptInJSON(t *testing.T) {
	stub := newStub(t)
	for name, tt := range map[string]struct {
		turn, stop string
		blocks     []string
		err        error
	}{
		"all blocks": {
			turn: `{"blocks":[{"thinking":"hm"},{"text":"a","chunk":1,"delay_ms":1},{"tool_use":{"name":"Bash","id":"t","input":{"a":1}}},
				{"tool_use":{"name":"None"}},{"tool_use":{"name":"Bad","bad_input":"{"}},{"flood":{"deltas":2,"bytes":5}},{"raw":{"type":"odd"}}]}`,
			blocks: []string{
				"thinking:hm", "text:a", `tool_use Bash t:{"a":1}`, "tool_use None toolu_stub_0001:{}", "tool_use Bad toolu_stub_0002:{",
				"text:loremlorem", "odd:",
			}, stop: "tool_use",
		},
		"steps": {
			turn: `{"delay_ms":1,"blocks":[{"text":"a","then":[{"sleep_ms":1},{"add":"b"},{"event":{"name":"x","data":{
				"y":1}}},{"add":"c"},{"cut":"drop"}]}]}`,
			blocks: []string{"text:abc"}, err: io.ErrUnexpectedEOF,
		},
		"at the end":     {turn: `{"blocks":[{"text":"a"},{"cut":"drop"},{"text":"b"}]}`, blocks: []string{"text:a"}, err: io.ErrUnexpectedEOF},
		"stop and usage": {turn: `{"blocks":[{"text":"a"}],"stop_reason":"refusal","usage":{"output":9}}`, blocks: []string{"text:a"}, stop: "refusal"},
	} {
		t.Run(name, func(t *testing.T) {
			got := listen(mustPost(t, script(t, stub, `{"turns":[`+tt.turn+`]}`), "/v1/messages", ask).Body)
			if diff := cmp.Diff(tt.blocks, got.blocks); diff != "" || got.stop != tt.stop || !errors.Is(got.err, tt.err) {
				t.Errorf("stop %q, error %v\n%s", got.stop, got.err, diff)
			}
		})
	}
}

func TestScriptRepeatsAndFails(t *testing.T) {
	sc := script(t, newStub(t), `{"key":"k","turns":[{"fail":{"status":429,"retry_after_s":2},"times":2}],"then":{"blocks":[{"text":"then"}]}}`)
	if sc.Key() != "k" {
		t.Error(sc.Key())
	}
	for range 2 {
		if res := mustPost(t, sc, "/v1/messages", ask); res.StatusCode != 429 || res.Header.Get("Retry-After") != "2" {
			t.Error(res.Status, res.Header)
		}
	}
	for range 2 {
		if got := text(t, sc, ask); got != "then" {
			t.Error(got)
		}
	}
}

func TestGatesOverHTTP(t *testing.T) {
	sc := script(t, newStub(t), `{"turns":[{"hold":"first","blocks":[{"text":"a","then":[{"hold":"second"},{"add":"b"}]}]}]}`)
	answer := make(chan string)
	go func() { answer <- text(t, sc, ask) }()
	for _, gate := range []string{"first", "second"} {
		<-sc.Gate(gate).Reached()
		if res := mustPost(t, sc, "/stub/release/"+gate, ""); res.StatusCode != http.StatusNoContent {
			t.Error(res.Status)
		}
	}
	if got := <-answer; got != "ab" {
		t.Error(got)
	}
	res, err := http.Get(sc.BaseURL() + "/stub/requests")
	if err != nil {
		t.Fatal(err)
	}
	if got := body(t, res); !strings.Contains(got, `"count":1`) || !strings.Contains(got, `"prompt":"hello"`) {
		t.Error(got)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestBadScripts(t *testing.T) {
	stub := newStub(t)
	for js, says := range map[string]string{
		`{`:              "EOF",
		`{} {}`:          "after the object",
		`{"turn":[]}`:    "turn",
		`{"turns":[{}]}`: "",
		`{"turns":[{},{"blocks":[{"txt":"a"}]}]}`:                                "txt",
		`{"turns":[{},{"blocks":[{"text":"a"},{"text":"a","thinking":"b"}]}]}`:   "turns[1]: blocks[1]: more than one",
		`{"turns":[{"blocks":[{}]}]}`:                                            "turns[0]: blocks[0]: an empty block",
		`{"turns":[{"blocks":[{"tool_use":{}}]}]}`:                               "name is missing",
		`{"turns":[{"blocks":[{"text":"a","cut":"softly"}]}]}`:                   `cut "softly"`,
		`{"turns":[{"cut":"softly"}]}`:                                           `cut "softly"`,
		`{"turns":[{"fail":{"status":200}}]}`:                                    "status 200",
		`{"turns":[{"blocks":[{"text":"a","then":[{"add":"b","hang":true}]}]}]}`: "a step with 2",
		`{"turns":[{"blocks":[{"text":"a","then":[{}]}]}]}`:                      "a step with 0",
		`{"turns":[{"instead":[{}]}]}`:                                           "instead[0]",
		`{"then":{"blocks":[{}]}}`:                                               "then: blocks[0]",
		`{"turns":[{"blocks":[{"text":"a","error":{"status":9999}}]}]}`:          "status 9999",
	} {
		_, err := stub.Script([]byte(js))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", js, err, says)
		}
	}
}

// The examples in the README are scripts that work.
func TestReadme(t *testing.T) {
	stub := newStub(t)
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(readme, -1)
	if len(examples) != 2 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, e := range examples {
		js := string(e[1])
		if !strings.Contains(js, `"turns"`) {
			js = `{"turns":[{"blocks":[` + js + `]}]}`
		}
		script(t, stub, js)
	}
}

// What only OpenAI's APIs have words for.
func TestScriptForOpenAI(t *testing.T) {
	sc := script(t, newStub(t), `{"key":"","turns":[
		{"blocks":[{"text":"a","phase":"commentary"},{"tool_use":{"name":"apply_patch","freeform":"*** x"}},{"tool_use":{"name":"deep","namespace":"host"}}]},
		{"fail":{"status":429,"code":"odd"}}, {"fail":{"status":429,"body":{"error":{"code":"own"}}}}]}`)
	got := hearResponses(t, mustPost(t, sc, "/v1/responses", askResponses).Body)
	want := []string{"message commentary:a", "custom_tool_call apply_patch call_stub_0001:*** x", "function_call host deep call_stub_0002:{}"}
	if diff := cmp.Diff(want, got.blocks); diff != "" {
		t.Error(diff)
	}
	for _, code := range []string{`"code":"odd"`, `{"error":{"code":"own"}}`} {
		if got := body(t, mustPost(t, sc, "/v1/responses", askResponses)); !strings.Contains(got, code) {
			t.Errorf("%s lacks %s", got, code)
		}
	}
}
