package codex_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/codex"
	"innerd/events"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func tool(name string) backends.Tool {
	return backends.Tool{Name: name, Description: "For tests: " + name, Schema: json.RawMessage(`{"type":"object"}`), Parallel: true}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", 80)
	got := codex.Names("lookup", "a.b", "a_b", "exec_command", "host_exec_command", "mcp__x", "", long, long+"y")
	want := []string{"lookup", "a_b", "a_b_2", "host_exec_command", "host_exec_command_2", "host_mcp__x", "host_"}
	seen := map[string]bool{}
	for i, name := range got {
		if i < len(want) && name != want[i] {
			t.Errorf("%d: %s, want %s", i, name, want[i])
		}
		if seen[name] || len(name) > 64 {
			t.Errorf("%s: a second time, or too long", name)
		}
		seen[name] = true
	}
}

func TestChooseModel(t *testing.T) {
	for _, c := range []struct{ configured, base, wanted, model, foreign string }{
		{"gpt-a", "", "", "gpt-a", ""},
		{"gpt-a", "", "gpt-b", "gpt-b", ""},
		{"gpt-a", "", "openai/o3", "openai/o3", ""},
		{"gpt-a", "", "claude-x", "gpt-a", "claude-x"},
		{"", "", "gemini", "", "gemini"},
		{"gpt-a", "http://gateway/v1", "our-model", "our-model", ""},
		{"gpt-a", "http://gateway/v1", "anthropic/claude-x", "gpt-a", "anthropic/claude-x"},
		{"mine", "", "mine", "mine", ""},
	} {
		if m, f := codex.ChooseModel(c.configured, c.base, c.wanted); m != c.model || f != c.foreign {
			t.Errorf("%+v: %q, %q", c, m, f)
		}
	}
}

func TestEffort(t *testing.T) {
	for _, c := range []struct {
		effort   string
		thinking int
		want     string
	}{{"", 0, ""}, {"xhigh", 1000, "xhigh"}, {"", 1000, "low"}, {"", 10_000, "medium"}, {"", 50_000, "high"}} {
		if got := codex.EffortOf(c.effort, c.thinking); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestClasses(t *testing.T) {
	for _, c := range []struct {
		info, message, class string
		status               int
		after                time.Duration
	}{
		{`{"httpConnectionFailed":{"httpStatusCode":401}}`, "unexpected status 401", events.ErrAuth, 401, 0},
		{`{"httpConnectionFailed":{"httpStatusCode":402}}`, "pay", events.ErrQuota, 402, 0},
		{`{"httpConnectionFailed":{"httpStatusCode":413}}`, "big", events.ErrContextLength, 413, 0},
		{`{"httpConnectionFailed":{"httpStatusCode":null}}`, "Connection failed", events.ErrOverloaded, 0, 0},
		{`{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`, "exceeded retry limit", events.ErrRateLimit, 429, 0},
		{`"rateLimitExceeded"`, "Rate limit reached. Please try again in 1.5s.", events.ErrRateLimit, 0, 1500 * time.Millisecond},
		{`"rateLimitExceeded"`, "Please try again in 20ms", events.ErrRateLimit, 0, 20 * time.Millisecond},
		{`"usageLimitExceeded"`, "Try again in 3 hours", events.ErrQuota, 0, 3 * time.Hour},
		{`"usageLimitExceeded"`, "Quota exceeded.", events.ErrQuota, 0, 0},
		{`"contextWindowExceeded"`, "ran out of room", events.ErrContextLength, 0, 0},
		{`"serverOverloaded"`, "at capacity", events.ErrOverloaded, 0, 0},
		{`"internalServerError"`, "high demand", events.ErrOverloaded, 0, 0},
		{`"modelNotFound"`, "does not exist", events.ErrModelUnavailable, 0, 0},
		{`"unauthorized"`, "no", events.ErrAuth, 0, 0},
		{`"other"`, `{"error":{"message":"Bad request"}}`, events.ErrInvalidRequest, 0, 0},
		{`"other"`, "stream disconnected before completion: x", events.ErrOverloaded, 0, 0},
		{`"other"`, "stream disconnected before completion: idle timeout waiting for SSE", events.ErrTimeout, 0, 0},
		{`null`, "who knows", events.ErrOverloaded, 0, 0},
		{`{"tomorrow":[1]}`, "who knows", events.ErrOverloaded, 0, 0},
	} {
		e := codex.Classed(c.info, c.message, "")
		if e.Type != c.class || e.Status != c.status || e.RetryAfter != c.after {
			t.Errorf("%s %s: %+v", c.info, c.message, e)
		}
	}
	if e := codex.Classed(`"other"`, `{"error":{"message":"Bad request"}}`, ""); e.Message != "Bad request" {
		t.Errorf("message %q", e.Message)
	}
	at := time.Now().Add(48 * time.Hour)
	e := codex.Classed(`"usageLimitExceeded"`, "or try again at "+at.Format("Jan 2")+"nd, "+at.Format("2006 3:04 PM")+".", "")
	if e.RetryAfter < 47*time.Hour || e.RetryAfter > 48*time.Hour {
		t.Errorf("%v", e.RetryAfter)
	}
}

func TestLoggedDelay(t *testing.T) {
	log := "\x1b[33m WARN\x1b[0m stream disconnected - retrying sampling request (1/2 in 1.995909319s)... \x1b[3mturn_id\x1b[0m=t-1 x\n" +
		"retrying sampling request (1/2 in 59.01s)... turn_id=t-2\nretrying sampling request (2/2 in 800ms)... turn_id=t-1\n"
	for turn, want := range map[string]time.Duration{"t-1": time.Second, "t-2": time.Minute, "t-3": 0, "": 0} {
		if got := codex.LoggedDelay(log, turn); got != want {
			t.Errorf("%s: %v, want %v", turn, got, want)
		}
	}
}

func TestUnwrapped(t *testing.T) {
	for in, want := range map[string]string{
		"/bin/bash -lc ls":                   "ls",
		"/bin/bash -lc 'echo hi; exit 3'":    "echo hi; exit 3",
		`/bin/bash -lc "echo 'a' \"b\" \$c"`: `echo 'a' "b" $c`,
		`/usr/bin/zsh -c 'it'"'"'s'`:         "it's",
		"/bin/bash -lc 'one' two":            "/bin/bash -lc 'one' two",
		"/bin/bash -lc 'open":                "/bin/bash -lc 'open",
		"python3 -c 'print(1)'":              "python3 -c 'print(1)'",
		`echo "/bin/bash -lc ls"`:            `echo "/bin/bash -lc ls"`,
	} {
		if got := codex.Unwrapped(in); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestChanges(t *testing.T) {
	for in, want := range map[string]events.FileChange{
		`{"path":"/w/a","kind":{"type":"add"},"diff":"x\ny\n"}`: {Path: "/w/a", Kind: "create", Diff: "--- /dev/null\n+++ b/w/a\n@@ -0,0 +1,2 @@\n+x\n+y\n"},
		`{"path":"/w/a","kind":{"type":"add"},"diff":"x"}`:      {Path: "/w/a", Kind: "create", Diff: "--- /dev/null\n+++ b/w/a\n@@ -0,0 +1,1 @@\n+x\n\\ No newline at end of file\n"},
		`{"path":"/w/a","kind":{"type":"delete"},"diff":"x\n"}`: {Path: "/w/a", Kind: "delete", Diff: "--- a/w/a\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"},
		`{"path":"/w/a","kind":{"type":"update"},"diff":"@@ -1 +1 @@\n-x\n+y\n"}`: {
			Path: "/w/a", Kind: "edit", Diff: "--- a/w/a\n+++ b/w/a\n@@ -1 +1 @@\n-x\n+y\n",
		},
		`{"path":"/w/a","kind":{"type":"update","move_path":"/w/b"},"diff":"@@ -1 +1 @@\n-x\n+y\n\n\nMoved to: /w/b"}`: {
			Path: "/w/b", Kind: "move", Diff: "--- a/w/a\n+++ b/w/b\n@@ -1 +1 @@\n-x\n+y\n",
		},
	} {
		if got := codex.Change(in); got != want {
			t.Errorf("%s: %+v", in, got)
		}
	}
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		a    events.Answer
		want string
	}{
		"text":     {events.Answer{Outcome: events.OutcomeOK, Result: "hi"}, `{"contentItems":[{"type":"inputText","text":"hi"}],"success":true}`},
		"empty":    {events.Answer{Outcome: events.OutcomeOK}, `{"contentItems":[{"type":"inputText","text":""}],"success":true}`},
		"error":    {events.Answer{Outcome: events.OutcomeError, IsError: true, Result: "no"}, `{"contentItems":[{"type":"inputText","text":"no"}],"success":false}`},
		"timeout":  {events.Answer{Outcome: events.OutcomeTimeout}, `{"contentItems":[{"type":"inputText","text":"The tool did not answer in time."}],"success":false}`},
		"canceled": {events.Answer{Outcome: events.OutcomeCanceled}, `{"contentItems":[{"type":"inputText","text":"The tool call was canceled."}],"success":false}`},
		"parts": {events.Answer{Outcome: events.OutcomeOK, Content: []events.Part{
			{Type: events.PartImage, MimeType: "image/png", Data: "AA=="},
			{Type: events.PartJSON, JSON: []byte(`{"a":1}`)},
			{Type: events.PartFile, Name: "n.txt", Data: "aGk="},
			{Type: events.PartAudio, Name: "a.mp3", MimeType: "audio/mpeg", Data: "/w=="},
			{Type: events.PartFile, Name: "o.csv", Path: "/tmp/o.csv"},
		}}, `{"contentItems":[{"type":"inputImage","text":"","imageUrl":"data:image/png;base64,AA=="},{"type":"inputText","text":"{\"a\":1}"},` +
			`{"type":"inputText","text":"[file n.txt]\nhi\n[end of n.txt]"},{"type":"inputText","text":"[audio a.mp3 (audio/mpeg): its content is not text, and can't be shown]"},` +
			`{"type":"inputText","text":"[file o.csv: /tmp/o.csv]"}],"success":true}`},
	} {
		if got := codex.Answer(c.a); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

func TestAmendedLeavesTheRestAlone(t *testing.T) {
	was := rolled("[]")
	same, err := codex.Amended(was, "", `<host_instructions>`+"\nold \"text\"\n"+`</host_instructions>`)
	if err != nil || same != was {
		t.Errorf("%v\n%s\n%s", err, was, same)
	}
	got, err := codex.Amended(was, `[{"type":"function","name":"a","description":"d","inputSchema":{"type":"object"}}]`, codex.SystemText("</host_instructions> <b> & \u2028 ü"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(got), "\n")
	for i, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Errorf("line %d is no JSON: %s", i, l)
		}
	}
	if !strings.Contains(lines[0], `"name":"a"`) || !strings.Contains(lines[0], threadX) || lines[2] != strings.Split(was, "\n")[2] {
		t.Errorf("%s", got)
	}
	again, err := codex.Amended(got, "[]", codex.SystemText("back"))
	if err != nil || strings.Contains(again, `"name":"a"`) || strings.Contains(again, "ü") || !strings.Contains(again, "back") {
		t.Errorf("%v\n%s", err, again)
	}
}

// TestAmendedAfterCompaction: what a compaction left has the tools and our text too.
func TestAmendedAfterCompaction(t *testing.T) {
	was := rolled("[]") + `{"timestamp":"x","type":"compacted","payload":{"replacement_history":[{"role":"developer","content":[{"text":"<host_instructions>old</host_instructions>"}]}],` +
		`"resume_metadata":{"other":1,"dynamic_tools":{"thread_id":"` + threadX + `","tools":[{"name":"gone","description":"d","inputSchema":{}}]}}}}` + "\n" +
		`{"type":"compacted","payload":{"message":"of an earlier form"}}` + "\n"
	got, err := codex.Amended(was, `[{"type":"function","name":"a","description":"d","inputSchema":{"type":"object"}}]`, codex.SystemText("new"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if len(lines) != 5 || strings.Contains(got, "gone") || strings.Contains(got, "old") || strings.Count(got, `"name":"a"`) != 2 || !strings.Contains(lines[3], `"other":1`) {
		t.Errorf("%s", got)
	}
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Errorf("no JSON: %s", l)
		}
	}
}

func TestValidate(t *testing.T) {
	b := codex.New(&codex.Options{Home: t.TempDir()})
	for options, field := range map[string]string{
		``: "", `{"web_search":"live","other":1}`: "", `{"web_search":"no"}`: "metadata.agent_options.web_search",
		`{"reasoning_summary":"loud"}`: "metadata.agent_options.reasoning_summary", `{"tools":7}`: "metadata.agent_options", `[]`: "metadata.agent_options",
	} {
		err := b.Validate(backends.Settings{Options: json.RawMessage(options)})
		var f *backends.FieldError
		if errors.As(err, &f) != (field != "") || field != "" && f.Field != field {
			t.Errorf("%s: %v", options, err)
		}
	}
	if err := b.Validate(backends.Settings{Schema: json.RawMessage(`"x"`)}); err == nil {
		t.Error("a schema that is none was taken")
	}
}
