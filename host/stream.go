package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"innerd/events"
	"innerd/events/sse"
)

// The frames are read by events/sse, not by the client of r3labs/sse that is a
// module of ours in tests: that one ends without an error at a clean end of the
// body, which here is a broken stream; fails for ever at a frame over 64 KiB;
// gives up 15 minutes after its first connection however many good ones came
// after; goes on after its context has ended; and can't send the POST that
// starts a run.

// Stream starts a run and gives its events, each exactly once and in order,
// until the run has ended. A connection that breaks, at any byte, is made
// again: the start is repeated under its task id, which the server knows, and
// the events go on after the last one seen. Heartbeats are passed on; they
// have no id.
//
// A failed run is not an error: it ends with session.error and session.end
// like any other. The error, at most one and last, says that the run could not
// be started (*Error with a Status), not be reached (TypeUnreachable), not be
// followed to its end (TypeBroken), or is the cause of ctx.
//
// A server that refuses the start because of its provider's limit (429, or 503
// with a time to wait) is an error at once: the caller knows better than to wait.
//
// Tools and callbacks of req run beside the reading; a call that needs the host
// first is a *Pause in the stream. When the loop over the
// stream is left before the run's end, or ctx ends, the run is canceled unless
// req.Metadata.Detach; the stream returns when its tools have returned and the
// run has ended, and gives its error after that.
func (c *Client) Stream(ctx context.Context, req Request) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		ctx, stop := c.bounded(ctx)
		defer stop()
		s, err := c.newStream(ctx, &req)
		if err != nil {
			yield(events.Event{}, err)
			return
		}
		s.run(yield)
	}
}

// Follow gives the events of a run after an id, 0 for all, until its end, and
// resumes like Stream. It neither runs tools nor cancels anything.
func (c *Client) Follow(ctx context.Context, taskID string, after int64) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		ctx, stop := c.bounded(ctx)
		defer stop()
		s := &stream{c: c, ctx: ctx, task: taskID, last: after, known: true, progress: time.Now()}
		s.backoff = backoff{min: c.opt.MinBackoff, max: c.opt.MaxBackoff}
		s.run(yield)
	}
}

// bounded is ctx with the Deadline of a stream.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.opt.Deadline <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, c.opt.Deadline, &Error{
		ErrorType: events.ErrTimeout, Detail: fmt.Sprintf("the stream was not over after %s", c.opt.Deadline),
	})
}

// What ends an attempt without being a failure.
var (
	errStopped = errors.New("the reader left")
	errDone    = errors.New("the run has ended")
	errSilent  = errors.New("nothing came for too long")
)

// stream is one reading of a run over as many connections as it takes.
type stream struct {
	c    *Client
	ctx  context.Context
	task string
	body []byte                 // of the POST that starts it; nil: it was started before
	keep func(events.Type) bool // nil: all types
	ans  *answers               // nil: nothing is answered

	last    int64       // id of the last event seen
	known   bool        // the server has the run
	reached atomic.Bool // a connection was made once
	started bool        // the server may have the run
	ended   bool        // session.end was seen
	closed  bool        // close was called
	detach  bool

	backoff  backoff
	progress time.Time // when the last new event came
}

func (c *Client) newStream(ctx context.Context, req *Request) (*stream, error) {
	s := &stream{c: c, ctx: ctx, detach: req.Metadata.Detach, progress: time.Now()}
	s.backoff = backoff{min: c.opt.MinBackoff, max: c.opt.MaxBackoff}
	b, err := req.start()
	if err != nil {
		return nil, err
	}
	s.task, s.body, s.keep = b.taskID, b.json, b.keep
	s.ans = newAnswers(ctx, c, req, b)
	return s, nil
}

func (s *stream) run(yield func(events.Event, error) bool) {
	var err error
	defer func() { s.close(err) }()
	for {
		err = s.attempt(yield)
		if errors.Is(err, errStopped) || errors.Is(err, errDone) {
			return
		}
		if s.ended { // cut between the last event and the end of the body
			err = errDone
			return
		}
		if err = s.again(err); err != nil {
			s.close(err) // first: who exits at an error has canceled its run
			yield(events.Event{}, err)
			return
		}
	}
}

// close ends the tools and, where a run is left alone that nobody else shall
// follow, the run.
func (s *stream) close(cause error) {
	if s.ans == nil || s.closed {
		return
	}
	s.closed = true
	if cause == nil {
		cause = errDone
	}
	s.ans.close(cause)
	if s.ended || s.detach || !s.started {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), cancelTimeout)
	defer cancel()
	if _, err := s.c.Cancel(ctx, s.task, "the host left"); err != nil {
		s.c.log.Debug("cancel", "task", s.task, "err", err)
	}
}

