//go:build linux || darwin

package main

import (
	"context"
	"fmt"
	"net"

	"innerd/adapter"
	"innerd/adapter/a2a"
	"innerd/adapter/a2a/push"
	"innerd/adapter/a2a/sdk"
	"innerd/adapter/netguard"
	"innerd/adapter/registry"
)

// a2aSide is what speaks A2A beside the host-loop profile.
type a2aSide struct {
	server *a2a.Server
	agents *registry.Registry
	listen net.Listener // of gRPC; nil without
	grpc   *sdk.GRPC
}

// makeA2A makes the A2A binding. Its calls wait for the domain like all others.
func (s *server) makeA2A(ctx context.Context) error {
	set := s.cfg.set
	opt := a2a.Options{
		Owner: adapter.Owner, Spec: adapter.SpecOf, BaseURL: adapter.BaseURL, Open: s.cfg.access.open, Version: versionString(),
		URL: set.str("a2a-url"), Local: s.url(), Profile: true, BodyLimit: set.bytes("max-body"), Write: set.dur("write-timeout"), Logger: s.log,
		Hold: s.places.Hold, PutDown: adapter.PutDown, TakeUp: adapter.TakeUp,
		Push: &push.Options{Guard: netguard.New(set.list("push-allow"), "--push-allow"), Logger: s.log},
	}
	switch v := set.str("a2a-root-card"); v {
	case "1.0":
	case "both":
		opt.BothRoot = true
	default:
		return usageError{fmt.Errorf("--a2a-root-card %q: must be 1.0 or both", v)}
	}
	if path := set.str("a2a-card-key"); path != "" {
		raw, err := s.app.readInput(ctx, path)
		if err == nil {
			opt.Signer, err = a2a.NewSigner(raw, "")
		}
		if err != nil {
			return usageError{fmt.Errorf("--a2a-card-key %s: %w", path, err)}
		}
	}
	// A server of one command (run) has no address that anybody could know.
	if at := set.str("grpc-listen"); at != "" && s.cfg.wordDelay == 0 {
		l, err := net.Listen("tcp", at)
		if err != nil {
			return fmt.Errorf("cannot listen for gRPC: %w; choose another address with --grpc-listen", err)
		}
		s.a2a.listen = l
		if opt.GRPC = set.str("grpc-url"); opt.GRPC == "" {
			opt.GRPC = fmt.Sprintf(":%d", l.Addr().(*net.TCPAddr).Port)
		}
	}
	var err error
	s.a2a.agents = registry.New(registry.Options{Guard: netguard.New(set.list("discover-allow"), "--discover-allow"), Logger: s.log})
	s.a2a.server, err = a2a.New(opt)
	return err
}

// mounts are the paths of the A2A side.
func (s *server) mounts() []adapter.Mount {
	srv := s.a2a.server
	return []adapter.Mount{
		{Prefix: a2a.Prefix, Handler: srv.Handler(), Open: a2a.OpenPath, Refuse: a2a.Refuse},
		{Prefix: a2a.LegacyPrefix, Handler: srv.LegacyHandler(), Open: a2a.OpenPath, Refuse: a2a.Refuse},
		{Prefix: a2a.CardPath, Handler: srv.RootCard(), Open: a2a.OpenPath, Refuse: a2a.Refuse},
		{Prefix: "/agents", Handler: s.a2a.agents.Handler(adapter.Owner)},
		{Prefix: "/agents:register", Handler: s.a2a.agents.Handler(adapter.Owner)},
		{Prefix: "/agents:discover", Handler: s.a2a.agents.Handler(adapter.Owner)},
		{Prefix: "/agents:route", Handler: s.a2a.agents.Handler(adapter.Owner)},
	}
}

// serveA2A begins once the adapter is there, which knows the keys.
func (s *server) serveA2A() {
	set := s.cfg.set
	s.a2a.server.SetLegacy(sdk.Legacy(s.a2a.server, adapter.Owner, a2a.DefaultHeartbeat, set.dur("write-timeout"), s.log))
	if s.a2a.listen == nil {
		return
	}
	s.a2a.grpc = sdk.NewGRPC(s.a2a.server, sdk.GRPCOptions{
		Owner: adapter.Owner, BodyLimit: int(set.bytes("max-body")), Write: set.dur("write-timeout"), Logger: s.log,
	})
	s.a2a.grpc.Serve(s.places.Quarter(s.a2a.listen), s.api.Beside(adapter.Mount{Prefix: sdk.GRPCPath, Handler: s.a2a.grpc, Refuse: sdk.RefuseGRPC}))
	s.log.Info("A2A over gRPC", "address", s.a2a.listen.Addr().String())
}

// useA2A gives the domain, once recovery is done.
func (s *server) useA2A() {
	s.a2a.agents.Use(s.store)
	s.a2a.server.Use(s.runs, s.store)
}

// stopA2A ends what of it does not end with the HTTP server. Runs have ended.
func (s *server) stopA2A(ctx context.Context) {
	if s.a2a.grpc != nil {
		ctx, cancel := context.WithTimeout(ctx, readersGrace)
		defer cancel()
		s.a2a.grpc.Stop(ctx)
	} else if s.a2a.listen != nil {
		_ = s.a2a.listen.Close()
	}
	if s.a2a.server != nil {
		s.a2a.server.Close()
	}
}
