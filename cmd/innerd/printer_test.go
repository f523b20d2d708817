package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"innerd/events"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain é 🙂\n\t":             "plain é 🙂\n\t",
		styleDim + "x" + styleReset: styleDim + "x" + styleReset,
		"a\x1b[2Jb":                 "a␛[2Jb",
		"over\rwritten\b":           "over␍written␈",
		"\u009b1m\x7f\u202e":        "\ufffd1m␡\ufffd",
	} {
		if got := clean(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func i64(n int64) *int64 { return &n }

func TestPrinter(t *testing.T) {
	var out, errOut bytes.Buffer
	p := newPrinter(&app{out: &out, err: &errOut, getenv: env()}, false, false)
	cost := 0.01234
	for _, d := range []events.Data{
		events.ReasoningDelta{Delta: "hm"},
		events.Reasoning{Content: "hm"},
		events.MessageDelta{Delta: "one"},
		events.Message{Content: "one"},
		events.ToolCall{Name: "bash", Input: json.RawMessage("{\n \"a\": 1}")},
		events.ToolComplete{Name: "bash", Result: "no\nsuch"},
		events.MessageDelta{Delta: "ha"},
		events.Discarded{Reason: "the stream was cut"},
		events.MessageDelta{Delta: "two\n"},
		events.Message{Content: "two\n"},
		events.Usage{Backend: "simulate", Model: "m", InputTokens: i64(1234567), OutputTokens: i64(0), CacheReadTokens: i64(0), Cost: &cost},
		events.End{State: events.Completed},
	} {
		p.event(events.Event{Data: d})
	}
	p.finish()
	if got, want := out.String(), "one\n\nha\n\ntwo\n"; got != want {
		t.Errorf("stdout %q, want %q", got, want)
	}
	want := "hm\n• bash {\"a\":1}\n· bash failed: no such\n· the agent takes that back: the stream was cut\n" +
		"· simulate · m · 1,234,567 in + 0 out tokens · $0.0123\n"
	if got := errOut.String(); got != want {
		t.Errorf("stderr\n%q, want\n%q", got, want)
	}
}

func TestAnswerHint(t *testing.T) {
	for schema, want := range map[string]string{
		``: "", `{"type":"string"}`: "", `{"type":"string","enum":["a","b"]}`: "a, b", `{"type":"boolean"}`: "yes or no",
		`{"type":"object","properties":{"c":{"enum":[1,2]}}}`:  "1, 2",
		`{"type":"object","properties":{"b":{},"a":{}}}`:       "a JSON object with a, b",
		`{"type":"object","properties":{"a":{"type":"text"}}}`: "",
	} {
		if got := answerHint(json.RawMessage(schema)); got != want {
			t.Errorf("%s: %q, want %q", schema, got, want)
		}
	}
}

func TestAnswerValue(t *testing.T) {
	for _, c := range []struct{ schema, line, want string }{
		{`{"type":"string"}`, "42", `"42"`},
		{`{"type":"integer"}`, "42", `42`},
		{`{"type":"integer"}`, "many", `"many"`},
		{`{"type":"object","properties":{"n":{"type":"number"}}}`, "4.5", `{"n":4.5}`},
		{`{"type":"object","properties":{"a":{},"b":{}}}`, `{"a":1}`, `{"a":1}`},
		{`{"type":"object","properties":{"sure":{"type":"boolean"}}}`, `Yes`, `{"sure":true}`},
		{`{"type":"boolean"}`, `no`, `false`},
		{``, `say "hi"`, `"say \"hi\""`},
	} {
		if got := string(answerValue(json.RawMessage(c.schema), c.line)); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.schema, c.line, got, c.want)
		}
	}
}
