package simulate_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/simulate"
)

func TestValidateNamesWhatIsWrong(t *testing.T) {
	const script = "metadata.agent_options.script"
	for _, test := range []struct{ name, options, field, reason string }{
		{"not an object", `[]`, "metadata.agent_options", "an object"},
		{"unknown option", `{"script":[],"speed":9}`, "metadata.agent_options.speed", "script"},
		{"not a list", `{"script":{"text":"a"}}`, script, "list of steps"},
		{"not a step", `{"script":["text"]}`, script + "[0]", "an object"},
		{"null step", `{"script":[{"text":"a"},null]}`, script + "[1]", "an object"},
		{"empty step", `{"script":[{}]}`, script + "[0]", "ask, background"},
		{"unknown step", `{"script":[{"text":"a"},{"txet":"b"}]}`, script + "[1]", `unknown step "txet"; the steps are: ask, background, call, calls, change, compact, crash, cut, empty, error, finish, flood, full, native, next, output, permission, reasoning, refused, repeat, retry, sleep_ms, stall, subagent, text, told, tool, usage`},
		{"two steps", `{"script":[{"text":"a","stall":true}]}`, script + "[0]", "stall, text"},
		{"unknown key", `{"script":[{"text":"a","chunk":2}]}`, script + "[0].chunk", "text, chunk_bytes, delay_ms"},
		{"key of another step", `{"script":[{"sleep_ms":1,"delay_ms":2}]}`, script + "[0].delay_ms", "sleep_ms"},
		{"unknown key inside", `{"script":[{"tool":{"name":"a","out":"b"}}]}`, script + "[0].tool.out", "name, input, output, exit_code, ms"},
		{"wrong type", `{"script":[{"text":7}]}`, script + "[0].text", "a string"},
		{"null text", `{"script":[{"text":null}]}`, script + "[0].text", "a string"},
		{"a fraction", `{"script":[{"sleep_ms":1.5}]}`, script + "[0].sleep_ms", "a whole number"},
		{"too low", `{"script":[{"text":"a","chunk_bytes":0}]}`, script + "[0].chunk_bytes", "from 1 to"},
		{"too long", `{"script":[{"sleep_ms":999999999999}]}`, script + "[0].sleep_ms", "from 0 to"},
		{"missing", `{"script":[{"call":{"arguments":{}}}]}`, script + "[0].call.tool", "missing"},
		{"arguments no object", `{"script":[{"call":{"tool":"a","arguments":[1]}}]}`, script + "[0].call.arguments", "an object"},
		{"in a list", `{"script":[{"calls":[{"tool":"a"},{"tol":"b"}]}]}`, script + "[0].calls[1].tol", "tool, arguments"},
		{"no calls", `{"script":[{"calls":[]}]}`, script + "[0].calls", "empty"},
		{"stamp", `{"script":[{"flood":{"deltas":1,"bytes":19,"stamp":true}}]}`, script + "[0].flood.bytes", "at least 20"},
		{"stamp of a wrong type", `{"script":[{"flood":{"deltas":1,"stamp":1}}]}`, script + "[0].flood.stamp", "true or false"},
		{"nested", `{"script":[{"repeat":2,"steps":[{"text":"a"},{"flood":{"deltas":"many"}}]}]}`, script + "[0].steps[1].flood.deltas", "a whole number"},
		{"repeat of nothing", `{"script":[{"repeat":2}]}`, script + "[0].steps", "missing"},
		{"a word", `{"script":[{"error":{"error_type":"bad_luck"}}]}`, script + "[0].error.error_type", "rate_limit"},
		{"not true", `{"script":[{"stall":false}]}`, script + "[0].stall", "true"},
		{"usage", `{"script":[{"usage":{"input_tokens":-1}}]}`, script + "[0].usage.input_tokens", "from 0"},
		{"too deep", `{"script":` + strings.Repeat(`[{"repeat":1,"steps":`, 20) + `[]` + strings.Repeat(`}]`, 20) + `}`, ".steps", "nested"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := simulate.New(nil).Validate(backends.Settings{Options: json.RawMessage(test.options)})
			var field *backends.FieldError
			if !errors.As(err, &field) {
				t.Fatalf("error is %v, want a FieldError", err)
			}
			if !strings.HasSuffix(field.Field, test.field) {
				t.Errorf("field is %q, want %q", field.Field, test.field)
			}
			if !strings.Contains(field.Reason, test.reason) {
				t.Errorf("reason is %q, want it to hold %q", field.Reason, test.reason)
			}
		})
	}
}

