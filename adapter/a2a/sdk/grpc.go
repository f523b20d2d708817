package sdk

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"innerd/adapter/a2a"
)

// GRPCPath is below which gRPC's methods are.
const GRPCPath = "/lf.a2a.v1.A2AService"

// GRPC serves a server's operations over gRPC, as a handler of net/http's
// HTTP/2: what bounds bodies, readers and calls of HTTP does so here. Of
// gRPC's own HTTP/2 nobody sees how long a message is before it is in memory,
// nor can end one stream whose reader stands still beside others.
type GRPC struct {
	calls *grpc.Server
	http  *http.Server
	limit int64 // bytes of a message
	write time.Duration
	log   *slog.Logger
	done  chan error
}

// GRPCOptions of a GRPC. All are required.
type GRPCOptions struct {
	// Owner is whose key a request was made with.
	Owner     func(context.Context) string
	BodyLimit int           // bytes of a message
	Write     time.Duration // after which a reader that takes nothing is cut
	Logger    *slog.Logger
}

const (
	// maxStreams is how many calls of one connection are on at once; a client
	// waits with the next ones.
	maxStreams = 250
	// streamWindow is what comes of a message that nobody reads yet, connWindow
	// of all of a connection.
	streamWindow = 256 << 10
	connWindow   = 8 << 20
	// sendBuffer is what the kernel holds for a connection's peer. It lets a write
	// go on when a third of it has been taken: of its own 4 MiB that would be more
	// than a slow reader takes in its time.
	sendBuffer = 512 << 10
)

// NewGRPC makes a GRPC. Who serves it says who may call.
func NewGRPC(s *a2a.Server, o GRPCOptions) *GRPC {
	guard := guard{o.Logger}
	g := &GRPC{limit: int64(o.BodyLimit), write: o.Write, log: o.Logger, done: make(chan error, 1), calls: grpc.NewServer(
		grpc.MaxRecvMsgSize(o.BodyLimit), grpc.UnaryInterceptor(guard.unary), grpc.StreamInterceptor(guard.stream),
	)}
	a2agrpc.NewHandler(&handler{s: s, owner: o.Owner}).RegisterWith(g.calls)
	return g
}

// Serve serves h, which is g behind what lets calls in, on a listener until Stop
// or Close. It does not wait; call it once.
func (g *GRPC) Serve(l net.Listener, h http.Handler) {
	only := new(http.Protocols)
	only.SetUnencryptedHTTP2(true)
	g.http = &http.Server{
		Handler: h, Protocols: only, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelDebug), ConnContext: connContext,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connWindow,
			// A peer that is gone ends its streams, and one that takes nothing at all.
			SendPingTimeout: time.Minute, PingTimeout: 20 * time.Second, WriteByteTimeout: g.write,
		},
	}
	go func() { g.done <- g.http.Serve(l) }() // ends with Stop or Close
}

func connContext(ctx context.Context, c net.Conn) context.Context {
	if within, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = within.NetConn()
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer)
	}
	return ctx
}

// ServeHTTP implements http.Handler: a call.
func (g *GRPC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{body: &wholeBody{ReadCloser: r.Body, left: g.limit + prefix, read: make(chan struct{})}}
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	r.Body = c.body
	out := &steadyWriter{ResponseWriter: w, rc: http.NewResponseController(w), limit: g.write}
	g.calls.ServeHTTP(out, r)
	c.end()
	if out.cut {
		g.log.Info("gRPC stream cut", "method", r.URL.Path, "reason", "the reader took nothing for "+g.write.String())
	}
}

// RefuseGRPC answers a call that is not let in.
func RefuseGRPC(w http.ResponseWriter, _ *http.Request, httpStatus int, why string) {
	code := codes.Unavailable
	switch httpStatus {
	case http.StatusUnauthorized:
		code = codes.Unauthenticated
	case http.StatusForbidden:
		code = codes.PermissionDenied
	case http.StatusTooManyRequests:
		code = codes.ResourceExhausted
	}
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(int(code)))
	h.Set("Grpc-Message", why) // plain ASCII without a percent sign, as it must be
	w.WriteHeader(http.StatusOK)
}

// Done tells of a listener that broke.
func (g *GRPC) Done() <-chan error { return g.done }

// Stop takes no more calls and waits for those that are on, until ctx ends.
func (g *GRPC) Stop(ctx context.Context) {
	_ = g.http.Shutdown(ctx)
	_ = g.Close()
}

// Close ends every call at once.
func (g *GRPC) Close() error {
	err := g.http.Close()
	g.calls.Stop()
	return err
}
