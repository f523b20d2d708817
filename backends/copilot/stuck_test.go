package copilot_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

// TestGivenUpWhileTheLogWaits: a copilot whose answers nobody has read yet is not
// ended for that: others have their sessions in it.
func TestGivenUpWhileTheLogWaits(t *testing.T) {
	t.Parallel()
	f := newFake(t, acts(
		send("i1"), []act{event(`{"type":"assistant.message_delta","data":{"messageId":"m","deltaContent":"a"}}`)},
		send("i2"), []act{say("alive")}, stop)...)
	a, b := f.open(t, nil), f.open(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	rec := backendtest.NewRecorder(backendtest.Turn{}, nil, nil)
	h := backendtest.NewSlowHost(rec)
	done := make(chan error, 1)
	go func() { // ends with Run
		_, err := a.Run(ctx, backends.Input{}, h)
		done <- err
	}()
	select {
	case <-h.Waits:
	case got := <-done:
		t.Fatalf("it ended before its log waited: %v", got)
	}
	cancel(backends.ErrCanceled)
	<-a.Done() // it was given up
	close(h.Release)
	if err := <-done; !errors.Is(err, backends.ErrCanceled) {
		t.Error(err)
	}
	rec.Close()
	got, _, err := run(t, t.Context(), b, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(messages(got), []string{"alive"}) || isDone(b) {
		t.Errorf("%v, %q", err, messages(got))
	}
	if n := len(f.launches(t)); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// TestUnlistedBackground: what runs in the background is not taken for nothing
// because copilot does not say what it is.
func TestUnlistedBackground(t *testing.T) {
	t.Parallel()
	refused := []act{{Expect: `"method":"session.tasks.list"`}, {Refuse: "busy"}}
	listed := []act{
		{Expect: `"method":"session.tasks.list"`},
		{Answer: `{"tasks":[{"id":"t1","type":"shell","status":"running","description":"a server"}]}`},
		{Expect: `"method":"session.tasks.cancel"`},
		{Answer: `{}`},
		{Expect: `"method":"session.tasks.list"`},
		{Answer: `{"tasks":[]}`},
	}
	idle := []act{say("It runs."), {Event: `{"type":"assistant.idle","data":{}}`}}
	over := []act{{Event: `{"type":"session.idle","data":{}}`}}

	f := newFake(t, acts(send("i1"), idle, refused, refused, listed, over)...)
	rec, _, err := run(t, t.Context(), f.open(t, nil), backendtest.Turn{}, backends.Settings{})
	if err != nil || !noticed(rec, "background work is ended with the turn: a server") {
		t.Errorf("%v\n%s", err, backendtest.Dump(rec.Events()))
	}

	f = newFake(t, acts(send("i1"), idle, refused, refused, refused, refused)...)
	rec, _, err = run(t, t.Context(), f.open(t, nil), backendtest.Turn{}, backends.Settings{})
	if err != nil || !noticed(rec, "does not say what still runs") {
		t.Errorf("%v\n%s", err, backendtest.Dump(rec.Events()))
	}
}

func noticed(rec *backendtest.Recorder, words string) bool {
	return slices.ContainsFunc(rec.Events(), func(e events.Event) bool {
		s, ok := e.Data.(events.Status)
		return ok && strings.Contains(s.Detail, words)
	})
}

// TestCanceledCreate: a session that comes when its run is canceled is put away.
func TestCanceledCreate(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	f := newFake(t, act{Expect: `"method":"session.create"`}, act{Gate: gate}, act{Answer: `{}`}, act{Expect: `"method":"session.detach"`}, act{Answer: `{}`})
	c := f.open(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { // ends with Run
		_, _, err := run(t, ctx, c, backendtest.Turn{}, backends.Settings{})
		done <- err
	}()
	f.await(t, `"method":"session.create"`, 1)
	cancel(backends.ErrCanceled)
	if err := <-done; !errors.Is(err, backends.ErrCanceled) {
		t.Error(err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.await(t, `"method":"session.detach"`, 1)
}
