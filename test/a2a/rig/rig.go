// Package rig is a whole server with the agent of the conformance kit in it,
// for tests and for the command that the kit is pointed at.
package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"innerd/adapter"
	"innerd/adapter/a2a"
	"innerd/adapter/a2a/push"
	"innerd/adapter/netguard"
	"innerd/adapter/registry"
	"innerd/backends"
	"innerd/backends/simulate"
	"innerd/events/journal"
	"innerd/runs"
	"innerd/test/a2a/tckagent"
	"innerd/toolbridge"
)

// Options of a server. The zero value is an open one on a free port, in memory.
type Options struct {
	Listen string // 127.0.0.1:0
	GRPC   string // address of the gRPC listener; "" is none
	Keys   []adapter.Key
	Dir    string        // state directory; "" is in memory
	Work   string        // working directory of runs; ""
	Delay  time.Duration // of the agent's slow scenarios; 2 s
	Logger *slog.Logger

	BothRoot  bool
	Signer    *a2a.Signer
	NoPush    bool
	PushAllow []string      // localhost and 127.0.0.1
	Backoff   time.Duration // of notifications; 50 ms
	Heartbeat time.Duration
	Write     time.Duration
	Default   string // backend; the conformance agent
	Limits    runs.Limits
	BodyLimit int64 // 64 MiB
}

// Server is one that runs.
type Server struct {
	URL   string // without a slash at its end
	GRPC  string // host:port
	Runs  *runs.Manager
	A2A   *a2a.Server
	HTTP  http.Handler // what is behind URL
	store *journal.Store
	http  *http.Server
	grpc  io.Closer
	stop  context.CancelFunc
	done  chan struct{}
}

// Start starts a server.
func Start(o Options) (*Server, error) {
	o.fill()
	store, err := journal.Open(o.Dir, &journal.Options{Fsync: journal.FsyncNone, Logger: o.Logger, Closing: runs.Closing})
	if err != nil {
		return nil, err
	}
	s := &Server{store: store, done: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { // ends with Stop
		defer close(s.done)
		_ = store.Run(ctx)
	}()
	if err := s.open(o); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (o *Options) fill() {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Delay <= 0 {
		o.Delay = 2 * time.Second
	}
	if o.PushAllow == nil {
		o.PushAllow = []string{"localhost", "127.0.0.1"}
	}
	if o.Backoff <= 0 {
		o.Backoff = 50 * time.Millisecond
	}
	if o.Default == "" {
		o.Default = tckagent.Name
	}
}

func (s *Server) open(o Options) error {
	bridge := toolbridge.New(&toolbridge.Options{Logger: o.Logger})
	var err error
	if s.Runs, err = runs.New(runs.Options{
		Store: s.store, Bridge: bridge, Default: o.Default, Dir: o.Work, OpenServer: len(o.Keys) == 0, Logger: o.Logger, Limits: o.Limits,
		Backends: []backends.Backend{&tckagent.Backend{Delay: o.Delay}, simulate.New(&simulate.Options{})},
	}); err != nil {
		return err
	}
	if err := s.Runs.Recover(context.Background()); err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return err
	}
	s.URL = "http://" + l.Addr().String()
	opt := a2a.Options{
		Owner: adapter.Owner, Spec: adapter.SpecOf, BaseURL: adapter.BaseURL, Open: len(o.Keys) == 0, Version: "test", Local: s.URL,
		BothRoot: o.BothRoot, Signer: o.Signer, Profile: true, Heartbeat: o.Heartbeat, Write: o.Write, BodyLimit: o.BodyLimit, Logger: o.Logger, Intercept: tckagent.Intercept,
		PutDown: adapter.PutDown, TakeUp: adapter.TakeUp,
	}
	if !o.NoPush {
		opt.Push = &push.Options{Guard: netguard.New(o.PushAllow, "--push-allow"), Logger: o.Logger, Backoff: o.Backoff}
	}
	grpcListener, err := s.listenGRPC(o, &opt)
	if err != nil {
		return err
	}
	if s.A2A, err = a2a.New(opt); err != nil {
		return err
	}
	agents := registry.New(registry.Options{Guard: netguard.New(nil, "--discover-allow"), Logger: o.Logger})
	agents.Use(s.store)
	api, err := adapter.New(adapter.Options{
		Keys: o.Keys, Open: len(o.Keys) == 0, Version: "test", Logger: o.Logger, BodyLimit: o.BodyLimit, Heartbeat: o.Heartbeat,
		Mounts: append(Mounts(s.A2A), agentMounts(agents)...),
	})
	if err != nil {
		return err
	}
	s.serveSDK(api, grpcListener, o)
	api.Use(adapter.FromManager(s.Runs))
	s.A2A.Use(s.Runs, s.store)
	s.HTTP = api.Handler()
	s.http = &http.Server{Handler: s.HTTP, ConnContext: adapter.ConnContext, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)}
	go s.http.Serve(l) //nolint:errcheck // ends with Stop
	return nil
}

// Mounts are the paths of the binding.
func Mounts(s *a2a.Server) []adapter.Mount {
	return []adapter.Mount{
		{Prefix: a2a.Prefix, Handler: s.Handler(), Open: a2a.OpenPath, Refuse: a2a.Refuse},
		{Prefix: a2a.LegacyPrefix, Handler: s.LegacyHandler(), Open: a2a.OpenPath, Refuse: a2a.Refuse},
		{Prefix: a2a.CardPath, Handler: s.RootCard(), Open: a2a.OpenPath, Refuse: a2a.Refuse},
	}
}

// agentMounts are those of the list of other agents.
func agentMounts(r *registry.Registry) (out []adapter.Mount) {
	for _, path := range []string{"/agents", "/agents:register", "/agents:discover", "/agents:route"} {
		out = append(out, adapter.Mount{Prefix: path, Handler: r.Handler(adapter.Owner)})
	}
	return out
}

// Readers is how many streams and webhooks read logs now.
func (s *Server) Readers() int { return s.store.Stats().Readers }

// Stop ends the server; what it kept in a directory can be started again.
func (s *Server) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var errs []error
	if s.Runs != nil {
		errs = append(errs, s.Runs.Shutdown(ctx))
	}
	errs = append(errs, s.cut())
	return errors.Join(errs...)
}

// Kill ends the server as a crash would: its runs are left as they are in the
// log.
func (s *Server) Kill() error { return s.cut() }

func (s *Server) cut() error {
	if s.http != nil {
		_ = s.http.Close()
	}
	if s.grpc != nil {
		_ = s.grpc.Close()
	}
	if s.A2A != nil {
		s.A2A.Close()
	}
	s.stop()
	<-s.done
	if err := s.store.Close(); err != nil {
		return fmt.Errorf("close the log: %w", err)
	}
	return nil
}
