//go:build linux || darwin

package main

import (
	"context"

	"innerd/adapter"
	"innerd/telemetry"
)

// trace makes what sends traces to a collector, where one is set up.
func (s *server) trace(ctx context.Context) (err error) {
	if s.tracer, err = telemetry.FromEnv(ctx, s.app.getenv, versionString(), s.log); err != nil {
		return usageError{err}
	}
	return nil
}

// watch shows the rooms that are measured to who asks for metrics.
func (s *server) watch() {
	s.api.Watch(adapter.Sources{
		Runs: s.runs.Stats, Live: s.runs.Overview, Log: s.store.Stats, Requests: s.bridge.OpenRequests, Children: s.children.Running,
	})
}

// stopTrace sends the spans that are left.
func (s *server) stopTrace(ctx context.Context) {
	if err := s.tracer.Close(ctx); err != nil {
		s.log.Warn("the last traces were not exported", "error", err)
	}
}
