package proc_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"innerd/backends/internal/proc"
)

// wire is a Starter at the other end of something that carries only JSON and
// files, as a privileged process would be.
type wire struct {
	t    *testing.T
	far  proc.Starter
	used *sync.Map
}

// over is v as it comes out at the other end.
func over[T any](w wire, method string, v T) T {
	w.used.Store(method, true)
	var out T
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil || !cmp.Equal(v, out) {
		w.t.Errorf("%s: %+v became %+v: %v", method, v, out, err)
	}
	return out
}

func (w wire) Start(spec proc.Spec, files []*os.File) (proc.ID, error) {
	id, err := w.far.Start(over(w, "Start", spec), files)
	return over(w, "Start", id), err
}
func (w wire) Wait(id proc.ID) error { return w.far.Wait(id) }
func (w wire) Signal(id proc.ID, sig syscall.Signal, group bool) error {
	return w.far.Signal(over(w, "Signal", id), over(w, "Signal", sig), group)
}

func (w wire) Sweep(ctx context.Context, t proc.Target) error {
	return w.far.Sweep(ctx, over(w, "Sweep", t))
}

func (w wire) Reap(id proc.ID) (proc.Status, error) {
	s, err := w.far.Reap(over(w, "Reap", id))
	return over(w, "Reap", s), err
}

// A child can be started, signaled and swept through plain data.
func TestStarterIsPlainData(t *testing.T) {
	far := proc.NewLocal()
	t.Cleanup(func() { _ = far.(io.Closer).Close() })
	w := wire{t, far, &sync.Map{}}
	s := testSupervisor{proc.New(proc.Options{Starter: w}), ""}
	first := make(chan struct{}, 1)
	c, err := s.Start(t.Context(), s.self("echo", proc.Command{OnLine: func([]byte) { first <- struct{}{} }}))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	await(t, first)
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := c.Exit(); e.Signal != "terminated" {
		t.Errorf("exit %+v", e)
	}
	for _, method := range []string{"Start", "Signal", "Sweep", "Reap"} {
		if _, ok := w.used.Load(method); !ok {
			t.Errorf("%s was not used", method)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
