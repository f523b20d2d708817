package events_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"innerd/events"
	"innerd/test/mutate"
)

func ptr[T any](v T) *T { return &v }

// samples has every type, with every field set.
func samples() []events.Data {
	raw := json.RawMessage(`{"a":[1,"ü"]}`)
	ext := []events.Extension{{URI: "urn:x", Data: raw}}
	part := events.Part{Type: events.PartImage, Name: "n", MimeType: "image/png", Data: "AA==", ID: "i"}
	usage := events.Usage{
		InputTokens: ptr(int64(1)), OutputTokens: ptr(int64(2)), CacheReadTokens: ptr(int64(0)), CacheWriteTokens: ptr(int64(3)),
		ReasoningTokens: ptr(int64(4)), TotalTokens: ptr(int64(10)), Cost: ptr(0.25), PremiumRequests: ptr(int64(1)),
		PremiumRequestsExact: ptr(0.33), Duration: ptr(1.5), TTFTMS: ptr(int64(7)), Model: "m", Backend: "simulate", Extensions: ext,
	}
	return []events.Data{
		events.TaskID{TaskID: "t", ContextID: "c", Backend: "simulate"},
		events.ReasoningDelta{Delta: "d", ReasoningID: "r"},
		events.Reasoning{Content: "d", ReasoningID: "r"},
		events.MessageDelta{Delta: "d", MessageID: "m"},
		events.Message{
			Content: "d", MessageID: "m", FinishReason: "end_turn", Partial: true, Synthetic: true, Extensions: ext,
			ToolCalls: []events.CallSummary{{ID: "1", Name: "n", Arguments: raw, Extensions: ext}},
		},
		events.Discarded{MessageID: "m", ReasoningID: "r", Reason: "retry"},
		events.ToolCall{ID: "1", NativeID: "call_0", Name: "bash", Input: raw},
		events.ToolUpdate{ID: "1", ParentID: "0", Name: "bash", Input: raw, Output: "o"},
		events.ToolComplete{ID: "1", ParentID: "0", Name: "bash", Input: raw, Success: true, ExitCode: ptr(0), Result: "r", DurationMS: 5},
		events.ToolRequest{ToolCallID: "tc", NativeID: "n", ToolName: "t", Arguments: raw, DeadlineS: 1.5},
		events.ToolResolved{ToolCallID: "tc", Outcome: "ok", Result: "r", Content: []events.Part{part}, IsError: true},
		events.PermissionRequest{RequestID: "rq", Tool: "bash", Input: raw, Options: []events.PermissionOption{{ID: "1", Kind: events.Deny, Label: "No"}}},
		events.PermissionResolved{RequestID: "rq", Outcome: "denied", By: "host", Message: "no"},
		events.InputRequired{Message: "?", Schema: raw, RequestID: "rq"},
		events.InputResolved{RequestID: "rq", Outcome: "answered", Value: raw},
		events.Damaged{},
		events.Status{State: "retrying", Detail: "d", Mode: "new", Reason: "edit", Attempt: 2, ErrorType: "rate_limit", DelayMS: 9},
		events.Steered{Text: "t"},
		events.Plan{Entries: []events.PlanEntry{{Content: "c", Status: "pending"}}},
		events.FileChange{Path: "p", Kind: "edit", Diff: "@@"},
		events.SubagentStart{ID: "1", ParentID: "0", Name: "n", Text: "t"},
		events.SubagentDelta{ID: "1", ParentID: "0", Name: "n", Text: "t"},
		events.SubagentComplete{ID: "1", ParentID: "0", Name: "n", Result: "r"},
		events.TurnUsage{Usage: usage},
		usage,
		events.Error{Message: "m", ErrorType: "auth", Status: 401, Retriable: true, RetryAfterS: 0.5},
		events.End{
			State: events.Failed, Reason: "auth", Output: raw, Usage: &usage, FilesChanged: []string{"a"},
			ExitCode: ptr(3), Signal: "killed", StderrTail: "s",
		},
		events.Heartbeat{Status: "waiting", ElapsedS: 15, IdleS: 2.5},
	}
}

