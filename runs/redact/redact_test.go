package redact_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/events"
	"innerd/runs/redact"
)

func set(t testing.TB, patterns ...string) *redact.Set {
	t.Helper()
	s, err := redact.New(patterns...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestText(t *testing.T) {
	s := set(t, "hunter2hunter2", "hunter2hunter2-longer", "sk-ant-*", "AKIA*", "pass wörd with space")
	for in, want := range map[string]string{
		"":                               "",
		"nothing here":                   "nothing here",
		"x hunter2hunter2 y":             "x [redacted] y",
		"hunter2hunter2-longer.":         "[redacted].",
		"hunter2hunter2-long":            "[redacted]-long",
		"hunter2hunter":                  "hunter2hunter",
		"huntehunter2hunter2":            "hunte[redacted]",
		"key=sk-ant-api03-AbC_123-xyz, ": "key=[redacted], ",
		"sk-ant-short":                   "sk-ant-short",
		"sk-ant-":                        "sk-ant-",
		"AKIAIOSFODNN7EXAMPLE":           "[redacted]",
		"AKIAIOSFODNN7EXAMPLE\nsk-ant-0123456789ab": "[redacted]\n[redacted]",
		"é pass wörd with space é":                  "é [redacted] é",
	} {
		if got := s.Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	var none *redact.Set
	if none.Text("hunter2hunter2") != "hunter2hunter2" || string(none.JSON(json.RawMessage(`"a"`))) != `"a"` {
		t.Error("no set redacts")
	}
}

// FuzzStream: whatever the pieces, a stream says what its whole would be, says
// no secret, and holds back only what may be the beginning of one.
func FuzzStream(f *testing.F) {
	f.Add("a hunter2hunter2 b sk-ant-0123456789abcdef c", 3)
	f.Add("hunter2hunter2-longe hunter2hunter2hunter2-longer", 1)
	f.Add("sk-ant-sk-ant-sk-ant-sk-ant- AKIAAKIAAKIAAKIAAKIA", 5)
	f.Add("sk-ant-hunter2hunter2!!sk-ant-0123456789ab", 2)
	s := set(f, "hunter2hunter2", "hunter2hunter2-longer", "2hunter2!!", "sk-ant-*", "sk-ant-hunter*", "AKIA*")
	f.Fuzz(func(t *testing.T, in string, size int) {
		size = 1 + (size&0x7fffffff)%40
		st := s.Stream()
		var out strings.Builder
		for rest := in; rest != ""; {
			n := min(size, len(rest))
			out.WriteString(st.Write(rest[:n]))
			rest = rest[n:]
		}
		out.WriteString(st.Close())
		if whole := s.Text(in); out.String() != whole {
			t.Fatalf("%q in pieces of %d: %q, whole %q", in, size, out.String(), whole)
		}
		if strings.Contains(out.String(), "hunter2hunter2") {
			t.Fatalf("%q became %q", in, out.String())
		}
		if raw, err := json.Marshal(in); err == nil {
			var back string
			if err := json.Unmarshal(s.JSON(raw), &back); err != nil {
				t.Fatalf("%s became %s", raw, s.JSON(raw))
			}
		}
	})
}

// Nothing is held back but what may begin a secret, and it comes with the next
// piece that tells.
func TestStreamHoldsBackLittle(t *testing.T) {
	st := set(t, "hunter2hunter2", "sk-ant-*").Stream()
	for _, c := range [][2]string{
		{"plain", "plain"},
		{" hun", " "},
		{"gry ", "hungry "},
		{"hunter2", ""},
		{"hunter2!", "[redacted]!"},
		{"sk-ant-0123456789ab", "[redacted]"},
		{"cdef", ""},
		{"gh and", " and"},
		{" sk", " "},
	} {
		if got := st.Write(c[0]); got != c[1] {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
	if got := st.Close(); got != "sk" {
		t.Errorf("at the end: %q", got)
	}
}

func TestJSON(t *testing.T) {
	s := set(t, "hunter2hunter2")
	for in, want := range map[string]string{
		`{"b":1.50,"a":"x hunter2hunter2","c":[null,"\u0068unter2hunter2"]}`: `{"b":1.50,"a":"x [redacted]","c":[null,"[redacted]"]}`,
		`{"hunter2hunter2":true}`:  `{"[redacted]":true}`,
		` {"a" : "\"\\" , "b":2} `: ` {"a" : "\"\\" , "b":2} `,
		`"`:                        `"`,
		``:                         ``,
	} {
		if got := string(s.JSON(json.RawMessage(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// Every text of every kind of event is looked at, and the event that was given
// stays as it was, since others hold it too.
func TestData(t *testing.T) {
	const secret = "hunter2hunter2"
	s := set(t, secret)
	raw := json.RawMessage(`{"a":"hunter2hunter2"}`)
	for _, d := range []events.Data{
		events.ToolCall{ID: "t1", Name: "shell", Input: raw},
		events.ToolUpdate{ID: "t1", Output: secret, Input: raw},
		events.ToolComplete{ID: "t1", Result: secret},
		events.ToolRequest{ToolCallID: "c1", Arguments: raw},
		events.ToolResolved{ToolCallID: "c1", Result: secret, Content: []events.Part{{Type: "text", Text: secret}, {Type: "json", JSON: raw}}},
		events.PermissionRequest{RequestID: "r1", Input: raw},
		events.InputRequired{Message: secret, Schema: raw},
		events.InputResolved{Value: raw},
		events.Status{State: "notice", Detail: secret},
		events.Steered{Text: secret},
		events.Plan{Entries: []events.PlanEntry{{Content: secret, Status: "pending"}}},
		events.FileChange{Path: "/" + secret, Diff: "+" + secret},
		events.SubagentStart{Text: secret},
		events.SubagentDelta{Text: secret},
		events.SubagentComplete{Result: secret},
		events.Error{Message: secret},
		events.End{Output: raw, FilesChanged: []string{secret}, StderrTail: secret, Usage: &events.Usage{Model: secret}},
		events.Message{ToolCalls: []events.CallSummary{{ID: "t1", Arguments: raw}}},
		events.TurnUsage{Usage: events.Usage{Model: secret}},
		events.Unknown{Type: "x", Raw: raw},
	} {
		before, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		out := s.Data(d)
		after, err := json.Marshal(out)
		if err != nil || strings.Contains(string(after), secret) || reflect.TypeOf(out) != reflect.TypeOf(d) {
			t.Errorf("%T became %s, %v", d, after, err)
		}
		if again, _ := json.Marshal(d); string(again) != string(before) {
			t.Errorf("%T was changed in place: %s", d, again)
		}
		if want := strings.ReplaceAll(string(before), secret, redact.Mark); want != string(after) {
			t.Error(cmp.Diff(want, string(after)))
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, bad := range []string{"", "short", "a*", "*"} {
		if _, err := redact.New(bad); err == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
	got, err := redact.Read([]byte("# keys\n\n  my-own-key-*  \r\nexactly this text\n"))
	if err != nil || !cmp.Equal(got, []string{"my-own-key-*", "exactly this text"}) {
		t.Errorf("%q %v", got, err)
	}
	long := "long enough\n" + strings.Repeat("x", 1<<20+1) + "\nanother one\n"
	if _, err := redact.Read([]byte(long)); err == nil || !strings.Contains(err.Error(), "line 2 has 1048577 bytes") || len(err.Error()) > 300 {
		t.Errorf("a long line: %.400v", err)
	}
	if got, err := redact.Read([]byte(long[:len("long enough\n")+1<<20] + long[len(long)-len("\nanother one\n"):])); err != nil || len(got) != 3 {
		t.Errorf("a line that may be as long: %d, %.400v", len(got), err)
	}
	if _, err := redact.Read([]byte("long enough\nsecret\n")); err == nil || !strings.Contains(err.Error(), "line 2") || strings.Contains(err.Error(), "secret") {
		t.Errorf("a bad line: %v", err)
	}
	if _, err := redact.New(redact.Common()...); err != nil {
		t.Error(err)
	}
	k := set(t, "0123456789").Known("abc", " long-enough-key ", "")
	if got := k.Text("abc long-enough-key 0123456789"); got != "abc [redacted] [redacted]" {
		t.Error(got)
	}
}
