package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"innerd/adapter/api"
	"innerd/events"
)

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

// see takes an event of the run and starts or ends what belongs to it. It
// returns the pause that the host is to be told of, or nil.
func (a *answers) see(ev events.Event) *Pause {
	switch v := ev.Data.(type) {
	case events.TaskID:
		a.look(v.TaskID)
	case events.ToolRequest:
		if a.settled(ev.ID, v.ToolCallID) {
			return nil
		}
		t := find(a.req.Tools, v.ToolName)
		p := pauseOf(t, v)
		a.start(v.ToolCallID, v.DeadlineS, func(ctx context.Context) {
			a.runTool(WithTrace(ctx, v.Traceparent, v.Tracestate), t, p, v)
		})
		return p
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
	return nil
}

// look asks, when the run may be older than this stream, which of its requests
// are still open: the replay shows the others too, and no tool may run twice
// for one call.
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

// runTool does one call, waits for its pause before, and delivers the result.
func (a *answers) runTool(ctx context.Context, t *ToolDef, p *Pause, r events.ToolRequest) {
	res, ok := a.result(ctx, t, p, r)
	if !ok {
		return
	}
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

// result is what a call comes to; false: nobody waits for it any more.
func (a *answers) result(ctx context.Context, t *ToolDef, p *Pause, r events.ToolRequest) (Result, bool) {
	if t == nil {
		return failed("there is no tool %q", r.ToolName), true
	}
	arguments := r.Arguments
	if p != nil {
		defer p.end()
		select {
		case <-ctx.Done():
			return Result{}, false
		case given := <-p.answer:
			if given.result != nil {
				return *given.result, true
			}
			arguments = merge(arguments, given.input)
		}
	}
	return t.call(ctx, a.c.log, arguments, a.wg.Go), true
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
	_ = a.deliver(ctx, r.RequestID, api.Answer{Option: d.Option, Message: d.Message, Remember: d.Remember}) // it is logged
}

func optionOf(r events.PermissionRequest, kind string) string {
	for _, o := range r.Options {
		if o.Kind == kind {
			return o.ID
		}
	}
	return kind
}

// answer asks the callback, again where the server says that an answer does
// not fit; a question whose callback fails stays open until its time is over.
func (a *answers) answer(ctx context.Context, in events.InputRequired) {
	q := Question{InputRequired: in}
	for {
		v, err := guard(func() (json.RawMessage, error) { return a.req.Question(ctx, q) })
		if err != nil {
			if ctx.Err() == nil {
				a.c.log.Warn("question not answered", "request_id", q.RequestID, "err", err)
			}
			return
		}
		err = a.deliver(ctx, q.RequestID, api.Answer{Value: v})
		var e *Error
		if !errors.As(err, &e) || e.Status != http.StatusBadRequest || ctx.Err() != nil {
			return
		}
		q.Refused = e.Detail
	}
}

func (a *answers) deliver(ctx context.Context, requestID string, body api.Answer) error {
	err := a.post(ctx, "/tasks/"+a.task+"/requests/"+requestID, body)
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusConflict {
		return nil // another answer, or the run's end, was first
	}
	if err != nil && ctx.Err() == nil {
		a.c.log.Warn("answer not delivered", "request_id", requestID, "err", err)
	}
	return err
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
