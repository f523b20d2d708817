package runs_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"innerd/backends"
	"innerd/runs"
)

func (w *world) backend(name string) runs.BackendInfo {
	w.t.Helper()
	for _, b := range w.m.Backends(w.t.Context()) {
		if b.Name == name {
			return b
		}
	}
	w.t.Fatalf("no backend %s", name)
	return runs.BackendInfo{}
}

// TestAProbeHoldsNobodyUp: an agent that takes its time to tell its version is
// asked once at a time, and neither a run nor the list waits for it.
func TestAProbeHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var probes atomic.Int64
		b := &played{name: "played", run: says("x")}
		b.probe = func(ctx context.Context) backends.Status {
			probes.Add(1)
			select {
			case <-time.After(20 * time.Second):
			case <-ctx.Done():
			}
			return backends.Status{Usable: true, Version: "2", Pinned: "1"}
		}
		w := playing(t, b)
		began := time.Now()
		if got := w.backend("played"); got.Usable || got.Why == "" || got.Hint == "" || time.Since(began) > 3*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), got)
		}
		began = time.Now()
		interactive := func(s *runs.Spec) { s.Settings.Interactive = true }
		if _, _, err := w.m.Start(t.Context(), "me", w.spec(by("played"), interactive)); err != nil || time.Since(began) > time.Second {
			t.Errorf("a start took %v: %v", time.Since(began), err)
		}
		for range 5 {
			w.backend("played")
		}
		if probes.Load() != 1 {
			t.Errorf("%d probes at once", probes.Load())
		}
		time.Sleep(20 * time.Second)
		began = time.Now()
		got := w.backend("played")
		if !got.Usable || !got.Found || got.Version != "2" || got.Warning == "" || got.Unknown["new/event"] != 2 || time.Since(began) > time.Second {
			t.Errorf("after %v: %+v", time.Since(began), got)
		}
	})
}
