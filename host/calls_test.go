package host_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"innerd/adapter/api"
	"innerd/host"
)

// Every call is the method, path and body that the profile names.
func TestCalls(t *testing.T) {
	var got string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.RequestURI() + " " + string(body) + " " + r.Header.Get("Authorization")
		_, _ = io.WriteString(w, `{}`)
	}))
	defer srv.Close()
	c, err := host.New(srv.URL+"/", &host.Options{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdleConnections()
	ctx := t.Context()
	for want, call := range map[string]func() error{
		"GET /health ":        func() error { _, err := c.Health(ctx); return err },
		"GET /ready ":         func() error { return c.Ready(ctx) },
		"GET /backends ":      func() error { _, err := c.Backends(ctx); return err },
		"GET /tasks/a%2Fb ":   func() error { _, err := c.Task(ctx, "a/b"); return err },
		"GET /tasks ":         func() error { _, err := c.Tasks(ctx, host.TaskQuery{}); return err },
		"DELETE /tasks/t ":    func() error { return c.Delete(ctx, "t") },
		"GET /conversations ": func() error { _, err := c.Conversations(ctx); return err },
		"GET /tasks?context_id=a+b&page_size=3&page_token=p&state=working ": func() error {
			_, err := c.Tasks(ctx, host.TaskQuery{ContextID: "a b", State: "working", PageSize: 3, PageToken: "p"})
			return err
		},
		`POST /tasks/t:cancel {"reason":"r"}`: func() error { _, err := c.Cancel(ctx, "t", "r"); return err },
		`POST /tasks/t:reply {"text":"x"}`:    func() error { _, err := c.Reply(ctx, "t", api.Reply{Text: "x"}); return err },
		`POST /tasks/t/requests/rq {"option":"o"}`: func() error {
			return c.AnswerRequest(ctx, "t", "rq", api.Answer{Option: "o"})
		},
		`POST /tools/tc/result {"result":"","is_error":true}`: func() error {
			_, err := c.ToolResult(ctx, "tc", api.ToolResult{IsError: true})
			return err
		},
		`POST /tasks/t:steer {"text":"x"}`: func() error { return c.Steer(ctx, "t", "x") },
		`POST /tasks/t:steer {"messages":[{"role":"user","content":"x"}]}`: func() error {
			return c.SteerMessages(ctx, "t", []api.Message{api.UserText("x")})
		},
		"POST /conversations/c:compact ": func() error { _, err := c.CompactConversation(ctx, "c"); return err },
		"GET /agents ":                   func() error { _, err := c.Agents(ctx); return err },
		"DELETE /agents/a%20b ":          func() error { return c.RemoveAgent(ctx, "a b") },
		`POST /agents:register {"name":"a","url":"u"}`: func() error {
			_, err := c.RegisterAgent(ctx, host.AgentCard{Name: "a", URL: "u"})
			return err
		},
		`POST /agents:discover {"url":"u"}`: func() error { _, err := c.DiscoverAgent(ctx, "u"); return err },
		`POST /agents:route {"hint_tags":["x"],"prompt":"p"}`: func() error {
			_, err := c.RouteAgent(ctx, "p", "x")
			return err
		},
		"GET /debug/streams ":          func() error { _, err := c.Streams(ctx); return err },
		"POST /conversations/c:close ": func() error { _, err := c.CloseConversation(ctx, "c"); return err },
		`POST /message:send {"messages":[],"metadata":{}}`: func() error {
			_, err := c.Send(ctx, api.Request{})
			return err
		},
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if got != want+" Bearer k" {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

func TestCallErrors(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health":
			_, _ = io.WriteString(w, "<html>")
		case "/tasks/slow":
			<-r.Context().Done()
		case "/tasks/moved":
			http.Redirect(w, r, "/health", http.StatusFound)
		default:
			w.Header().Set("Retry-After", "7")
			writeJSON(w, http.StatusServiceUnavailable, api.Error{Detail: "limited", ErrorType: api.ErrRateLimit})
		}
	}))
	defer srv.Close()
	c, err := host.New(srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdleConnections()
	var e *host.Error
	if _, err := c.Task(t.Context(), "x"); !errors.As(err, &e) || e.Status != 503 || e.RetryAfter != 7*time.Second || e.ErrorType != "rate_limit" {
		t.Errorf("%v", err)
	}
	if _, err := c.Health(t.Context()); !errors.As(err, &e) || e.ErrorType != host.TypeBroken {
		t.Errorf("%v", err)
	}
	if _, err := c.Task(t.Context(), "moved"); !errors.As(err, &e) || e.Status != 302 {
		t.Errorf("%v", err)
	}
	hasty, err := host.New(srv.URL, &host.Options{CallTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer hasty.CloseIdleConnections()
	if _, err := hasty.Task(t.Context(), "slow"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, u := range []string{"", "127.0.0.1:18100", "ftp://x", "http://", "http://a b"} {
		if _, err := host.New(u, nil); err == nil {
			t.Errorf("%q was taken", u)
		}
	}
}

func TestBlob(t *testing.T) {
	m := roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path != "/tasks/t/blobs/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
			return jsonAnswer(404, api.Error{ErrorType: api.ErrNotFound}), nil
		}
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("abc"))}, nil
	})
	c, err := host.New("http://x", &host.Options{Transport: m})
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := c.Blob(t.Context(), "t", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"); err != nil || string(raw) != "abc" {
		t.Errorf("%q %v", raw, err)
	}
	var e *host.Error
	if _, err := c.Blob(t.Context(), "t", "00"); !errors.As(err, &e) || e.Status != 404 {
		t.Error(err)
	}
	wrong, err := host.New("http://x", &host.Options{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("abd"))}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.Blob(t.Context(), "t", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"); !errors.As(err, &e) || e.ErrorType != host.TypeBroken {
		t.Error(err)
	}
}
