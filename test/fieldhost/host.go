package fieldhost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// ReadTimeout is how long the host waits for the next bytes.
const ReadTimeout = 120 * time.Second

// Host is the host with its one HTTP client. The zero value of a field but
// BaseURL is its default.
type Host struct {
	BaseURL     string
	Key         string                   // the one in the field has none
	Client      *http.Client             // http.DefaultClient; redirects are failures
	Tool        func(Call) string        // runs a bridged tool
	Reply       func(q Question) string  // answers a question
	Canceled    func(taskID string) bool // looked at with each heartbeat
	ReadTimeout time.Duration
}

// Run posts a turn and reads its stream. An error is one of the connection;
// Result says how the host counts the run in any case.
func (h *Host) Run(ctx context.Context, request any) (*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	res, err := h.post(ctx, "/message:stream", request)
	if err != nil {
		return &Result{Failed: true, Why: err.Error()}, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<16))
		err := fmt.Errorf("fieldhost: %s: %s", res.Status, body)
		return &Result{Failed: true, Why: err.Error()}, err
	}
	body := &watched{r: res.Body, limit: h.readTimeout()}
	body.timer = time.AfterFunc(body.limit, func() { cancel(errors.New("fieldhost: read timeout")) })
	defer body.timer.Stop()
	r, err := Read(body, Handlers{
		Call:      func(c Call) { body.pause(func() { h.result(ctx, c) }) },
		Question:  func(q Question) { body.pause(func() { h.reply(ctx, q) }) },
		Heartbeat: h.Canceled,
	})
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return r, err
}

func (h *Host) readTimeout() time.Duration {
	if h.ReadTimeout > 0 {
		return h.ReadTimeout
	}
	return ReadTimeout
}

// post sends JSON and follows no redirect.
func (h *Host) post(ctx context.Context, path string, body any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(h.BaseURL, "/")+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if h.Key != "" {
		req.Header.Set("Authorization", "Bearer "+h.Key)
	}
	client := http.DefaultClient
	if h.Client != nil {
		client = h.Client
	}
	once := *client
	once.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return once.Do(req)
}

// result runs a tool and posts what it gives.
func (h *Host) result(ctx context.Context, c Call) {
	out := "no such tool"
	if h.Tool != nil {
		out = h.Tool(c)
	}
	h.send(ctx, "/tools/"+c.ID+"/result", map[string]any{"result": out, "metadata": map[string]any{"tool_name": c.Name}})
}

func (h *Host) reply(ctx context.Context, q Question) {
	if h.Reply == nil {
		return
	}
	h.send(ctx, "/tasks/"+q.TaskID+":reply", map[string]any{"text": h.Reply(q), "request_id": q.RequestID})
}

// send posts and does not look at the answer, as the host does not.
func (h *Host) send(ctx context.Context, path string, body any) {
	res, err := h.post(ctx, path, body)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
}

// watched is a body that must bring something within the limit, except while
// the host is busy with a tool and does not read.
type watched struct {
	r     io.Reader
	limit time.Duration
	timer *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.limit)
	return w.r.Read(p)
}

func (w *watched) pause(f func()) {
	w.timer.Stop()
	f()
	w.timer.Reset(w.limit)
}