// again waits before the next attempt, or returns why there is none.
func (s *stream) again(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if !transient(err) || (!s.reached.Load() && isUnreachable(err)) || (!s.known && s.limited(err)) {
		return err
	}
	patience := s.c.opt.GiveUp
	if !s.known {
		patience = s.c.opt.StartGiveUp
	}
	if silent := time.Since(s.progress); silent > patience {
		return &Error{
			ErrorType: TypeBroken, Err: err,
			Detail: fmt.Sprintf("run %s: given up after %s: %v", s.task, silent.Round(time.Millisecond), err),
		}
	}
	s.c.log.Debug("stream broken", "task", s.task, "after", s.last, "err", err)
	return s.backoff.wait(s.ctx, err)
}

// limited reports whether a start was refused for longer than a hiccup.
func (s *stream) limited(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Status == http.StatusTooManyRequests || e.ErrorType == events.ErrRateLimit || e.ErrorType == events.ErrQuota ||
		e.Status == http.StatusServiceUnavailable && e.RetryAfter > s.c.opt.MaxBackoff
}

func isUnreachable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.ErrorType == TypeUnreachable
}

// attempt reads over one connection. It always returns an error.
func (s *stream) attempt(yield func(events.Event, error) bool) error {
	if _, err := s.c.addr.get(s.ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	watch := time.AfterFunc(s.c.opt.ReadTimeout, func() { cancel(errSilent) })
	defer watch.Stop()
	resp, err := s.connect(ctx)
	s.started = s.known || (s.reached.Load() && !refused(err))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent { // ended, and nothing after last
		return errDone
	}
	body := &watchedBody{r: resp.Body, touch: func() { watch.Reset(s.silence()) }}
	err = s.read(body, yield)
	if ctx.Err() != nil && s.ctx.Err() == nil {
		err = context.Cause(ctx)
	}
	return err
}

// refused reports whether the server said that it has not taken the run.
func refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status != 0 && e.Status < 500
}

// silence is how long the connection may say nothing.
func (s *stream) silence() time.Duration {
	if s.ended {
		return min(time.Second, s.c.opt.ReadTimeout) // only the end of the body is left
	}
	return s.c.opt.ReadTimeout
}

// connect posts the run until it is known, then asks for what comes after the
// last event.
func (s *stream) connect(ctx context.Context) (*http.Response, error) {
	method, path, body := http.MethodPost, "/message:stream", s.body
	if s.known {
		method, path, body = http.MethodGet, "/tasks/"+s.task+"/events", nil
	}
	req, err := s.c.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if s.known && s.last > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatInt(s.last, 10))
	}
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { s.reached.Store(true) }}
	resp, err := s.c.send(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err == nil {
		s.reached.Store(true) // for transports that trace nothing
	}
	return resp, err
}

// read gives the events of one body on.
func (s *stream) read(body io.Reader, yield func(events.Event, error) bool) error {
	frames := sse.NewReader(body, nil)
	for {
		frame, err := frames.Next()
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF // a run that has ended says so
			}
			return &Error{ErrorType: TypeBroken, Err: err}
		}
		switch {
		case s.ended && frame.Done():
			return errDone
		case s.ended, frame.Done():
			continue
		}
		if err := s.take(frame.Data, yield); err != nil {
			return err
		}
	}
}

// take gives one event on, if it is new.
func (s *stream) take(payload []byte, yield func(events.Event, error) bool) error {
	ev, err := parseLine(payload)
	if err != nil {
		return &Error{ErrorType: TypeBroken, Err: err}
	}
	switch {
	case ev.ID == 0: // a heartbeat
	case ev.ID <= s.last:
		return nil
	case s.keep == nil && ev.ID != s.last+1:
		return &Error{ErrorType: TypeBroken, Detail: fmt.Sprintf("event %d came after %d", ev.ID, s.last)}
	default:
		s.last, s.known = ev.ID, true
		s.progress = time.Now()
		s.backoff.reset()
	}
	if s.keep != nil && !s.keep(ev.Type()) && ev.ID != 0 {
		return nil
	}
	return s.give(ev, yield)
}

func (s *stream) give(ev events.Event, yield func(events.Event, error) bool) error {
	if t, ok := ev.Data.(events.TaskID); ok && t.TaskID != "" {
		s.task = t.TaskID
	}
	if _, ok := ev.Data.(events.End); ok {
		s.ended = true
	}
	var pause *Pause
	if s.ans != nil {
		pause = s.ans.see(ev)
	}
	if !yield(ev, nil) {
		return errStopped
	}
	if pause != nil && !yield(events.Event{Data: pause}, nil) {
		return errStopped
	}
	return nil
}

// watchedBody tells of every read that brought something.
type watchedBody struct {
	r     io.Reader
	touch func()
}

func (w *watchedBody) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.touch()
	}
	return n, err
}
