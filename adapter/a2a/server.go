// Package a2a is the standard A2A binding: any A2A 1.0 client drives any agent
// here, over JSON-RPC and HTTP+JSON. A task is a run, a context is a
// conversation; both have the same ids, owners and log as in the host-loop
// profile.
//
// What a reader gets is made from the run's log by a translator, which is pure;
// a follower gives it at the reader's own pace. Nobody waits for a reader.
// gRPC and A2A 0.3 are in package sdk, on the operations of Server.
package a2a

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"innerd/adapter/a2a/push"
	"innerd/adapter/a2a/spec"
	"innerd/runs"
)

// Defaults of Options.
const (
	DefaultBodyLimit = 64 << 20
	DefaultHeartbeat = 15 * time.Second
	DefaultWrite     = 60 * time.Second
	DefaultStartWait = 30 * time.Second
)

// Options is what a Server needs. Owner, Spec and BaseURL are required.
type Options struct {
	// Owner is whose key a request was made with.
	Owner func(context.Context) string
	// Spec is the run that a request of the host-loop profile asks for.
	Spec func(body []byte) (runs.Spec, error)
	// BaseURL is where a request reached the server, with a slash at its end.
	BaseURL func(*http.Request) string

	Open     bool   // no key is asked for
	Version  string // of innerd
	URL      string // of the server as the outside sees it; "" is BaseURL
	Local    string // of the server from this machine, for callers that come over gRPC
	GRPC     string // host:port of the gRPC listener as the outside sees it; "" is none
	Profile  bool   // the host-loop profile is served at URL, and stands in the card
	BothRoot bool   // the root card is one for 0.3 clients too
	Signer   *Signer
	Push     *push.Options // nil: no push notifications

	BodyLimit int64         // bytes; 64 MiB
	Heartbeat time.Duration // between signs of life of an idle stream; 15 s
	Write     time.Duration // after which a reader that takes nothing is cut; 60 s
	StartWait time.Duration // that calls wait for Use; 30 s
	Logger    *slog.Logger

	// Hold waits for the place of an answer that lasts; leave gives it back. Nil:
	// there are any number.
	Hold func(context.Context) (leave func(), err error)

	// PutDown says that nothing of a request's body, or of its answer, is used for
	// now, TakeUp that an answer of about so many bytes will be made: it may wait.
	// Nil: neither is weighed.
	PutDown func(context.Context)
	TakeUp  func(ctx context.Context, bytes int64) error

	// Intercept, for tests of conformance, sees each message before its run is
	// made. It may change the run, or answer with a message and no task.
	Intercept func(ctx context.Context, req *spec.SendMessageRequest, run *runs.Spec) *spec.Message
}

// Server serves A2A. Its methods may be called at the same time.
type Server struct {
	opt    Options
	log    *slog.Logger
	domain atomic.Pointer[runs.Manager]
	usable chan struct{} // closed by the first Use
	push   *push.Service // nil: not supported
	legacy atomic.Pointer[Legacy]
}

// Legacy serves A2A 0.3. A request's tenant is in its context, see TenantOf.
type Legacy struct {
	RPC  http.Handler // by method names of 0.3
	REST http.Handler // below /v1
}

