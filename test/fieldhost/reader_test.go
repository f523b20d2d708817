package fieldhost_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"innerd/test/fieldhost"
)

func frame(typ, data string) string {
	return "data: {\"type\":\"" + typ + "\",\"data\":" + data + "}\n\n"
}

func read(t *testing.T, body string) *fieldhost.Result {
	t.Helper()
	// One byte at a time changes nothing.
	r, err := fieldhost.Read(iotest.OneByteReader(strings.NewReader(body)), fieldhost.Handlers{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAWholeRun(t *testing.T) {
	r := read(t, "id: 1\n"+frame("session.task_id", `{"task_id":"t1"}`)+
		": comment\nretry: 3\nevent: x\n"+
		frame("assistant.reasoning_delta", `{"delta":"hm"}`)+frame("heartbeat", `{"status":"waiting"}`)+frame("assistant.reasoning_delta", `{"delta":"m"}`)+
		frame("assistant.reasoning", `{"content":"hmm"}`)+
		frame("assistant.tool_call", `{"name":"bash"}`)+
		frame("assistant.message_delta", `{"delta":"a"}`)+frame("assistant.message_delta", `{"delta":"a"}`)+
		frame("assistant.message", `{"content":"aa"}`)+
		frame("assistant.usage", `{"input_tokens":1}`)+frame("session.end", `{"state":"completed"}`)+"data: [DONE]\n\n")
	if r.Failed || r.Text != "aa" || r.Shown != "aa" || r.TaskID != "t1" || r.Beats != 1 || r.Ignored != 0 || string(r.LastUsage()) != `{"input_tokens":1}` {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"hmm"}, r.Reasoning); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"bash"}, r.Native); diff != "" {
		t.Error(diff)
	}
}

// The last message alone is the answer.
func TestMessageReplacesAllText(t *testing.T) {
	r := read(t, frame("assistant.message_delta", `{"delta":"one"}`)+frame("assistant.message", `{"content":"one"}`)+
		frame("assistant.message_delta", `{"delta":"two"}`)+frame("assistant.message", `{"content":"two"}`)+frame("assistant.message", `{"content":""}`))
	if r.Text != "two" || r.Shown != "onetwo" {
		t.Errorf("%+v", r)
	}
}

func TestAliasesAndOtherNames(t *testing.T) {
	for _, body := range []string{
		frame("text_delta", `{"text":"x"}`), frame("message_delta", `{"delta":"x"}`),
		frame("message_complete", `{"text":"x"}`), frame("content_done", `{"content":"x"}`),
		`{"type":"text_delta","delta":"x"}` + "\n", // neither data: nor an object of data
		"data:{\"type\":\"text_delta\",\"text\":\"x\"}",
	} {
		if r := read(t, body); r.Text != "x" || r.Failed {
			t.Errorf("%q: %+v", body, r)
		}
	}
	r := read(t, frame("reasoning_delta", `{"text":"r"}`)+frame("reasoning_done", `{"text":"r"}`)+frame("usage", `{"a":1}`))
	if len(r.Reasoning) != 1 || len(r.Usage) != 1 || r.Failed {
		t.Errorf("%+v", r)
	}
	if r := read(t, frame("error", `{"message":"bad"}`)); !r.Failed || r.Why != "bad" {
		t.Errorf("%+v", r)
	}
}

func TestWhatSplitsReasoning(t *testing.T) {
	for between, blocks := range map[string]int{
		"":                             1,
		frame("heartbeat", `{}`):       1,
		"data: no json\n\n":            1,
		frame("session.status", `{}`):  2,
		frame("unheard.of", `{}`):      2,
		frame("assistant.usage", `{}`): 2,
	} {
		r := read(t, frame("assistant.reasoning_delta", `{"delta":"a"}`)+between+frame("assistant.reasoning_delta", `{"delta":"b"}`))
		if len(r.Reasoning) != blocks {
			t.Errorf("%q: %q", between, r.Reasoning)
		}
	}
}

func TestWhatFails(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":          "",
		"no content":       frame("session.task_id", `{"task_id":"t"}`) + frame("session.end", `{"state":"completed"}`),
		"native tool only": frame("assistant.tool_call", `{"name":"bash"}`),
		"an error":         frame("assistant.message", `{"content":"x"}`) + frame("session.error", `{"message":"rate limit: x"}`),
		"empty message":    frame("assistant.message", `{"content":""}`),
		"a number as text": frame("assistant.message_delta", `{"delta":7}`),
	} {
		if r := read(t, body); !r.Failed || r.Why == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for name, body := range map[string]string{
		"a call":    frame("tool.execution_request", `{"tool_call_id":"c","tool_name":"t","arguments":{}}`),
		"reasoning": frame("assistant.reasoning_delta", `{"delta":"r"}`),
	} {
		if r := read(t, body); r.Failed {
			t.Errorf("%s: %+v", name, r)
		}
	}
	r := read(t, frame("session.error", `{"message":"x"}`)+frame("assistant.message", `{"content":"late"}`))
	if r.Text != "" {
		t.Error("it read on after session.error")
	}
}

