package a2a_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	openapi "innerd/adapter/published"
	"innerd/runs"
	"innerd/test/a2a/rig"
	"innerd/test/contract"
	"innerd/test/mutate"
)

// fuzzed is a server whose handler is called without a network, and which tells
// of panics: they are caught, and logged.
type fuzzed struct {
	server *rig.Server

	mu     sync.Mutex
	panics []string
}

func newFuzzed(f *testing.F) *fuzzed {
	z := &fuzzed{}
	z.server = start(f, rig.Options{
		Work: f.TempDir(), Delay: time.Millisecond, Backoff: time.Millisecond, Heartbeat: 20 * time.Millisecond, Default: "simulate", NoPush: true,
		BodyLimit: 1 << 20, Logger: slog.New(z), Limits: runs.Limits{Turn: map[string]time.Duration{"": time.Second}, Grace: 50 * time.Millisecond, DetachGrace: time.Millisecond},
	})
	return z
}

// Enabled implements slog.Handler, and so do those below.
func (z *fuzzed) Enabled(context.Context, slog.Level) bool { return true }
func (z *fuzzed) WithAttrs([]slog.Attr) slog.Handler       { return z }
func (z *fuzzed) WithGroup(string) slog.Handler            { return z }
func (z *fuzzed) Handle(_ context.Context, r slog.Record) error {
	if !strings.Contains(r.Message, "panic") {
		return nil
	}
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	z.mu.Lock()
	defer z.mu.Unlock()
	z.panics = append(z.panics, text)
	return nil
}

const (
	// enough is how long a call may last before its caller hangs up: streams do.
	enough = 100 * time.Millisecond
	// never is when a call that goes on without its caller hangs.
	never = time.Minute
)

// RoundTrip implements http.RoundTripper: it calls the handler.
func (z *fuzzed) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	done := make(chan error, 1)
	go func() { // ends with the handler
		defer func() {
			switch v := recover(); {
			case v == nil:
				done <- nil
			case v == http.ErrAbortHandler: //nolint:errorlint // it is that one
				done <- http.ErrAbortHandler
			default:
				done <- fmt.Errorf("panic: %v", v)
			}
		}()
		z.server.HTTP.ServeHTTP(w, r)
	}()
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
	case <-time.After(never):
		return nil, errors.New("it hangs")
	}
	if r.Context().Err() != nil && w.Header().Get("Content-Type") == "" {
		return nil, http.ErrAbortHandler // its caller was gone before it had an answer
	}
	res := w.Result()
	res.Request = r
	return res, nil
}

// outside finds URLs that somebody else could be called at.
var outside = regexp.MustCompile(`(?i)https?:|discover|\\u00`)

// call makes a call and says what is wrong with its answer.
func (z *fuzzed) call(t *testing.T, method, target string, header http.Header, body string) {
	u, err := url.ParseRequestURI(target)
	if err != nil || u.IsAbs() || outside.MatchString(target+body) {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost/", strings.NewReader(body))
	if err != nil {
		return
	}
	u.Scheme, u.Host = "http", "localhost"
	r.URL, r.Header, r.RemoteAddr = u, header, "127.0.0.1:9"
	res, err := contract.Transport(z, t).RoundTrip(r)
	z.mu.Lock()
	panics := z.panics
	z.panics = nil
	z.mu.Unlock()
	for _, p := range panics {
		t.Errorf("%s", p)
	}
	if err != nil {
		if !errors.Is(err, http.ErrAbortHandler) || ctx.Err() == nil {
			t.Errorf("%s %s: %v", method, target, err)
		}
		return
	}
	got, _ := io.ReadAll(res.Body) // in memory
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	if res.StatusCode == http.StatusInternalServerError && ctx.Err() == nil { // others are the document's
		t.Errorf("%s %s: %d %.300s", method, target, res.StatusCode, got)
	}
	for name, values := range res.Header {
		for _, v := range values {
			if strings.ContainsAny(name+v, "\r\n\x00") {
				t.Errorf("%s %s: the header %q: %q", method, target, name, v)
			}
		}
	}
}

// headerOf reads lines of headers; what is none is left out.
func headerOf(text string) http.Header {
	h := http.Header{}
	for line := range strings.SplitSeq(text, "\n") {
		name, v, ok := strings.Cut(line, ": ")
		if ok && !strings.EqualFold(name, "Host") && !strings.ContainsAny(name+v, "\r\x00") {
			h.Add(name, v)
		}
	}
	return h
}

// examples are the bodies of the published document's operations, by method and
// path.
func examples(f *testing.F) map[[2]string][]string {
	var doc struct {
		Paths map[string]map[string]struct {
			Body struct {
				Content map[string]struct {
					Examples map[string]struct {
						Value json.RawMessage `json:"value"`
					} `json:"examples"`
				} `json:"content"`
			} `json:"requestBody"`
		} `json:"paths"`
	}
	if err := json.Unmarshal([]byte(openapi.OpenAPI.Body), &doc); err != nil {
		f.Fatal(err)
	}
	out := map[[2]string][]string{}
	for path, ops := range doc.Paths {
		for method, op := range ops {
			at := [2]string{strings.ToUpper(method), regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "simulate")}
			out[at] = append(out[at], "")
			for _, c := range op.Body.Content {
				for _, e := range c.Examples {
					out[at] = append(out[at], string(e.Value))
				}
			}
		}
	}
	return out
}