// New makes a Server. Calls wait until Use.
func New(opt Options) (*Server, error) {
	if opt.Owner == nil || opt.Spec == nil || opt.BaseURL == nil {
		return nil, errors.New("a2a: Owner, Spec and BaseURL are required")
	}
	if opt.Logger == nil {
		opt.Logger = slog.Default()
	}
	if opt.Version == "" {
		opt.Version = "dev"
	}
	if opt.BodyLimit <= 0 {
		opt.BodyLimit = DefaultBodyLimit
	}
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&opt.Heartbeat, DefaultHeartbeat}, {&opt.Write, DefaultWrite}, {&opt.StartWait, DefaultStartWait}} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
	if opt.PutDown == nil || opt.TakeUp == nil {
		opt.PutDown, opt.TakeUp = func(context.Context) {}, func(context.Context, int64) error { return nil }
	}
	s := &Server{opt: opt, log: opt.Logger, usable: make(chan struct{})}
	if opt.Push != nil {
		var err error
		if s.push, err = push.New(*opt.Push, s.feed); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Use gives the domain, once recovery is done, and where to keep what must
// survive, and goes on with the notifications that an earlier server left.
// Only the first call counts.
func (s *Server) Use(m *runs.Manager, store push.Store) {
	if !s.domain.CompareAndSwap(nil, m) {
		return
	}
	close(s.usable)
	if s.push != nil {
		s.push.Start(store, func(owner, taskID string) bool {
			_, err := m.Get(owner, taskID)
			return err == nil
		})
	}
}

// hold waits for the place of an answer that lasts.
func (s *Server) hold(ctx context.Context) (leave func(), err error) {
	if s.opt.Hold == nil {
		return func() {}, nil
	}
	leave, err = s.opt.Hold(ctx)
	if err != nil && ctx.Err() == nil {
		return nil, spec.ErrUnavailable.With("%s", err)
	}
	return leave, err
}

// takeUp waits for the turn of an answer of about so many bytes.
func (s *Server) takeUp(ctx context.Context, bytes int64) error {
	err := s.opt.TakeUp(ctx, bytes)
	if err != nil && ctx.Err() == nil {
		return spec.ErrUnavailable.With("the server is stopping")
	}
	return err
}

// placed is a stream that has a place until it is closed.
func placed(leave func(), open func() (*Stream, error)) (st *Stream, err error) {
	defer func() { // also after a panic
		if st == nil {
			leave()
		}
	}()
	if st, err = open(); err != nil {
		return nil, err
	}
	st.leave = leave
	return st, nil
}

// SetLegacy gives what serves 0.3.
func (s *Server) SetLegacy(l Legacy) { s.legacy.Store(&l) }

// Close ends the delivery of notifications; what was not delivered is when a
// server starts again.
func (s *Server) Close() {
	if s.push != nil {
		s.push.Close()
	}
}

// runs is the domain. While there is none it waits, but not for ever.
func (s *Server) runs(ctx context.Context) (*runs.Manager, error) {
	if m := s.domain.Load(); m != nil {
		return m, nil
	}
	timer := time.NewTimer(s.opt.StartWait)
	defer timer.Stop()
	select {
	case <-s.usable:
		return s.domain.Load(), nil
	case <-timer.C:
		return nil, spec.ErrUnavailable.With("the server is still starting")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Call is who calls, and how.
type Call struct {
	Owner  string
	Tenant string // a backend's name, from the path; "" is any
	Ext    bool   // the client activated our extension
	Key    string // Idempotency-Key
	After  int64  // Last-Event-ID; -1 is none
	Base   string // where the server was reached

	Traceparent, Tracestate string // the caller's place in a trace, as it said
}

// tenant joins the tenant of the path with that of the request, and refuses
// one that is no backend here.
func (s *Server) tenant(ctx context.Context, m *runs.Manager, c Call, given string) (string, error) {
	name := c.Tenant
	switch {
	case name == "":
		name = given
	case given != "" && given != name:
		return "", spec.InvalidParams("tenant", "is "+given+", and the path says "+name)
	}
	if name == "" {
		return "", nil
	}
	var names []string
	for _, b := range m.BackendNames() {
		if b == name {
			return name, nil
		}
		names = append(names, b)
	}
	return "", spec.InvalidParams("tenant", "is no agent here; there are "+join(names))
}

// find is the caller's run of a task's id.
func (s *Server) find(ctx context.Context, c Call, tenant, field, id string) (*runs.Run, *runs.Manager, error) {
	if id == "" {
		return nil, nil, spec.InvalidParams(field, "is required")
	}
	m, err := s.runs(ctx)
	if err != nil {
		return nil, nil, err
	}
	backend, err := s.tenant(ctx, m, c, tenant)
	if err != nil {
		return nil, nil, err
	}
	run, err := m.Get(c.Owner, id)
	if err != nil || backend != "" && run.Log().Meta().Backend != backend {
		return nil, nil, spec.ErrTaskNotFound
	}
	return run, m, nil
}