// What a stream must never hold is what tears a frame apart here.
func TestLinesAreCutAsPythonDoes(t *testing.T) {
	for _, c := range []string{"\v", "\f", "\x1c", "\x1d", "\x1e", "\u0085", "\u2028", "\u2029", "\r", "\n", "\r\n"} {
		r := read(t, frame("assistant.message", `{"content":"a`+c+`b"}`))
		if r.Text != "" || r.Ignored == 0 {
			t.Errorf("%q did not cut: %+v", c, r)
		}
		escaped := frame("assistant.message", fmt.Sprintf(`{"content":"a\u%04xb"}`, []rune(c)[0]))
		if r := read(t, escaped); r.Text != "a"+string([]rune(c)[0])+"b" {
			t.Errorf("%q escaped: %q", c, r.Text)
		}
	}
	if r := read(t, "data: {\"type\":\"text_delta\",\"text\":\"a\xffb\x1f\"}\r\n\r\n"); r.Text != "" && r.Ignored != 1 {
		t.Errorf("a control character in JSON: %+v", r)
	}
	if r := read(t, "data: {\"type\":\"text_delta\",\"text\":\"a\xffb\"}\r\n\r\n"); r.Text != "a\ufffdb" {
		t.Errorf("%q", r.Text)
	}
}

func TestABrokenStreamIsAFailure(t *testing.T) {
	broken := io.MultiReader(strings.NewReader(frame("assistant.message", `{"content":"x"}`)), iotest.ErrReader(io.ErrUnexpectedEOF))
	r, err := fieldhost.Read(broken, fieldhost.Handlers{})
	if !errors.Is(err, io.ErrUnexpectedEOF) || !r.Failed || r.Text != "x" {
		t.Errorf("%+v %v", r, err)
	}
}

func TestHost(t *testing.T) {
	var got []string
	mux := http.NewServeMux()
	done := make(chan struct{}, 2)
	mux.HandleFunc("POST /message:stream", func(w http.ResponseWriter, r *http.Request) {
		say := func(s string) {
			_, _ = io.WriteString(w, s)
			w.(http.Flusher).Flush()
		}
		say(frame("session.task_id", `{"task_id":"t1"}`))
		say(frame("tool.execution_request", `{"tool_call_id":"c1","tool_name":"add","arguments":{"a":1}}`))
		<-done
		say(frame("session.input_required", `{"request_id":"q1","message":"sure?"}`))
		<-done
		say(frame("assistant.message", `{"content":"ok"}`))
	})
	note := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m map[string]any
		_ = json.Unmarshal(body, &m)
		got = append(got, fmt.Sprint(r.URL.Path, " ", m["result"], m["text"]))
		done <- struct{}{}
	}
	mux.HandleFunc("POST /tools/", note)
	mux.HandleFunc("POST /tasks/", note)
	srv := httptest.NewServer(mux)
	defer srv.Close()
	h := fieldhost.Host{
		BaseURL: srv.URL, Client: srv.Client(), ReadTimeout: 2 * time.Second, // a busy machine may be still for long
		Tool: func(c fieldhost.Call) string {
			time.Sleep(2500 * time.Millisecond) // longer than the read timeout: it does not read now
			return "sum of " + string(c.Arguments)
		},
		Reply: func(q fieldhost.Question) string { return "yes to " + q.Message },
	}
	r, err := h.Run(t.Context(), map[string]any{})
	if err != nil || r.Failed || r.Text != "ok" {
		t.Errorf("%+v %v", r, err)
	}
	want := []string{`/tools/c1/result sum of {"a":1}<nil>`, "/tasks/t1:reply <nil>yes to sure?"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestHostFailures(t *testing.T) {
	mode := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch mode {
		case "redirect":
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		case "busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "silent":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "beating":
			_, _ = io.WriteString(w, frame("session.task_id", `{"task_id":"t1"}`)+frame("heartbeat", `{}`))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer srv.Close()
	h := fieldhost.Host{BaseURL: srv.URL, Canceled: func(id string) bool { return id == "t1" }}
	for _, m := range []string{"redirect", "busy", "beating", "silent"} {
		if mode = m; m == "silent" { // the others fail before their time is over
			h.ReadTimeout = 50 * time.Millisecond
		}
		r, err := h.Run(t.Context(), map[string]any{})
		if err == nil || !r.Failed || r.Why == "" {
			t.Errorf("%s: %+v %v", m, r, err)
		}
		if m == "beating" && !errors.Is(err, fieldhost.ErrHungUp) {
			t.Errorf("%v", err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
