package claudecode_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/backends"
	"innerd/backends/claudecode"
	"innerd/events"
)

func TestDecodeIsLenient(t *testing.T) {
	for _, line := range []string{
		`{}`, `{"type":"news","error":{"a":1},"result":{"deep":[]},"state":7}`,
		`{"duration_api_ms":1.5,"is_error":false,"type":"result"}`,
		`{"type":"assistant","message":{"content":"text"}}`, `{"type":"assistant","message":{"content":{"a":1}}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","content":7,"tool_use_id":[]}]}}`,
		`{"type":"stream_event","event":null}`, `{"type":"control_request","request":[]}`,
	} {
		if err := claudecode.Decode([]byte(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{``, `x`, `[]`, `7`, `"s"`, `{"type":"a"`, "{\"a\":\"\xff\"} x"} {
		if claudecode.Decode([]byte(line)) == nil {
			t.Errorf("%q was taken for an object", line)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, l := range []string{`{"type":"result"}`, `{"type":"stream_event","event":{"type":"message_stop"}}`, `[`} {
		f.Add([]byte(l))
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		claudecode.Translate([][]byte{b, []byte(`{"type":"result"}`)}, true, false, func(events.Data) {}, func(error) {})
	})
}

func TestNamesAreUniqueAndMapBack(t *testing.T) {
	long := strings.Repeat("long.", 40)
	tools := []string{"a.b", "a_b", "a b", "plain", "", "ünï", long, long + "x"}
	names := claudecode.Names(tools...)
	seen := map[string]bool{}
	for i, n := range names {
		if seen[n] {
			t.Errorf("%q is not unique", n)
		}
		seen[n] = true
		if len("mcp__host__"+n) > 64 {
			t.Errorf("%q is too long", n)
		}
		if strings.Trim(n, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			t.Errorf("claude would change %q", n)
		}
		if back, ok := claudecode.HostName(tools, n); !ok || back != tools[i] {
			t.Errorf("%q maps back to %q, not %q", n, back, tools[i])
		}
	}
	if names[3] != "plain" {
		t.Errorf("plain became %q", names[3])
	}
}

func TestChooseModel(t *testing.T) {
	for _, c := range []struct{ configured, baseURL, wanted, model, foreign string }{
		{"", "", "", "", ""},
		{"claude-a", "", "", "claude-a", ""},
		{"claude-a", "", "claude-b", "claude-b", ""},
		{"", "", "opus", "opus", ""},
		{"claude-a", "", "gpt-5", "claude-a", "gpt-5"},
		{"", "https://api.anthropic.com", "glm-4.6", "", "glm-4.6"},
		{"", "http://gateway", "glm-4.6", "glm-4.6", ""},
		{"", "http://gateway", "openai/gpt-5", "", "openai/gpt-5"},
		{"gpt-5", "http://gateway", "gpt-5", "gpt-5", ""},
	} {
		model, foreign := claudecode.ChooseModel(c.configured, c.baseURL, c.wanted)
		if model != c.model || foreign != c.foreign {
			t.Errorf("%+v: %q, %q", c, model, foreign)
		}
	}
}

func TestAnswersToQuestions(t *testing.T) {
	const one = `{"questions":[{"question":"Which color?","header":"Color","options":[{"label":"Red"}]}]}`
	const two = `{"questions":[{"question":"A?","header":"First"},{"question":"B?","header":"Second","multiSelect":true}]}`
	for _, c := range []struct {
		in, value string
		want      map[string]string
	}{
		{one, `"Blue"`, map[string]string{"Which color?": "Blue"}},
		{one, `{"Which color?":"Blue"}`, map[string]string{"Which color?": "Blue"}},
		{one, `{"Color":["Red","Blue"]}`, map[string]string{"Which color?": "Red, Blue"}},
		{one, `{"answer":"Blue"}`, map[string]string{"Which color?": "Blue"}},
		{one, `7`, map[string]string{"Which color?": "7"}},
		{two, `{"First":"x","B?":["y","z"]}`, map[string]string{"A?": "x", "B?": "y, z"}},
		{two, `"both"`, map[string]string{"A?": "both", "B?": "both"}},
		{one, ``, map[string]string{}},
	} {
		if diff := cmp.Diff(c.want, claudecode.Answers(c.in, c.value)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.value, diff)
		}
	}
}

func TestCrashed(t *testing.T) {
	for _, c := range []struct {
		exit  backends.Exit
		ready bool
		class string
		words string
	}{
		{backends.Exit{Code: -1, Signal: "killed"}, true, events.ErrBackendCrashed, "claude ended"},
		{backends.Exit{Code: -1, Signal: "killed"}, false, events.ErrBackendUnavailable, "did not start"},
		{backends.Exit{Code: 1, StderrTail: "a\nboom\n"}, true, events.ErrBackendCrashed, "boom"},
		{backends.Exit{Code: 1, StderrTail: "loader: no such file"}, false, events.ErrBackendUnavailable, "loader"},
		{backends.Exit{Code: 1, StderrTail: "error: unknown option '--x'"}, false, events.ErrInvalidRequest, "--x"},
		{backends.Exit{Code: 1, StderrTail: "Not logged in"}, false, events.ErrAuth, "logged"},
	} {
		e := claudecode.Crashed(c.exit, c.ready)
		if e.Type != c.class || !strings.Contains(e.Message, c.words) || e.Exit == nil {
			t.Errorf("%+v: %v", c, e)
		}
	}
}

func TestUUID(t *testing.T) {
	a, b := claudecode.NewUUID(), claudecode.NewUUID()
	if a == b || len(a) != 36 || a[14] != '4' {
		t.Error(a, b)
	}
}