func TestEveryTypeRoundTrips(t *testing.T) {
	seen := map[events.Type]bool{}
	for _, d := range samples() {
		seen[d.EventType()] = true
		line, err := events.AppendLine(nil, 7, 1700000000000, d)
		if err != nil {
			t.Fatal(err)
		}
		ascii(t, line)
		e, err := events.ParseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		if e.ID != 7 || e.TS != 1700000000000 || e.Type() != d.EventType() {
			t.Fatalf("%s", line)
		}
		if diff := cmp.Diff(d, e.Data, cmp.Transformer("json", normal)); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
	for _, typ := range events.Types() {
		if !seen[typ] {
			t.Errorf("no sample of %s", typ)
		}
	}
	if len(seen) != len(events.Types()) {
		t.Errorf("%d types, %d listed", len(seen), len(events.Types()))
	}
}

// normal makes JSON texts of one meaning equal: raw values come back escaped.
func normal(raw json.RawMessage) any {
	var v any
	_ = json.Unmarshal(raw, &v)
	return v
}

func ascii(t *testing.T, line []byte) {
	t.Helper()
	if !json.Valid(line) {
		t.Fatalf("not JSON: %q", line)
	}
	for _, c := range line {
		if c < 0x20 || c >= 0x7f {
			t.Fatalf("byte %#x in %q", c, line)
		}
	}
}

var texts = []string{
	"", "plain", `quote " backslash \ slash /`, "\n\r\t\b\f\x00\x1f\x7f", "<script>&amp;</script>",
	"ü \u0085 \u2028 \u2029 \ufeff \ufffd", "😀 \U0010ffff", "\u00a0 \u200d 中文", strings.Repeat("é😀", 1000),
}

func TestTextsAreASCIIAndComeBack(t *testing.T) {
	for _, s := range texts {
		quoted, _ := json.Marshal(s)
		for _, d := range []events.Data{
			events.MessageDelta{Delta: s, MessageID: s},
			events.ReasoningDelta{Delta: s, ReasoningID: s},
			events.Reasoning{Content: s, ReasoningID: s},
			events.Message{Content: s, MessageID: "m"},
			events.ToolCall{ID: "1", Name: s, Input: quoted},
			events.InputResolved{RequestID: s, Outcome: s, Value: quoted},
		} {
			line, err := events.AppendLine(nil, 1, 1, d)
			if err != nil {
				t.Fatal(err)
			}
			ascii(t, line)
			e, err := events.ParseLine(line)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(d, e.Data, cmp.Transformer("json", normal)); diff != "" {
				t.Errorf("%q: %s", s, diff)
			}
		}
	}
}

func TestSurrogatesAndInvalidUTF8(t *testing.T) {
	for in, want := range map[string]string{
		"😀":            `\ud83d\ude00`,
		"\u0085":       `\u0085`,
		"a\xffb":       `a\ufffdb`,
		"\xed\xa0\xbd": `\ufffd\ufffd\ufffd`, // a surrogate is no character
		"cut\xe4\xb8":  `cut\ufffd\ufffd`,
	} {
		line, err := events.AppendLine(nil, 0, 0, events.MessageDelta{Delta: in, MessageID: "m"})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(line); !strings.Contains(got, `"delta":"`+want+`"`) {
			t.Errorf("%q became %s, want %s", in, got, want)
		}
	}
}

func TestEncodingByHandIsEncodingJSON(t *testing.T) {
	for _, s := range texts {
		for _, d := range []events.Data{
			events.MessageDelta{Delta: s, MessageID: "m"},
			events.ReasoningDelta{Delta: s, ReasoningID: "r"},
			events.Reasoning{Content: s, ReasoningID: "r"},
			events.Message{Content: s, MessageID: "m"},
			events.Message{Content: s, MessageID: "m", FinishReason: "end_turn", Synthetic: true},
			events.Message{Content: s, MessageID: "m", FinishReason: s, Partial: true},
		} {
			line, err := events.AppendLine(nil, 0, 0, d)
			if err != nil {
				t.Fatal(err)
			}
			var env struct {
				Type events.Type
				Data map[string]any
			}
			if err := json.Unmarshal(line, &env); err != nil {
				t.Fatal(err)
			}
			var want map[string]any
			plain, _ := json.Marshal(d)
			_ = json.Unmarshal(plain, &want)
			delete(env.Data, "extensions")
			if diff := cmp.Diff(want, env.Data); diff != "" || env.Type != d.EventType() {
				t.Error(diff)
			}
		}
	}
}

// Texts are looked at eight bytes at a time: every byte in every place.
func TestEveryByteInEveryPlace(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			text := []byte("abcdefghijklmnopqrst")
			text[at] = byte(c)
			line, err := events.AppendLine(nil, 0, 0, events.MessageDelta{Delta: string(text), MessageID: "m"})
			if err != nil {
				t.Fatal(err)
			}
			ascii(t, line)
			e, err := events.ParseLine(line)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := e.Data.(events.MessageDelta).Delta, strings.ToValidUTF8(string(text), "\ufffd"); got != want {
				t.Errorf("%q became %q", text, got)
			}
		}
	}
}

func TestExtensions(t *testing.T) {
	for typ, want := range map[events.Data]string{
		events.ReasoningDelta{}: `"extensions":[{"uri":"urn:ii-agent:extensions:reasoning/v1"}]`,
		events.Reasoning{}:      `"extensions":[{"uri":"urn:ii-agent:extensions:reasoning/v1"}]`,
	} {
		if line, _ := events.AppendLine(nil, 0, 0, typ); !strings.Contains(string(line), want) {
			t.Errorf("%s", line)
		}
	}
	line, err := events.AppendLine(nil, 0, 0, events.ToolCall{ID: "1", Name: "bash", Input: json.RawMessage(`{}`)})
	want := `{"type":"assistant.tool_call","data":{"id":"1","name":"bash","input":{},"extensions":[{"uri":` +
		`"urn:ii-agent:extensions:tool-telemetry/v1","data":{"tool_name":"bash","phase":"pre"}}]}}`
	if err != nil || string(line) != want {
		t.Errorf("%s %v", line, err)
	}
}

