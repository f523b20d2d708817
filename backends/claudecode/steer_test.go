package claudecode_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"innerd/backends"
	"innerd/backends/backendtest"
	"innerd/events"
	"innerd/test/modelstub"
)

func steer(t *testing.T, c backends.Conversation, text string) error {
	t.Helper()
	return c.(backends.Steerer).Steer(t.Context(), []events.Part{events.Text(text)})
}

// TestSteer: what comes while the model speaks is answered after that, what
// comes while a tool runs together with its result; the run is over when both
// are answered, and then it is too late.
func TestSteer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct {
		name string
		on   events.Type
		turn func(g *modelstub.Gate, fifo string) []modelstub.Turn
		said []string
	}{
		{"text", events.TypeMessageDelta, func(g *modelstub.Gate, _ string) []modelstub.Turn {
			return []modelstub.Turn{modelstub.Say(modelstub.Text("First I say this").Hold(g)), text("Now that.")}
		}, []string{"First I say this", "Now that."}},
		{"tool", events.TypeToolCall, func(_ *modelstub.Gate, fifo string) []modelstub.Turn {
			return []modelstub.Turn{modelstub.Say(bash("cat " + fifo)), text("Both are answered.")}
		}, []string{"Both are answered."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conv, s := b.open(t, backends.Config{})
			g, fifo := modelstub.NewGate(), filepath.Join(t.TempDir(), "fifo")
			mkfifo(t, fifo)
			for _, turn := range c.turn(g, fifo) {
				s.queue = append(s.queue, arranged{turn: turn})
			}
			steered := make(chan error, 1)
			evs, out, err := runWatching(t, conv, backends.Settings{}, c.on, func(w *watched) {
				queued := func() { // claude says that it has the input in its queue
					if g.Release(); c.name == "tool" {
						go os.WriteFile(fifo, []byte("x\n"), 0) //nolint:errcheck // ends when the tool reads
					}
				}
				go func() { // ends with the run at the latest
					w.next.Store(&queued)
					steered <- steer(t, conv, "MARK-OF-THE-STEER")
				}()
			})
			if err != nil || out.Reason != backends.ReasonEndTurn {
				t.Fatal(out, err)
			}
			if err := <-steered; err != nil {
				t.Fatal(err)
			}
			if got := texts(evs); !slices.Equal(got, c.said) {
				t.Errorf("said %q", got)
			}
			if n := strings.Count(s.Heard(), "MARK-OF-THE-STEER"); n != 1 {
				t.Errorf("the model was told %d times", n)
			}
			if err := steer(t, conv, "too late"); !errors.Is(err, backends.ErrTooLate) {
				t.Error(err)
			}
			finishes := 0
			for _, e := range evs {
				if m, ok := e.Data.(events.Message); ok && m.FinishReason != "" {
					finishes++
				}
			}
			if finishes != 1 {
				t.Errorf("%d messages are the last one", finishes)
			}
		})
	}
}

// TestSteerAtTheEnd steers at every moment around the end of a turn: each is
// either answered or too late, and none begins a turn of nobody's.
func TestSteerAtTheEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conv, s := b.open(t, backends.Config{})
	s.queue = []arranged{{turn: text("hello"), lasts: true}}
	taken := 0
	for i := range 12 {
		before := s.sc.Count()
		result := make(chan error, 1)
		evs, _, err := runWatching(t, conv, backends.Settings{}, events.TypeMessage, func(*watched) {
			go func() { // ends with the run at the latest
				time.Sleep(time.Duration(i) * time.Millisecond)
				result <- steer(t, conv, "more")
			}()
		})
		if err != nil {
			t.Fatal(err)
		}
		want := 1
		switch err := <-result; {
		case err == nil:
			want, taken = 2, taken+1
		case !errors.Is(err, backends.ErrTooLate):
			t.Error(err)
		}
		if got := texts(evs); len(got) != want {
			t.Errorf("%d: said %q, want %d", i, got, want)
		}
		if n := s.sc.Count() - before; n != want {
			t.Errorf("%d: the model was asked %d times, want %d", i, n, want)
		}
	}
	t.Logf("%d of 12 were in time", taken)
}

// TestSteerCanceled: what claude never took was too late.
func TestSteerCanceled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conv, s := b.open(t, backends.Config{}, modelstub.Say(modelstub.Text("I go on").Hang()))
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan error, 1)
	rec := backendtest.NewRecorder(backendtest.Turn{}, nil, nil)
	_, err := conv.Run(ctx, backends.Input{Parts: []events.Part{events.Text("Go.")}}, &watched{Host: rec, on: events.TypeMessageDelta, call: func() {
		go func() { result <- steer(t, conv, "more") }() // ends with the run at the latest
		go cancel(backends.ErrCanceled)
	}})
	rec.Close()
	if !errors.Is(err, backends.ErrCanceled) {
		t.Fatal(err)
	}
	if err := <-result; !errors.Is(err, backends.ErrTooLate) {
		t.Error(err)
	}
	if n := s.sc.Count(); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}
