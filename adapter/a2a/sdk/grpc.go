package sdk

import (
	"context"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"innerd/adapter/a2a"
)

// GRPC is a gRPC listener.
type GRPC struct {
	server *grpc.Server
	done   chan error
}

type ownerKey struct{}

// ServeGRPC serves a server's operations on a listener until Close. owner says
// whose the secret of an Authorization header is; false: nobody's.
func ServeGRPC(l net.Listener, s *a2a.Server, owner func(authorization string) (string, bool), bodyLimit int, log *slog.Logger) *GRPC {
	h := &handler{s: s, owner: func(ctx context.Context) string { name, _ := ctx.Value(ownerKey{}).(string); return name }}
	g := guard{owner, log}
	srv := grpc.NewServer(
		grpc.MaxRecvMsgSize(bodyLimit),
		grpc.InTapHandle(g.tap),
		grpc.UnaryInterceptor(g.unary), grpc.StreamInterceptor(g.stream),
		grpc.ConnectionTimeout(10*time.Second),
		// A peer that is gone ends its streams; who has none for long connects anew.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second, MaxConnectionIdle: 2 * time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	a2agrpc.NewHandler(h).RegisterWith(srv)
	out := &GRPC{server: srv, done: make(chan error, 1)}
	go func() { out.done <- srv.Serve(l) }() // ends with Close
	return out
}

// Done tells of a listener that broke.
func (g *GRPC) Done() <-chan error { return g.done }

// Stop takes no more calls and waits for those that are on, until ctx ends.
func (g *GRPC) Stop(ctx context.Context) {
	stopped := make(chan struct{})
	go func() { // ends with the last call, or with the Stop below
		defer close(stopped)
		g.server.GracefulStop()
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		g.server.Stop()
		<-stopped
	}
}

// Close ends every call at once.
func (g *GRPC) Close() error {
	g.server.Stop()
	return nil
}

// guard lets calls in that have a key.
type guard struct {
	owner func(string) (string, bool)
	log   *slog.Logger
}

func (g guard) admit(ctx context.Context) (context.Context, error) {
	auth := ""
	if v := metadata.ValueFromIncomingContext(ctx, "authorization"); len(v) == 1 { // of two, others might take the other
		auth = v[0]
	}
	owner, ok := g.owner(auth)
	if !ok {
		return nil, errNoKey
	}
	return context.WithValue(ctx, ownerKey{}, owner), nil
}

// tap refuses a call before its message is read: whoever has no key could fill
// the memory with messages that never end.
func (g guard) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	auth := append(info.Header.Get("authorization"), "")[0]
	if _, ok := g.owner(auth); !ok {
		return nil, errNoKey
	}
	return ctx, nil
}

var errNoKey = status.Error(codes.Unauthenticated, "no key, or one that is not known here: send authorization: Bearer SECRET")

func (g guard) recovered(err *error) {
	if v := recover(); v != nil {
		g.log.Error("panic in a gRPC handler", "panic", v, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "a fault in the server, see its log")
	}
}

func (g guard) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer g.recovered(&err)
	if ctx, err = g.admit(ctx); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (g guard) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer g.recovered(&err)
	ctx, err := g.admit(ss.Context())
	if err != nil {
		return err
	}
	return next(srv, admitted{ss, ctx})
}

type admitted struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (a admitted) Context() context.Context { return a.ctx }
