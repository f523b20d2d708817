package backendtest

import (
	"context"
	"testing"

	"innerd/backends"
)

// closer is a conversation that keeps how it was closed.
type closer struct {
	backends.Conversation
	done   chan struct{}
	closed []error // of the context that it was closed with
}

func (c *closer) Done() <-chan struct{} { return c.done }

func (c *closer) Close(ctx context.Context) error {
	c.closed = append(c.closed, ctx.Err())
	close(c.done)
	return nil
}

// seatOf is a seat that does nothing.
type seatOf struct{ Seat }

// TestKeptIsClosedInTime: a conversation that is kept until all cases have ended
// has time to end then, when testing has canceled their context.
func TestKeptIsClosedInTime(t *testing.T) {
	conv := &closer{done: make(chan struct{})}
	t.Run("cases", func(t *testing.T) {
		r := &reuse{t: t}
		p := r.take(t, &shared{rig: Rig{Seat: func(testing.TB, Case) Seat { return seatOf{} }}, t: t}, Case{Name: "one"})
		p.conv = conv
		r.keep(p)
	})
	if len(conv.closed) != 1 || conv.closed[0] != nil {
		t.Errorf("closed with %v", conv.closed)
	}
}

// TestHeardIsProvenAnew: a case whose model must be told something is played
// where it was not told that before.
func TestHeardIsProvenAnew(t *testing.T) {
	r := &reuse{t: t}
	s := &shared{rig: Rig{Seat: func(testing.TB, Case) Seat { return seatOf{} }}, t: t}
	play := func(turn Turn) *player {
		p := r.take(t, s, Case{Turns: []Turn{turn}})
		p.conv = &closer{done: make(chan struct{})}
		r.keep(p)
		return p
	}
	first := play(Turn{Prompt: "a \"word\"", Want: Want{Heard: []string{"other"}}})
	if play(Turn{Want: Want{Heard: []string{"new"}}}) != first {
		t.Error("a conversation that was told nothing of it is not used")
	}
	for _, heard := range []string{`a "word"`, "other", "new"} {
		if play(Turn{Want: Want{Heard: []string{heard}}}) == first {
			t.Errorf("%q was told before", heard)
		}
	}
}
