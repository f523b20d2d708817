package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"innerd/adapter/api"
	"innerd/events"
)

// Tool is a Go function that the agent may call.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments, an object; nil: any object
	Serial      bool            // never two calls at once

	// Run does one call; calls run at the same time unless Serial. Its context
	// ends with the run, with the call's deadline, or when the call was
	// resolved otherwise, and it must return then. An error, like a panic,
	// becomes an error result that the agent reads.
	Run func(ctx context.Context, arguments json.RawMessage) (Result, error)
}

// Result is what a tool gives back.
type Result struct {
	Text     string
	Content  []events.Part // replaces Text where it is given
	IsError  bool
	Metadata json.RawMessage
}

// Decision answers a permission request.
type Decision struct {
	Option   string // id of one of the options
	Message  string // to the agent, why not
	Remember bool
}

var errResolved = errors.New("the request was resolved")

// answers runs what the host does for a run: its tools and its callbacks. Each
// request is one goroutine, ended by its context and waited for by close.
type answers struct {
	c    *Client
	req  *Request
	task string

	attach  bool            // the run may be older than this host
	oldest  int64           // events up to this one are from before we attached
	waiting map[string]bool // what of them is still open

	ctx context.Context // of the run
	end context.CancelCauseFunc
	wg  sync.WaitGroup

	mu   sync.Mutex
	open map[string]context.CancelCauseFunc
}

func newAnswers(ctx context.Context, c *Client, req *Request, b *startBody) *answers {
	a := &answers{c: c, req: req, task: b.taskID, attach: b.attach, open: map[string]context.CancelCauseFunc{}}
	a.ctx, a.end = context.WithCancelCause(ctx)
	return a
}

// see takes an event of the run and starts or ends what belongs to it.
func (a *answers) see(ev events.Event) {
	switch v := ev.Data.(type) {
	case events.TaskID:
		a.look(v.TaskID)
	case events.ToolRequest:
		if a.settled(ev.ID, v.ToolCallID) {
			return
		}
		a.start(v.ToolCallID, v.DeadlineS, func(ctx context.Context) { a.runTool(ctx, v) })
	case events.ToolResolved:
		a.resolve(v.ToolCallID)
	case events.PermissionRequest:
		if a.req.Permission != nil && !a.settled(ev.ID, v.RequestID) {
			a.start(v.RequestID, 0, func(ctx context.Context) { a.decide(ctx, v) })
		}
	case events.PermissionResolved:
		a.resolve(v.RequestID)
	case events.InputRequired:
		if a.req.Question != nil && !a.settled(ev.ID, v.RequestID) {
			a.start(v.RequestID, 0, func(ctx context.Context) { a.answer(ctx, v) })
		}
	case events.InputResolved:
		a.resolve(v.RequestID)
	}
}

// look finds out, where the task id is the caller's, which requests of a run
// that was there before are still open: the replay shows the others too, and
// no tool may run twice for one call.
func (a *answers) look(taskID string) {
	a.task = taskID
	if !a.attach {
		return
	}
	a.attach = false
	t, err := a.c.Task(a.ctx, taskID)
	if err != nil {
		a.c.log.Warn("run not looked up; requests that the replay shows are answered again", "task", taskID, "err", err)
		return
	}
	a.oldest, a.waiting = t.LastEventID, map[string]bool{}
	for _, p := range t.Pending {
		a.waiting[p.ID] = true
	}
}

// settled reports whether a request is an old one that is not open any more.
func (a *answers) settled(eventID int64, requestID string) bool {
	return eventID <= a.oldest && !a.waiting[requestID]
}

func (a *answers) start(id string, deadlineS float64, f func(context.Context)) {
	ctx, cancel := context.WithCancelCause(a.ctx)
	a.mu.Lock()
	a.open[id] = cancel
	a.mu.Unlock()
	a.wg.Go(func() {
		defer a.resolve(id)
		if deadlineS > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, time.Duration(deadlineS*float64(time.Second)))
			defer stop()
		}
		f(ctx)
	})
}