// allSteps has every step with every key.
const allSteps = `[
	{"text":"a b","chunk_bytes":1,"delay_ms":0},{"reasoning":"r","chunk_bytes":2,"delay_ms":0},
	{"tool":{"name":"shell","input":{"a":1},"output":"o","exit_code":0,"ms":1}},
	{"call":{"tool":"t","arguments":{"a":[1,null]}}},{"calls":[{"tool":"t"},{"tool":"u","arguments":{}}]},
	{"permission":{"tool":"shell","input":{},"output":"o","exit_code":1,"ms":0}},
	{"ask":{"message":"m?","schema":{"type":"string"}}},
	{"usage":{"input_tokens":1,"output_tokens":2,"cache_read_tokens":3,"cache_write_tokens":4,"reasoning_tokens":5,"total_tokens":15,
		"cost":0.5,"premium_requests":1,"premium_requests_exact":0.3,"duration":1.5,"ttft_ms":3,"model":"m"}},
	{"sleep_ms":0},{"flood":{"deltas":3,"bytes":5,"per_second":100000}},
	{"retry":{"text":"t","reason":"r","error_type":"overloaded","wait_ms":1,"attempts":2,"chunk_bytes":1,"delay_ms":0}},
	{"error":{"message":"m","error_type":"rate_limit","status":429,"retry_after_s":1.5}},
	{"stall":true},{"empty":true},{"crash":{"exit_code":3,"stderr":"s"}},{"repeat":2,"steps":[{"text":"x"}]},
	{"finish":"refusal"},{"told":true}]`

func TestValidateTakesEveryStep(t *testing.T) {
	b := simulate.New(nil)
	for _, options := range []string{"", "null", "{}", `{"script":null}`, `{"script":[]}`, `{"script":` + allSteps + `}`} {
		if err := b.Validate(backends.Settings{Options: json.RawMessage(options)}); err != nil {
			t.Errorf("%s: %v", options, err)
		}
	}
}

func TestDefaultScript(t *testing.T) {
	c := open(t, &simulate.Options{Script: json.RawMessage(`[{"text":"by default"}]`)})
	log, _, err := run(t, c, prompt("hello"), turn{})
	if got := texts(log); err != nil || len(got) != 1 || got[0] != "by default" {
		t.Errorf("said %q, %v", got, err)
	}
	log, _, _ = run(t, c, script(`[{"text":"by the turn"}]`), turn{})
	if got := texts(log); len(got) != 1 || got[0] != "by the turn" {
		t.Errorf("said %q", got)
	}
}

func TestWrongDefaultScript(t *testing.T) {
	raw := json.RawMessage(`[{"say":"a"}]`)
	if err := simulate.CheckScript(raw); err == nil || !strings.HasPrefix(err.Error(), "script[0]: ") {
		t.Errorf("CheckScript: %v", err)
	}
	b := simulate.New(&simulate.Options{Script: raw})
	if s := b.Probe(t.Context()); s.Usable || s.Why == "" || s.Hint == "" || s.ErrorType == "" {
		t.Errorf("Probe: %+v", s)
	}
	if err := b.Validate(backends.Settings{}); err == nil {
		t.Error("Validate takes it")
	}
}

// FuzzScript: any bytes are a script or are refused with the field's name.
func FuzzScript(f *testing.F) {
	for _, seed := range []string{allSteps, `[]`, `null`, `[{}]`, `[{"text":7}]`, `{"script":[]}`, `[{"repeat":1,"steps":[{"repeat":1,"steps":[]}]}]`, `[{"flood":{"deltas":1e99}}]`, "[{\"\xff\":1}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := simulate.CheckScript(raw)
		if err == nil {
			return
		}
		var field *backends.FieldError
		if !errors.As(err, &field) || !strings.HasPrefix(field.Field, "script") || field.Reason == "" {
			t.Errorf("error is %#v", err)
		}
	})
}
