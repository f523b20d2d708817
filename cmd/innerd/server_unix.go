//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"innerd/adapter"
	"innerd/backends"
	"innerd/events/journal"
	"innerd/runs"
	"innerd/telemetry"
	"innerd/toolbridge"
)

// server is every room of one innerd, wired together.
type server struct {
	cfg    *serverConfig
	app    *app
	log    *slog.Logger
	listen net.Listener
	places *adapter.Places // of the listeners together, but for that of agents
	http   *http.Server
	front  front
	late   *net.UnixConn // to process 1, which keeps a late configuration

	lateSecrets []string // keys and credentials of a late configuration
	api         *adapter.Server

	store    *journal.Store
	children *backends.Children
	agents   []backends.Backend
	bridge   *toolbridge.Bridge
	runs     *runs.Manager
	mcp      *http.Server
	a2a      a2aSide
	tracer   *telemetry.Tracer // nil: no collector is set up

	draining atomic.Bool
	kept     atomic.Pointer[journal.Store] // store, once it is open, for /ready
	ctx      context.Context               // of what runs in the background
	end      context.CancelFunc
	wg       sync.WaitGroup
	failed   chan error // a listener that broke
}

// startServer listens, so that /health answers at once, and then makes the
// rest: what an earlier server left is ended before the first run is taken.
func (a *app) startServer(ctx context.Context, cfg *serverConfig, log *slog.Logger) (*server, error) {
	s := &server{cfg: cfg, app: a, log: log, failed: make(chan error, 2)}
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	err := s.open()
	if err == nil {
		err = s.lateSettings(ctx)
	}
	if err == nil {
		err = s.serveAPI(ctx)
	}
	if err == nil {
		err = s.domain(ctx)
	}
	if err == nil {
		return s, nil
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return nil, errors.Join(err, s.stop(stopping))
}

// open listens. Who calls now waits for the handler.
func (s *server) open() error {
	var err error
	if s.listen, err = net.Listen("tcp", s.cfg.listen); err != nil {
		return fmt.Errorf("cannot listen: %w; choose another address with --listen, or see innerd doctor", err)
	}
	s.places = s.cfg.places()
	s.listen = s.places.Listener(s.listen)
	return nil
}

// serveAPI serves; calls that need the domain wait for it.
func (s *server) serveAPI(ctx context.Context) error {
	err := s.makeA2A(ctx)
	if err != nil {
		return err
	}
	if s.api, err = adapter.New(adapter.Options{
		Keys: s.cfg.access.keys, Open: s.cfg.access.open, Hosts: s.cfg.set.list("allowed-host"), Mounts: s.mounts(), Places: s.places,
		Version: versionString(), Ready: s.notReady, Logger: s.log,
		BodyLimit: s.cfg.set.bytes("max-body"), RateLimit: s.cfg.set.int("rate-limit"), WriteProgress: s.cfg.set.dur("write-timeout"),
		OpenMetrics: s.cfg.set.bool("open-metrics"), OpenDebug: s.cfg.set.bool("open-debug"), Pprof: s.cfg.set.bool("pprof"),
	}); err != nil {
		return err
	}
	s.serveA2A()
	s.show(s.api.Handler())
	return nil
}

// show puts h behind the listener.
func (s *server) show(h http.Handler) {
	s.front.set(h)
	if s.http == nil {
		s.http = s.serve(s.listen, &s.front)
	}
}

// maxHeader is the most that the header of a request may be, in bytes: more is
// answered with 431.
const maxHeader = 64 << 10

// serve serves on a listener until the server is stopped. There is no write
// timeout: streams last, and set their own deadlines.
func (s *server) serve(l net.Listener, h http.Handler) *http.Server {
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnContext: adapter.ConnContext, ConnState: adapter.ConnState,
	}
	s.wg.Go(func() { // ends with the listener
		if err := srv.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	})
	return srv
}

func (s *server) notReady() []string {
	if s.draining.Load() {
		return []string{"innerd is shutting down"}
	}
	if store := s.kept.Load(); store != nil {
		return store.Trouble()
	}
	return nil
}