func (a *answers) resolve(id string) {
	a.mu.Lock()
	cancel := a.open[id]
	delete(a.open, id)
	a.mu.Unlock()
	if cancel != nil {
		cancel(errResolved)
	}
}

// close ends what still runs and waits for it.
func (a *answers) close(cause error) {
	a.end(cause)
	a.wg.Wait()
}

func (a *answers) runTool(ctx context.Context, r events.ToolRequest) {
	res := a.call(ctx, r)
	path := "/tools/" + r.ToolCallID + "/result"
	err := a.post(ctx, path, api.ToolResult{Result: res.Text, Content: res.Content, IsError: res.IsError, Metadata: res.Metadata})
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusRequestEntityTooLarge {
		err = a.post(ctx, path, api.ToolResult{Result: "the tool's result was too large: " + e.Detail, IsError: true})
	}
	if err != nil && ctx.Err() == nil {
		a.c.log.Warn("tool result not delivered", "tool", r.ToolName, "tool_call_id", r.ToolCallID, "err", err)
	}
}

// call runs the tool; whatever happens in it becomes a result.
func (a *answers) call(ctx context.Context, r events.ToolRequest) (res Result) {
	defer func() {
		if p := recover(); p != nil {
			a.c.log.Error("tool panicked", "tool", r.ToolName, "panic", p, "stack", string(debug.Stack()))
			res = Result{Text: fmt.Sprintf("the tool failed: %v", p), IsError: true}
		}
	}()
	t := a.tool(r.ToolName)
	if t == nil || t.Run == nil {
		return Result{Text: fmt.Sprintf("there is no tool %q", r.ToolName), IsError: true}
	}
	res, err := t.Run(ctx, r.Arguments)
	if err == nil {
		return res
	}
	res.IsError = true
	if res.Text == "" && len(res.Content) == 0 {
		res.Text = err.Error()
	}
	return res
}

func (a *answers) tool(name string) *Tool {
	for i := range a.req.Tools {
		if a.req.Tools[i].Name == name {
			return &a.req.Tools[i]
		}
	}
	return nil
}

// decide asks the callback; a callback that fails denies.
func (a *answers) decide(ctx context.Context, r events.PermissionRequest) {
	d, err := guard(func() (Decision, error) { return a.req.Permission(ctx, r) })
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		d = Decision{Option: optionOf(r, events.Deny), Message: err.Error()}
	}
	a.deliver(ctx, r.RequestID, api.Answer{Option: d.Option, Message: d.Message, Remember: d.Remember})
}

func optionOf(r events.PermissionRequest, kind string) string {
	for _, o := range r.Options {
		if o.Kind == kind {
			return o.ID
		}
	}
	return kind
}

// answer asks the callback; a question whose callback fails stays open until
// its time is over.
func (a *answers) answer(ctx context.Context, q events.InputRequired) {
	v, err := guard(func() (json.RawMessage, error) { return a.req.Question(ctx, q) })
	if err != nil {
		if ctx.Err() == nil {
			a.c.log.Warn("question not answered", "request_id", q.RequestID, "err", err)
		}
		return
	}
	a.deliver(ctx, q.RequestID, api.Answer{Value: v})
}

func (a *answers) deliver(ctx context.Context, requestID string, body api.Answer) {
	err := a.post(ctx, "/tasks/"+a.task+"/requests/"+requestID, body)
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusConflict {
		return // another answer, or the run's end, was first
	}
	if err != nil && ctx.Err() == nil {
		a.c.log.Warn("answer not delivered", "request_id", requestID, "err", err)
	}
}

func guard[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// post delivers an answer, again and again until the server took it: it
// answers the same body a second time as a duplicate, so a lost answer costs
// nothing. It ends with the request's context or at an error that stays.
func (a *answers) post(ctx context.Context, path string, body any) error {
	b := backoff{min: a.c.opt.MinBackoff, max: a.c.opt.MaxBackoff}
	for {
		err := a.c.call(ctx, http.MethodPost, path, body, nil)
		if err == nil || ctx.Err() != nil || !transient(err) {
			return err
		}
		a.c.log.Debug("posting again", "path", path, "err", err)
		if err := b.wait(ctx, err); err != nil {
			return err
		}
	}
}
