// Package adapter is the HTTP side of innerd: routes, keys, limits, errors and
// the streams of events. What a run is, it asks package runs.
package adapter

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"innerd/runs"
)

// Defaults of Options.
const (
	DefaultBodyLimit     = 64 << 20
	DefaultHeartbeat     = 15 * time.Second
	DefaultWriteProgress = 60 * time.Second
	DefaultReadProgress  = 60 * time.Second
	DefaultStartWait     = 30 * time.Second
)

// Options is what a Server needs. Keys, or Open, is required; the zero value
// of every other field is its default.
type Options struct {
	// Runs is the domain. Nil: Use gives it later, and until then the calls
	// that need it wait.
	Runs Runs
	// Keys are who may call. Open says that there are none and everybody may,
	// as DefaultOwner.
	Keys []Key
	Open bool
	// Hosts are names, beside localhost and host.docker.internal, that a
	// request over loopback may be addressed to; "*" is any.
	Hosts []string
	// Mounts are the paths that other rooms serve.
	Mounts []Mount
	// Places bounds the streams and the connections; nil: any number.
	Places *Places

	Version string          // of innerd, for /health and the agent card
	Ready   func() []string // why the server is not ready; nil or no reasons: it is
	Logger  *slog.Logger    // slog.Default

	BodyLimit     int64         // bytes; 64 MiB
	RateLimit     int           // calls a second of each key, but for those that runs are made of; 0: any number
	Heartbeat     time.Duration // between heartbeats of a stream without other frames; 15 s
	WriteProgress time.Duration // after which a reader that takes nothing is cut; 60 s
	ReadProgress  time.Duration // after which a body that brings nothing is given up; 60 s
	StartWait     time.Duration // that calls wait for Use; 30 s

	OpenMetrics bool // GET /metrics needs no key
	OpenDebug   bool // and /debug/* none
	Pprof       bool // serve /debug/pprof
}

// Server serves the host-loop profile. Its methods may be called at the same
// time.
type Server struct {
	opt     Options
	log     *slog.Logger
	keys    []Key
	hosts   hostSet
	rates   *rates
	engine  *gin.Engine
	handler http.Handler
	started time.Time
	health  healthCache

	domain atomic.Pointer[Runs]
	usable chan struct{} // closed by the first Use

	scales  *scales
	streams registry
	gather  gather
	counts  httpCounts
	page    metricsPage
	sources atomic.Pointer[Sources]
	ctx     context.Context // ends every stream
	cut     context.CancelCauseFunc

	draining context.Context // ends the waits of what has not begun; below ctx
	drain    context.CancelCauseFunc
}

// New makes a Server. It refuses to be open without being told so.
func New(opt Options) (*Server, error) {
	if len(opt.Keys) == 0 && !opt.Open {
		return nil, errors.New("adapter: no keys, and Open is not set: nobody could call, or everybody")
	}
	if len(opt.Keys) > 0 && opt.Open {
		return nil, errors.New("adapter: Keys and Open exclude each other")
	}
	opt.fill()
	s := &Server{
		opt: opt, log: opt.Logger, keys: opt.Keys, hosts: newHostSet(opt.Hosts), rates: newRates(opt.RateLimit),
		started: time.Now(), usable: make(chan struct{}),
	}
	s.ctx, s.cut = context.WithCancelCause(context.Background())
	s.draining, s.drain = context.WithCancelCause(s.ctx)
	s.scales = newScales(opt.BodyLimit, opt.ReadProgress, s.draining, s.ctx, s.log)
	s.engine = s.routes()
	s.handler = s.front(s.engine)
	if opt.Runs != nil {
		s.Use(opt.Runs)
	}
	return s, nil
}

func (o *Options) fill() {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.BodyLimit <= 0 {
		o.BodyLimit = DefaultBodyLimit
	}
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{
		{&o.Heartbeat, DefaultHeartbeat},
		{&o.WriteProgress, DefaultWriteProgress},
		{&o.ReadProgress, DefaultReadProgress},
		{&o.StartWait, DefaultStartWait},
	} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
}

// Use gives the domain, once recovery is done. Only the first call counts.
func (s *Server) Use(r Runs) {
	if s.domain.CompareAndSwap(nil, &r) {
		close(s.usable)
	}
}

// Handler serves every endpoint. The http.Server around it must not have a
// WriteTimeout: streams set their own deadlines. Give it ConnContext.
func (s *Server) Handler() http.Handler { return s.handler }

// Drain refuses what waits to begin and has not: the server stops. What is on
// goes on.
func (s *Server) Drain() { s.drain(runs.ErrDraining) }

// Cut aborts every stream that is open. Their readers see an error, never a
// clean end, and can come back for the rest.
func (s *Server) Cut() { s.cut(errCut) }

// runs is the domain. While there is none it waits, but not for ever.
func (s *Server) runs(ctx context.Context) (Runs, error) {
	if r := s.domain.Load(); r != nil {
		return *r, nil
	}
	timer := time.NewTimer(s.opt.StartWait)
	defer timer.Stop()
	select {
	case <-s.usable:
		return *s.domain.Load(), nil
	case <-timer.C:
		return nil, errStarting
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