// domain makes log, children, agents and runs, and recovers what was.
func (s *server) domain(ctx context.Context) error {
	set := s.cfg.set
	policy, err := journal.ParsePolicy(set.str("fsync"))
	if err != nil {
		return usageError{err}
	}
	if err := s.trace(ctx); err != nil {
		return err
	}
	if s.store, err = journal.Open(s.cfg.stateDir, &journal.Options{
		Fsync: policy, MemoryBytes: set.bytes("log-memory"), BlobBytes: set.bytes("max-event"),
		Retention: set.dur("retention"), MaxRuns: set.int("max-runs"), MaxBytes: set.bytes("max-log"),
		Logger: s.log, Closing: runs.Closing,
	}); err != nil {
		return fmt.Errorf("%w (the directory is --state-dir)", err)
	}
	s.kept.Store(s.store)
	s.background("log", s.store.Run)
	apart, err := startsApart()
	if err != nil {
		return err
	}
	s.children = backends.NewChildren(backends.ChildrenOptions{
		StateDir: s.store.Dir(), ServerID: s.store.ID(), Logger: s.log, Inherit: set.list("agent-env"),
		Env: s.cfg.agentEnv, Starter: apart.starter, Group: apart.group,
	})
	if err := s.children.Recover(ctx); err != nil {
		return fmt.Errorf("ending what an earlier server left: %w", err)
	}
	if s.agents, err = s.makeAgents(ctx); err != nil {
		return err
	}
	s.bridge = toolbridge.New(&toolbridge.Options{
		Permission: set.dur("permission-timeout"), Question: set.dur("question-timeout"), Logger: s.log,
	})
	if s.runs, err = s.makeRuns(ctx); err != nil {
		return err
	}
	if err := s.runs.Recover(ctx); err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	s.useA2A()
	s.watch()
	s.background("memory", s.keepSmall)
	s.api.Use(adapter.FromManager(s.runs))
	return nil
}

func (s *server) makeRuns(ctx context.Context) (*runs.Manager, error) {
	mcpURL, err := s.serveMCP()
	if err != nil {
		return nil, err
	}
	dir, err := s.cfg.workspace()
	if err != nil {
		return nil, err
	}
	secrets, err := s.redactor(ctx)
	if err != nil {
		return nil, err
	}
	fetch := newFetcher(s.cfg.set.list("fetch-allow"), s.cfg.set.bytes("max-body"))
	return runs.New(runs.Options{
		Store: s.store, Bridge: s.bridge, Backends: s.agents,
		Default: s.cfg.set.str("backend"), Dir: dir, OpenServer: s.cfg.access.open, MCPURL: mcpURL,
		Limits: s.cfg.limits(), Redact: secrets, Fetch: fetch.part, Logger: s.log, Tracer: s.tracer,
	})
}

// serveMCP opens the second road for bridged tools: for agents on this machine
// only, each with its conversation's token.
func (s *server) serveMCP() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("cannot listen for agents: %w", err)
	}
	s.mcp = s.serve(l, s.bridge.MCPHandler())
	return "http://" + l.Addr().String(), nil
}

// background runs f until the server stops.
func (s *server) background(name string, f func(context.Context) error) {
	s.wg.Go(func() { // ends with s.ctx
		if err := f(s.ctx); err != nil && s.ctx.Err() == nil {
			s.log.Error(name+" stopped", "error", err)
		}
	})
}

// url is where the server answers, from this machine.
func (s *server) url() string {
	addr := s.listen.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// stop ends everything in the order in which it depends on each other: no new
// calls, no new runs, the running ones end as shut down and their readers get
// that, agents are closed, the log is. It returns when nothing is left, or
// when ctx ends, with what was left then.
func (s *server) stop(ctx context.Context) error {
	s.draining.Store(true)
	if s.api != nil {
		s.api.Drain()
	}
	var errs []error
	closed := make(chan struct{})
	if s.http != nil {
		go func() { // ends with the last reader, or with the Close below
			defer close(closed)
			_ = s.http.Shutdown(context.WithoutCancel(ctx))
		}()
	}
	if s.runs != nil {
		if err := s.runs.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("runs did not end in time: %w", err))
		}
	}
	if s.http != nil {
		s.closeReaders(ctx, closed)
	}
	s.stopA2A(ctx)
	s.stopTrace(ctx)
	if s.mcp != nil {
		_ = s.mcp.Close()
	}
	if s.bridge != nil {
		s.bridge.Close()
	}
	if s.children != nil {
		if err := s.children.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("agents did not end: %w", err))
		}
	}
	if s.late != nil {
		_ = s.late.Close()
	}
	s.end()
	s.wg.Wait()
	if s.store != nil {
		if err := s.store.Close(); err != nil {
			errs = append(errs, fmt.Errorf("the log was not closed: %w", err))
		}
	}
	return errors.Join(errs...)
}

// readersGrace is how long readers may take for the last events.
const readersGrace = 2 * time.Second

// closeReaders waits until readers have the end of their runs, then cuts them.
func (s *server) closeReaders(ctx context.Context, closed <-chan struct{}) {
	t := time.NewTimer(readersGrace)
	defer t.Stop()
	select {
	case <-closed:
		return
	case <-t.C:
	case <-ctx.Done():
	}
	if s.api != nil {
		s.api.Cut()
	}
	_ = s.http.Close()
	<-closed
}
