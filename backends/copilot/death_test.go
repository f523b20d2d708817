package copilot_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
)

// TestDeathBeforeHandshake is the machine's failure, not the turn's.
func TestDeathBeforeHandshake(t *testing.T) {
	f := newFake(t, act{Expect: `"method":"connect"`}, act{Stderr: "no such library"}, act{Exit: exit(3)})
	c := f.open(t, nil)
	_, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{})
	var e *backends.Error
	if !errors.As(err, &e) || e.Type != events.ErrBackendUnavailable || e.Exit == nil || e.Exit.Code != 3 || !strings.Contains(e.Message, "no such library") {
		t.Errorf("%v", err)
	}
	if lives(c) || isDone(c) {
		t.Errorf("lives: %v, done: %v", lives(c), isDone(c))
	}
}

// lives is what a conversation says of its copilot.
func lives(c backends.Conversation) bool { return c.(backends.Lively).Lives() }

// TestDiesWithoutASession: nobody tells a conversation of the end of its process
// where its session is not open in it; it knows, and the next run starts another.
func TestDiesWithoutASession(t *testing.T) {
	f := newFake(t, act{Expect: `"method":"session.create"`}, act{Refuse: "not now"}, act{Exit: exit(3)})
	c := f.open(t, nil)
	if _, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{}); err == nil {
		t.Error("the refused session was begun")
	}
	for end := time.Now().Add(time.Minute); lives(c); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it lives on without a process")
		}
	}
	f.write(t, acts(send("i1"), []act{say("ok")}, stop))
	rec, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{})
	if err != nil || !slices.Equal(messages(rec), []string{"ok"}) || !lives(c) {
		t.Errorf("%v, %q, lives: %v", err, messages(rec), lives(c))
	}
}

// TestDeathInATurn ends every run of the process at once.
func TestDeathInATurn(t *testing.T) {
	f := newFake(t, acts(send("i1"), send("i2"), []act{{Event: `{"type":"assistant.message_delta","data":{"messageId":"m","deltaContent":"half"}}`}, {Exit: exit(4)}})...)
	a, b := f.open(t, nil), f.open(t, nil)
	var both sync.WaitGroup
	for _, c := range []backends.Conversation{a, b} {
		both.Go(func() {
			_, _, err := run(t, t.Context(), c, backendtest.Turn{}, backends.Settings{})
			var e *backends.Error
			if !errors.As(err, &e) || e.Type != events.ErrBackendCrashed || e.Exit == nil || e.Exit.Code != 4 {
				t.Errorf("%v", err)
			}
		})
	}
	both.Wait()
	for _, c := range []backends.Conversation{a, b} {
		<-c.Done()
	}
	if n := len(f.launches(t)); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// TestWedged: a copilot that answers nothing, not even a ping, is killed, and
// with it the run beside the canceled one.
func TestWedged(t *testing.T) {
	f := newFake(t, acts(send("i1"), send("i2"), []act{{Hang: true}})...)
	a, b := f.open(t, nil), f.open(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	var both sync.WaitGroup
	both.Go(func() {
		if _, _, err := run(t, ctx, a, backendtest.Turn{}, backends.Settings{}); !errors.Is(err, backends.ErrCanceled) {
			t.Errorf("the canceled one: %v", err)
		}
	})
	both.Go(func() {
		if _, _, err := run(t, t.Context(), b, backendtest.Turn{}, backends.Settings{}); class(err) != events.ErrBackendCrashed {
			t.Errorf("the other: %v", err)
		}
	})
	f.await(t, `"method":"session.send"`, 2)
	begin := time.Now()
	cancel(backends.ErrCanceled)
	both.Wait()
	if took := time.Since(begin); took > atOnce {
		t.Errorf("a cancel took %v", took)
	}
	<-a.Done()
	<-b.Done()
}
