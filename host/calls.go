package host

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"innerd/adapter/api"
)

// cancelTimeout is more than the 8 s a server takes at most.
const cancelTimeout = 12 * time.Second

// Backend is an agent of the server.
type Backend struct {
	Name         string          `json:"name"`
	Usable       bool            `json:"usable"`
	Version      string          `json:"version,omitempty"`
	Pinned       string          `json:"pinned,omitempty"` // the version the server was tested with
	Login        string          `json:"login,omitempty"`
	Models       []string        `json:"models,omitempty"`
	Capabilities map[string]bool `json:"capabilities,omitempty"`
	Why          string          `json:"why,omitempty"`  // not usable
	Hint         string          `json:"hint,omitempty"` // what to do
}

// Health asks whether the server lives. It needs no key.
func (c *Client) Health(ctx context.Context) (h api.Health, err error) {
	err = c.call(ctx, http.MethodGet, "/health", nil, &h)
	return h, err
}

// Ready returns nil when the server takes runs, else an *Error that says why not.
func (c *Client) Ready(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "/ready", nil, nil)
}

// Backends lists the server's agents.
func (c *Client) Backends(ctx context.Context) ([]Backend, error) {
	var out struct {
		Backends []Backend `json:"backends"`
	}
	err := c.call(ctx, http.MethodGet, "/backends", nil, &out)
	return out.Backends, err
}

// Send starts a run and waits for its end. It answers no request of the run,
// so it does not look at Tools, Permission and Question; use Stream for those.
// The only bound of its time is ctx.
func (c *Client) Send(ctx context.Context, req api.Request) (t api.Task, err error) {
	if req.Messages == nil {
		req.Messages = []api.Message{}
	}
	err = c.exchange(ctx, http.MethodPost, "/message:send", req, &t)
	return t, err
}

// Task gives a run as it stands.
func (c *Client) Task(ctx context.Context, id string) (t api.Task, err error) {
	err = c.call(ctx, http.MethodGet, "/tasks/"+url.PathEscape(id), nil, &t)
	return t, err
}

// TaskQuery chooses tasks. The zero value is the newest of all.
type TaskQuery struct {
	ContextID string
	State     string
	PageSize  int // at most 100
	PageToken string
}

// Tasks gives a page of tasks, newest first.
func (c *Client) Tasks(ctx context.Context, q TaskQuery) (t api.Tasks, err error) {
	v := url.Values{}
	set := func(k, s string) {
		if s != "" {
			v.Set(k, s)
		}
	}
	set("context_id", q.ContextID)
	set("state", q.State)
	set("page_token", q.PageToken)
	if q.PageSize > 0 {
		v.Set("page_size", strconv.Itoa(q.PageSize))
	}
	path := "/tasks"
	if len(v) > 0 {
		path += "?" + v.Encode()
	}
	err = c.call(ctx, http.MethodGet, path, nil, &t)
	return t, err
}

// Cancel ends a run and gives it as it stands, which is ended unless
// Task.Canceling. A run that is over is an *Error with the status 409.
func (c *Client) Cancel(ctx context.Context, id, reason string) (t api.Task, err error) {
	err = c.call(ctx, http.MethodPost, "/tasks/"+url.PathEscape(id)+":cancel", api.Cancel{Reason: reason}, &t)
	return t, err
}

// Reply answers a question of a run in words; requestID "" is the oldest open one.
func (c *Client) Reply(ctx context.Context, id string, r api.Reply) (t api.Task, err error) {
	err = c.call(ctx, http.MethodPost, "/tasks/"+url.PathEscape(id)+":reply", r, &t)
	return t, err
}

// AnswerRequest answers a permission or a question of a run.
func (c *Client) AnswerRequest(ctx context.Context, id, requestID string, a api.Answer) error {
	return c.call(ctx, http.MethodPost, "/tasks/"+url.PathEscape(id)+"/requests/"+url.PathEscape(requestID), a, nil)
}

// ToolResult gives the result of a call. A status of "not_found" means that
// nobody waits for it (any more).
func (c *Client) ToolResult(ctx context.Context, callID string, r api.ToolResult) (s api.ToolResultStatus, err error) {
	err = c.call(ctx, http.MethodPost, "/tools/"+url.PathEscape(callID)+"/result", r, &s)
	return s, err
}

// Delete forgets a run that has ended.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/tasks/"+url.PathEscape(id), nil, nil)
}

// Steer puts text into a turn that runs.
func (c *Client) Steer(ctx context.Context, id, text string) error {
	return c.call(ctx, http.MethodPost, "/tasks/"+url.PathEscape(id)+":steer", map[string]string{"text": text}, nil)
}

// Conversations lists the server's conversations.
func (c *Client) Conversations(ctx context.Context) ([]api.Conversation, error) {
	var out api.Conversations
	err := c.call(ctx, http.MethodGet, "/conversations", nil, &out)
	return out.Conversations, err
}

// CloseConversation ends the agent of a conversation; id is the server's own
// (Conversation.ID), not a context id.
func (c *Client) CloseConversation(ctx context.Context, id string) (v api.Conversation, err error) {
	err = c.call(ctx, http.MethodPost, "/conversations/"+url.PathEscape(id)+":close", nil, &v)
	return v, err
}

// Call is any other call of the server: in is sent as JSON unless nil, the
// answer is read into out unless nil.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	return c.call(ctx, method, path, in, out)
}