// FuzzHTTP: any request to the whole server, of any method, path, headers and
// body, is answered as docs/openapi.json says, and none makes it panic, hang or
// find a fault in itself.
func FuzzHTTP(f *testing.F) {
	for at, bodies := range examples(f) {
		for _, body := range bodies {
			f.Add(at[0], at[1], "Content-Type: application/json", body)
		}
	}
	for _, header := range []string{
		"A2A-Version: 9", "Last-Event-ID: -1", "Last-Event-ID: 99999999999999999999", "If-None-Match: *", "Authorization: Bearer", "Origin: null", "Sec-Fetch-Site: cross-site",
		"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\ntracestate: a=1", "traceparent: \xff", "Content-Encoding: gzip", "Range: bytes=0-",
	} {
		f.Add("GET", "/tasks", header, "")
		f.Add("POST", "/message:stream", header, `{"messages":[{"role":"user","content":"x"}],"metadata":{"backend":"simulate"}}`)
	}
	for _, path := range []string{"//", "/%2e%2e/", "/tasks/%00", "/tasks/a%2fb", "/tasks/:cancel", "/tasks/a:b:c", "/debug/pprof/", "/agents/", "/agents/%2f", "/a2a/agents/", "/a2a/agents/simulate/", "/v0.3/v1/", "/tasks?page_size=0", "/tasks?page_token=%ff", "/?;=&%"} {
		f.Add("GET", path, "", "")
		f.Add("POST", path, "", "{}")
		f.Add("DELETE", path, "", "")
	}
	f.Add("pOST", "/message:stream", "", "{}")
	f.Add("PUT", "/conversations/x", "", "")
	z := newFuzzed(f)
	f.Fuzz(func(t *testing.T, method, target, header, body string) {
		z.call(t, method, target, headerOf(header), body)
	})
}

// FuzzA2A: any body in any binding and generation of A2A, likewise.
func FuzzA2A(f *testing.F) {
	message := func(role, kind string) string {
		return `{"message":{"messageId":"m","role":"` + role + `","parts":[{` + kind + `"text":"hello"}]},"configuration":{"historyLength":1,"returnImmediately":true,"blocking":false}}`
	}
	rpc := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":"1","method":"` + method + `","params":` + params + `}`
	}
	now, old := message("ROLE_USER", ""), message("user", `"kind":"text",`)
	for _, body := range []string{
		"", "{}", "[]", "null", "[" + rpc("GetTask", `{"id":"x"}`) + "]", `{"jsonrpc":"2.0","method":"GetTask"}`, now, old, `{"message":null}`,
		rpc("SendMessage", now), rpc("SendStreamingMessage", now), rpc("GetTask", `{"id":"x","historyLength":-1}`), rpc("ListTasks", `{"pageSize":1,"pageToken":"x"}`), rpc("CancelTask", `{"id":"x"}`),
		rpc("SubscribeToTask", `{"id":"x"}`), rpc("GetExtendedAgentCard", "{}"), rpc("CreateTaskPushNotificationConfig", `{"taskId":"x","url":"x"}`), rpc("GetTask", "[]"), rpc("GetTask", `{"id":{}}`),
		rpc("message/send", old), rpc("message/stream", old), rpc("tasks/get", `{"id":"x"}`), rpc("tasks/cancel", `{"id":"x"}`), rpc("tasks/resubscribe", `{"id":"x"}`),
		rpc("tasks/pushNotificationConfig/set", `{"taskId":"x","pushNotificationConfig":{"url":"x"}}`), rpc("agent/getAuthenticatedExtendedCard", "null"),
		rpc("SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"raw":"AA==","mediaType":"image/png","filename":"f"},{"url":"x"},{"data":{"requestId":"r","option":"allow_once"}}],"extensions":["urn:innerd:extensions:coding-agent/v1"]},"metadata":{"urn:innerd:extensions:coding-agent/v1":{"backend":"simulate","agent_options":{"script":[{"text":"a"},{"ask":{"message":"?"}}]}}}}`),
	} {
		for i := range 6 {
			f.Add(uint8(i), "", "A2A-Version: 1.0", body)
		}
		f.Add(uint8(0), "", "", body)
		for bad := range mutate.Bytes([]byte(body), 12) {
			f.Add(uint8(0), "", "", string(bad))
		}
	}
	for _, path := range []string{"/tasks/x:subscribe", "/tasks/x:cancel", "/tasks/x/pushNotificationConfigs", "/v1/message:send", "/v1/message:stream", "/v1/tasks/x:cancel", "/v1/card", "/tasks?pageSize=-1", "/.well-known/agent-card.json"} {
		for i := range 6 {
			f.Add(uint8(i), path, "A2A-Extensions: urn:innerd:extensions:coding-agent/v1\nIdempotency-Key: k", "{}")
		}
	}
	f.Add(uint8(3), "", "", "")
	z := newFuzzed(f)
	bases := []string{"/a2a", "/a2a/message:send", "/a2a/message:stream", "/v0.3", "/a2a/agents/simulate", "/v0.3/agents/simulate"}
	f.Fuzz(func(t *testing.T, base uint8, path, header, body string) {
		h := headerOf(header)
		if h.Get("Content-Type") == "" {
			h.Set("Content-Type", "application/json")
		}
		method := http.MethodPost
		if body == "" {
			method = http.MethodGet
		}
		z.call(t, method, bases[int(base)%len(bases)]+path, h, body)
	})
}
