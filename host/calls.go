package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"innerd/adapter/api"
)

// cancelTimeout is more than the 8 s a server takes at most.
const cancelTimeout = 12 * time.Second

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
func (c *Client) Backends(ctx context.Context) ([]api.Backend, error) {
	var out api.Backends
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

// Steer puts text into a turn that runs, and returns when the agent has taken
// it. An agent that can't is an *Error with the status 501; a turn that is over,
// or waits for the host, 409.
func (c *Client) Steer(ctx context.Context, id, text string) error {
	return c.call(ctx, http.MethodPost, "/tasks/"+url.PathEscape(id)+":steer", map[string]string{"text": text}, nil)
}

// SteerMessages is Steer with messages, which may carry images and files.
func (c *Client) SteerMessages(ctx context.Context, id string, messages []api.Message) error {
	return c.call(ctx, http.MethodPost, "/tasks/"+url.PathEscape(id)+":steer", map[string]any{"messages": messages}, nil)
}

// Blob gives the whole of a value that was cut in an event of a run, by the
// sha256 that the event names, and checks it.
func (c *Client) Blob(ctx context.Context, id, sha256hex string) ([]byte, error) {
	req, err := c.request(ctx, http.MethodGet, "/tasks/"+url.PathEscape(id)+"/blobs/"+url.PathEscape(sha256hex), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.send(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, c.transportError(ctx, err)
	}
	if sum := sha256.Sum256(raw); !strings.EqualFold(hex.EncodeToString(sum[:]), sha256hex) {
		return nil, &Error{ErrorType: TypeBroken, Detail: "the blob is not what its sha256 says"}
	}
	return raw, nil
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

// CompactConversation has the agent of a conversation sum its history up, which
// is a turn of the model: its only bound is ctx. 409 while a run is on, 501
// where the agent can't.
func (c *Client) CompactConversation(ctx context.Context, id string) (v api.Conversation, err error) {
	err = c.exchange(ctx, http.MethodPost, "/conversations/"+url.PathEscape(id)+":compact", nil, &v)
	return v, err
}

// Streams says who reads what on the server just now.
func (c *Client) Streams(ctx context.Context) (s api.Streams, err error) {
	err = c.call(ctx, http.MethodGet, "/debug/streams", nil, &s)
	return s, err
}

// Call is any other call of the server: in is sent as JSON unless nil, the
// answer is read into out unless nil.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	return c.call(ctx, method, path, in, out)
}