func TestUnknownTypesAndFieldsAreKept(t *testing.T) {
	line := `{"id":3,"ts":5,"type":"later.type","data":{"x":[1,{"y":null}]}}`
	e, err := events.ParseLine([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	u, ok := e.Data.(events.Unknown)
	if !ok || u.Type != "later.type" || string(u.Raw) != `{"x":[1,{"y":null}]}` {
		t.Fatalf("%#v", e.Data)
	}
	again, err := events.AppendLine(nil, e.ID, e.TS, e.Data)
	if err != nil || string(again) != line {
		t.Fatalf("%s %v", again, err)
	}
	e, err = events.ParseLine([]byte(`{"id":3,"type":"assistant.message_delta","data":{"delta":"d","message_id":"m","more":1}}`))
	if err != nil || e.Data != (events.MessageDelta{Delta: "d", MessageID: "m"}) || !strings.Contains(string(e.Raw), `"more":1`) {
		t.Fatalf("%#v %v", e, err)
	}
	// A known type whose data does not fit loses nothing either.
	e, err = events.ParseLine([]byte(`{"id":3,"type":"assistant.message_delta","data":{"delta":7}}`))
	if u, ok := e.Data.(events.Unknown); err != nil || !ok || u.Type != events.TypeMessageDelta || string(u.Raw) != `{"delta":7}` {
		t.Fatalf("%#v %v", e, err)
	}
	if line, err := events.AppendLine(nil, 0, 0, events.Unknown{Type: "x"}); err != nil || string(line) != `{"type":"x","data":{}}` {
		t.Fatalf("%s %v", line, err)
	}
}

func TestBadInput(t *testing.T) {
	for _, line := range []string{"", "x", "[]", `{}`, `{"id":1}`, `{"id":"1","type":"x"}`, `{"type":"x","data":{}`, `{"type":7}`} {
		if e, err := events.ParseLine([]byte(line)); err == nil {
			t.Errorf("%q became %#v", line, e)
		}
	}
	for _, d := range []events.Data{
		events.ToolCall{Input: json.RawMessage(`{`)}, events.Unknown{Type: "x", Raw: json.RawMessage("nope")},
	} {
		dst, err := events.AppendLine([]byte("keep"), 1, 1, d)
		if err == nil || !strings.HasPrefix(string(dst), "keep") {
			t.Errorf("%s %v", dst, err)
		}
	}
}

func TestErrors(t *testing.T) {
	e := events.NewError(events.ErrQuota, " no more ")
	if e.Message != "rate limit (quota): no more" || e.ErrorType != events.ErrQuota || e.Retriable {
		t.Errorf("%+v", e)
	}
	if e := events.NewError("what", ""); e.ErrorType != events.ErrInternal || e.Message != "execution failed: internal" {
		t.Errorf("%+v", e)
	}
}

func FuzzText(f *testing.F) {
	for _, s := range texts {
		f.Add(s)
	}
	f.Add("\xed\xa0\xbd\xed\xb8\x80")
	f.Fuzz(func(t *testing.T, s string) {
		line, err := events.AppendLine(nil, 1, 1, events.MessageDelta{Delta: s, MessageID: "m"})
		if err != nil {
			t.Fatal(err)
		}
		ascii(t, line)
		e, err := events.ParseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		got := e.Data.(events.MessageDelta).Delta
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && got != want {
			t.Fatalf("%q became %q", s, got)
		}
		if !utf8.ValidString(got) {
			t.Fatalf("%q", got)
		}
	})
}

// FuzzParseLine checks that whatever can be parsed can be written and parsed
// again as the same.
func FuzzParseLine(f *testing.F) {
	for _, d := range samples() {
		line, _ := events.AppendLine(nil, 3, 4, d)
		f.Add(line)
	}
	f.Add([]byte(`{"type":"x","data":"\ud800"}`))
	for _, run := range mutate.Files(f, "../test/testdata/state-v1/runs/*/*.jsonl", 1) {
		for line := range bytes.Lines(run) {
			for bad := range mutate.Bytes(line, 10) {
				f.Add(bad)
			}
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := events.ParseLine(line)
		if err != nil {
			return
		}
		again, err := events.AppendLine(nil, e.ID, e.TS, e.Data)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		ascii(t, again)
		b, err := events.ParseLine(again)
		if err != nil || b.ID != e.ID || b.TS != e.TS || reflect.TypeOf(b.Data) != reflect.TypeOf(e.Data) {
			t.Fatalf("%q became %q, %v", line, again, err)
		}
	})
}

func BenchmarkAppendLine(b *testing.B) {
	var d events.Data = events.MessageDelta{Delta: "0123456789012345678901234567890123456789", MessageID: "msg_1"}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = events.AppendLine(buf[:0], 123456, 1700000000000, d)
	}
}
