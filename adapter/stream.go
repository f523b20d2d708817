package adapter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"

	"innerd/adapter/apart"
	"innerd/events"
	"innerd/events/journal"
	"innerd/events/sse"
)

// stream is one reader of one run.
type stream struct {
	run       Run
	open      *openStream
	cursor    *journal.Cursor
	out       *pieceWriter
	heartbeat time.Duration
	wrote     time.Time // when the last frame or heartbeat was written
	frame     time.Time // when the last frame was
	held      bool      // something was written and not flushed
	gather    *gather
	flushed   time.Time // when that was done last
	buf       []byte

	ctx    context.Context // of the request, and of the server's streams
	cancel context.CancelCauseFunc
	uncut  func() bool // stops the watch for the end of all streams
	remove func()      // from the streams that are open
	scales *scales

	until   context.Context // ends when the next heartbeat is due, or earlier
	release context.CancelFunc
}

var (
	errHeartbeat = errors.New("time for a heartbeat")
	errNothing   = errors.New("nothing is there yet")
)

// noWait is a context that has ended: with it a cursor gives what is there.
var noWait = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errNothing)
	return ctx
}()

// serveStream sends a run's events after an id, live to the end. The answer
// ends cleanly only when the log has: every other end is an abort, since a
// clean one means success to hosts.
//
// A reader waits below this function for most of its life, and there are
// thousands: what only the beginning or the end needs has frames of its own, so
// that the stack of one that waits stays at 8 KB.
func (s *Server) serveStream(c *gin.Context, run Run, after int64, filter journal.Filter) error {
	st, err := s.openStream(c, run, after, filter)
	if err != nil {
		return err
	}
	defer st.close()
	if err := st.pump(); err != nil {
		s.cutStream(c.Request.Context(), run, err)
	}
	return nil
}

// openStream begins the answer; close what it gives.
//
//go:noinline
func (s *Server) openStream(c *gin.Context, run Run, after int64, filter journal.Filter) (*stream, error) {
	cursor, err := run.Log().Follow(after, filter)
	if err != nil {
		return nil, err
	}
	sse.SetHeader(c.Writer.Header())
	c.Writer.WriteHeader(http.StatusOK)
	c.Writer.WriteHeaderNow()

	// gin's writer hides the error of a flush.
	w := http.ResponseWriter(c.Writer)
	if u, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		w = u.Unwrap()
	}
	now := time.Now()
	st := &stream{
		run: run, cursor: cursor, out: newPieceWriter(w, c.Request, s.opt.WriteProgress, run.OpenToolRequests),
		heartbeat: s.opt.Heartbeat, wrote: now, frame: now, release: func() {}, gather: &s.gather, scales: s.scales,
	}
	st.open, st.remove = s.streams.add(run, after)
	st.ctx, st.cancel = context.WithCancelCause(c.Request.Context())
	st.uncut = context.AfterFunc(s.ctx, func() { st.cancel(context.Cause(s.ctx)) })
	return st, nil
}

// close ends what openStream began.
func (st *stream) close() {
	st.uncut()
	st.cancel(nil)
	st.out.close()
	st.scales.done(st.out.n)
	st.release()
	st.remove()
	st.cursor.Close()
}

// cutStream aborts an answer whose log has not ended.
//
//go:noinline
func (s *Server) cutStream(request context.Context, run Run, err error) {
	s.counts.streamCut(request, err)
	// A write that was ended ends the request's context too.
	if request.Err() == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		s.log.Info("stream cut", run.Log().Meta().LogAttr(), "reason", err)
	}
	panic(http.ErrAbortHandler)
}

// pump writes until the log has ended.
func (st *stream) pump() error {
	st.held = true // the header, which goes out with the first frames, or alone where there are none
	if err := st.catchUp(); err != nil {
		return err
	}
	for {
		batch, err := st.next()
		switch {
		case err == nil:
			err = st.frames(batch)
		case errors.Is(err, errHeartbeat):
			err = st.beat()
		case errors.Is(err, io.EOF):
			return st.send([]byte(sse.DoneFrame))
		}
		if err != nil {
			return err
		}
	}
}

// catchUp writes what is there already, apart: net/http writes the header with
// it, which takes a deep stack.
func (st *stream) catchUp() (err error) {
	apart.Do(func() {
		for err == nil {
			var b journal.Batch
			if b, err = st.ready(); errors.Is(err, errNothing) || errors.Is(err, io.EOF) {
				err = nil // what comes now, or nothing more, next says
				return
			}
			if err == nil {
				err = st.frames(b)
			}
		}
	})
	return err
}

// next waits for events, or until a heartbeat is due. The context with that
// time is kept while it holds: most batches come long before it.
func (st *stream) next() (journal.Batch, error) {
	for {
		if st.until == nil {
			st.until, st.release = context.WithDeadlineCause(st.ctx, st.due(), errHeartbeat)
		}
		b, err := st.ready()
		if errors.Is(err, errNothing) {
			st.open.rests()
			st.linger()
			b, err = st.cursor.Next(st.until)
		}
		if err == nil || errors.Is(err, io.EOF) || st.until.Err() == nil {
			return b, err
		}
		st.release()
		st.until = nil
		if st.ctx.Err() != nil {
			return b, context.Cause(st.ctx)
		}
		if !time.Now().Before(st.due()) {
			return b, errHeartbeat
		}
	}
}

// ready gives what needs no waiting for. Where there is nothing, what was
// written is flushed: it shall not wait in a buffer while the cursor waits.
func (st *stream) ready() (journal.Batch, error) {
	if !st.held {
		return journal.Batch{}, errNothing
	}
	b, err := st.cursor.Next(noWait)
	if err == nil || !errors.Is(err, errNothing) {
		return b, err
	}
	st.held = false
	if err := st.out.flush(); err != nil {
		return b, err
	}
	st.flushed = time.Now()
	st.gather.flushed(st.flushed)
	return b, errNothing
}

// linger lets frames gather after a flush where there are many of those.
func (st *stream) linger() {
	d := st.gather.left(st.flushed)
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-st.until.Done():
	}
}

// due is when the next heartbeat is.
func (st *stream) due() time.Time { return st.wrote.Add(st.heartbeat) }

// frames writes a batch, and leaves it to the next wait to flush.
func (st *stream) frames(b journal.Batch) error {
	st.open.begins(time.Now())
	if err := st.out.writeAll(b.Frames()); err != nil {
		return err
	}
	st.open.at.Store(b.Last())
	st.held = true
	st.wrote = time.Now()
	st.frame = st.wrote
	return nil
}

// beat writes a heartbeat: an event, since a host looks for a cancel of its
// user when one comes, but without an id, since it is in no log.
func (st *stream) beat() error {
	now := time.Now()
	frame, err := sse.AppendFrame(st.buf[:0], events.Heartbeat{
		Status:   "waiting",
		ElapsedS: seconds(now.Sub(st.run.Started())),
		IdleS:    seconds(now.Sub(st.frame)),
	})
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	st.buf = frame
	return st.send(frame)
}

func (st *stream) send(frame []byte) error {
	if err := st.out.write(frame); err != nil {
		return err
	}
	st.wrote, st.held = time.Now(), false
	return st.out.flush()
}

// seconds rounds to milliseconds.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }
