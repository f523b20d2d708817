package codex_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

// TestCancelWhileTheLogWaits: codex is told to stop although the log cannot take
// what it has said; and where it then does not stop, a process that others share
// is not ended for what nobody has read.
func TestCancelWhileTheLogWaits(t *testing.T) {
	t.Parallel()
	st := newStage(t, script{
		"turn/start":     {{accepted, started, said("hello"), finished}, {accepted, started, said("one")}, {accepted, started, said("two"), finished}},
		"turn/interrupt": {{done}},
	})
	a, b := st.open(idA, ""), st.open(idB, "")
	if _, _, err := run(t, b, backendtest.Turn{}, backends.Settings{}); err != nil { // it shares the process from now on
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	rec := backendtest.NewRecorder(backendtest.Turn{}, nil, nil)
	h := backendtest.NewSlowHost(rec)
	ended := make(chan error, 1)
	go func() { // ends with Run
		_, err := a.Run(ctx, backends.Input{Parts: []events.Part{events.Text("Go.")}}, h)
		ended <- err
	}()
	select {
	case <-h.Waits:
	case got := <-ended:
		t.Fatalf("it ended before its log waited: %v", got)
	}
	cancel(backends.ErrCanceled)
	st.await("turn/interrupt")
	<-a.Done() // it was given up
	close(h.Release)
	if err := <-ended; !errors.Is(err, backends.ErrCanceled) {
		t.Error(err)
	}
	rec.Close()
	evs, _, err := run(t, b, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(texts(evs), []string{"two"}) {
		t.Errorf("beside it: %q %v", texts(evs), err)
	}
	if n := len(st.launches()); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// await returns when a fake was told something.
func (st *stage) await(what string) {
	st.t.Helper()
	st.awaitTimes(1, what)
}

// awaitTimes returns when it was told it so often.
func (st *stage) awaitTimes(n int, what string) {
	st.t.Helper()
	for end := time.Now().Add(time.Minute); strings.Count(st.heard(), what) < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			st.t.Fatalf("codex was never told %s, %d times", what, n)
		}
	}
}

// signs counts the signs of life that are no events.
type signs struct {
	backends.Host
	n atomic.Int64
}

func (h *signs) Emit(e events.Event) {
	if e.Data == nil {
		h.n.Add(1)
	}
	h.Host.Emit(e)
}

// TestNoSignOfLife: what a process tells of the account says nothing of a turn.
func TestNoSignOfLife(t *testing.T) {
	t.Parallel()
	const limits = `{"method":"account/rateLimits/updated","params":{"rateLimits":{"primary":{"usedPercent":1}}}}`
	st := newStage(t, script{"turn/start": {{accepted, started, said("one"), finished}, {accepted, started, limits, limits, limits, said("two"), finished}}})
	c := st.open(idA, "")
	var seen []int64
	for range 2 {
		rec := backendtest.NewRecorder(backendtest.Turn{}, nil, nil)
		h := &signs{Host: rec}
		if _, err := c.Run(t.Context(), backends.Input{Parts: []events.Part{events.Text("Go.")}}, h); err != nil {
			t.Fatal(err)
		}
		rec.Close()
		seen = append(seen, h.n.Load())
	}
	if seen[0] != seen[1] {
		t.Errorf("%d signs of life, and %d with what is of the account", seen[0], seen[1])
	}
}

// TestCanceledThreadStart: a thread that comes when its run is canceled is put away.
func TestCanceledThreadStart(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	st := newStage(t, script{"thread/start": {{"!gate " + gate, thread}}})
	c := st.open(idA, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { // ends with Run
		_, _, err := runIn(ctx, t, c, backendtest.Turn{}, backends.Settings{}, nil)
		ended <- err
	}()
	st.await("thread/start")
	cancel(backends.ErrCanceled)
	if err := <-ended; !errors.Is(err, backends.ErrCanceled) {
		t.Error(err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	st.await(`"method":"thread/unsubscribe","params":{"threadId":"00000000-0000-7000-8000-000000000001"}`)
}
