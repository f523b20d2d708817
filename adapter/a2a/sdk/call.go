package sdk

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// call is a request of HTTP that is a call of gRPC. gRPC works on it in
// goroutines of its own, and what a request has, its weight among them, is one
// goroutine's at a time and ends with it.
type call struct {
	body *wholeBody

	mu   sync.Mutex
	over bool
	ops  sync.WaitGroup
}

type callKey struct{}

// begin waits for the body's end, and says that the operation is on until done.
// One that was too long begins nothing.
func (c *call) begin(ctx context.Context) (done func(), err error) {
	select {
	case <-c.body.read:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if c.body.left < 0 {
		return nil, status.Error(codes.ResourceExhausted, errTooLong.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, status.Error(codes.Canceled, "the caller has hung up")
	}
	c.ops.Add(1)
	return c.ops.Done, nil
}

// end lets nothing begin and waits for what has: its context has ended.
func (c *call) end() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.ops.Wait()
}

// prefix is what stands before a message: whether it is compressed, its length.
const prefix = 5

var errTooLong = errors.New("more has come than one message may have")

// wholeBody fills each buffer that it is given: gRPC keeps them, so that of a
// message that comes a byte a frame each byte would hold one. A call has one
// message, and its sender ends it there: gRPC would keep what else comes, however
// much, while the operation waits for the end.
type wholeBody struct {
	io.ReadCloser
	left int64         // bytes that may come; negative: more have
	read chan struct{} // closed at its end
	once sync.Once
}

// Read implements io.Reader.
func (b *wholeBody) Read(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = b.ReadCloser.Read(p[n:])
		n += k
	}
	if b.left -= int64(n); b.left < 0 {
		err = errTooLong
	}
	if err != nil {
		b.once.Do(func() { close(b.read) })
	}
	return n, err
}

// writePiece is what a reader must take of in its time, so that one that takes
// little, but steadily, is not cut.
const writePiece = 16 << 10

// steadyWriter resets the stream of a reader that takes nothing. One goroutine
// uses it.
type steadyWriter struct {
	http.ResponseWriter
	rc    *http.ResponseController
	limit time.Duration
	cut   bool
	err   error
}

// Write implements http.ResponseWriter.
func (w *steadyWriter) Write(b []byte) (n int, err error) {
	for n < len(b) && w.err == nil {
		w.timed(func() error {
			k, err := w.ResponseWriter.Write(b[n:min(n+writePiece, len(b))])
			n += k
			return err
		})
	}
	return n, w.err
}

// Flush implements http.Flusher.
func (w *steadyWriter) Flush() {
	if w.err == nil {
		w.timed(w.rc.Flush)
	}
}

// timed gives a write its time. A deadline that passes resets the stream also
// where nobody writes, so it goes again.
func (w *steadyWriter) timed(write func() error) {
	began := time.Now()
	_ = w.rc.SetWriteDeadline(began.Add(w.limit))
	if w.err = write(); w.err != nil {
		w.cut = time.Since(began) >= w.limit
		return
	}
	_ = w.rc.SetWriteDeadline(time.Time{})
}

// guard is around each operation.
type guard struct{ log *slog.Logger }

func (g guard) recovered(err *error) {
	if v := recover(); v != nil {
		g.log.Error("panic in a gRPC handler", "panic", v, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "a fault in the server, see its log")
	}
}

func (g guard) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	done, err := callOf(ctx).begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	defer g.recovered(&err)
	return next(ctx, req)
}

func (g guard) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	o := &operation{ServerStream: ss, done: func() {}}
	defer func() { o.done() }()
	defer g.recovered(&err)
	return next(srv, o)
}

// operation is a stream whose operation begins when its message is there.
type operation struct {
	grpc.ServerStream
	done func()
}

// RecvMsg implements grpc.ServerStream.
func (o *operation) RecvMsg(m any) error {
	err := o.ServerStream.RecvMsg(m)
	if err != nil {
		return err
	}
	done, err := callOf(o.Context()).begin(o.Context())
	if err != nil {
		return err
	}
	o.done = done
	return nil
}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }
