package adapter_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"innerd/adapter"
)

// taker is a caller of a large answer, in virtual time.
type taker struct {
	left  atomic.Int64 // that it has not taken
	takes atomic.Bool  // it takes some whenever it is looked at
	cut   atomic.Bool
	put   func()
}

func (c *taker) queue() (int, bool) {
	if c.takes.Load() {
		c.left.Add(-1)
	}
	return int(c.left.Load()), true
}

const (
	scaleMost     = 100
	scalePatience = 10 * time.Second
	scaleLook     = time.Second // above the time between two looks
)

// answer counts an answer that has all of the scales.
func answer(t *testing.T, s adapter.Scales, left int64, takes bool) *taker {
	t.Helper()
	c := &taker{}
	c.left.Store(left)
	c.takes.Store(takes)
	put, err := s.Answer(t.Context(), scaleMost, c.queue, func() { c.cut.Store(true) })
	if err != nil {
		t.Fatal(err)
	}
	c.put = put
	t.Cleanup(put)
	return c
}

// An answer counts for as long as it is made, and until it is written.
func TestAnAnswerCountsWhileItIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := adapter.NewScales(scaleMost, scalePatience)
		c := answer(t, s, 0, false)
		time.Sleep(time.Hour)
		if s.Free() || c.cut.Load() {
			t.Error("it does not count any more, or its caller is cut")
		}
		c.put()
		if !s.Free() {
			t.Error("it counts on")
		}
	})
}

// waiter waits for all of the scales until the test ends, or has its turn.
func waiter(t *testing.T, s adapter.Scales) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { // ends with its turn, or with ctx
		if put, err := s.Answer(ctx, scaleMost, nil, nil); err == nil {
			put()
		}
	}()
	synctest.Wait()
}

// A caller may take a large answer as late as it likes, while it keeps nobody
// from theirs.
func TestWhoTakesNothingHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := adapter.NewScales(scaleMost, scalePatience)
		c := answer(t, s, 1000, false)
		time.Sleep(time.Minute)
		if c.cut.Load() || s.Free() {
			t.Errorf("cut %v, and its memory counts no more: %v", c.cut.Load(), s.Free())
		}
		waiter(t, s)
		time.Sleep(scaleLook)
		if !c.cut.Load() {
			t.Error("it holds another one up")
		}
	})
}

func TestWhoTakesNothingIsCutInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := adapter.NewScales(scaleMost, scalePatience)
		c := answer(t, s, 0, false)
		waiter(t, s)
		time.Sleep(time.Minute) // in the making
		c.left.Store(1000)
		time.Sleep(scalePatience - scaleLook)
		if c.cut.Load() {
			t.Error("cut too early")
		}
		time.Sleep(2 * scaleLook)
		if !c.cut.Load() || s.Free() {
			t.Errorf("cut %v, and its memory counts no more: %v", c.cut.Load(), s.Free())
		}
		c.put()
		synctest.Wait()
		if !s.Free() {
			t.Error("it counts on")
		}
	})
}

// Who takes slowly lets the next ones in, until there are too many of them.
func TestSlowCallersOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := adapter.NewScales(scaleMost, scalePatience)
		var slow []*taker
		for range 2 {
			slow = append(slow, answer(t, s, 1<<40, true))
			time.Sleep(scalePatience + scaleLook)
			if !s.Free() {
				t.Fatal("it holds the next ones up")
			}
		}
		third := answer(t, s, 1<<40, true)
		time.Sleep(scalePatience + scaleLook)
		if !third.cut.Load() || slow[0].cut.Load() || slow[1].cut.Load() {
			t.Errorf("cut: %v %v %v", slow[0].cut.Load(), slow[1].cut.Load(), third.cut.Load())
		}
		third.put()
		slow[0].put() // has it all
		fourth := answer(t, s, 1<<40, true)
		time.Sleep(scalePatience + scaleLook)
		if fourth.cut.Load() || !s.Free() {
			t.Error("there is room for it")
		}
		last := answer(t, s, 0, false) // in the making
		waiter(t, s)
		slow[1].takes.Store(false) // stands still
		time.Sleep(scalePatience + scaleLook)
		if !slow[1].cut.Load() || fourth.cut.Load() || last.cut.Load() {
			t.Error("who stands still is not cut, or another is")
		}
	})
}

// Where nobody can tell what a caller has taken it is as with bodies.
func TestUnseenCallersOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := adapter.NewScales(scaleMost, scalePatience)
		put, err := s.Answer(t.Context(), scaleMost, nil, func() { t.Error("cut") })
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(scalePatience - scaleLook)
		if s.Free() {
			t.Error("it counts for too short")
		}
		time.Sleep(2 * scaleLook)
		if !s.Free() {
			t.Error("it counts on")
		}
		put()
		if !s.Free() {
			t.Error("it is given back twice, or not at all")
		}
	})
}

// An answer does not wait for what the body of its own request holds.
func TestAnAnswerDoesNotWaitForItsBody(t *testing.T) {
	const most = 4 << 20
	for _, c := range []struct{ body, answer, counts int64 }{
		{3 << 20, 3 << 20, 3 << 20}, // together too much
		{2 << 20, 64 << 20, most},   // more than the body, and than all
		{most, 2 << 20, 2 << 20},    // less: the rest is given back
		{most, 1 << 20, most},       // small: the body counts on
		{0, 2 << 20, 2 << 20},       // no large body
	} {
		synctest.Test(t, func(t *testing.T) {
			s := adapter.NewScales(most, scalePatience)
			waited, counts, err := s.BodyAndAnswer(t.Context(), c.body, c.answer)
			if err != nil || waited > 0 || counts != c.counts {
				t.Errorf("%+v: it waited %v, and %d count, %v", c, waited, counts, err)
			}
			if !s.Free() {
				t.Errorf("%+v: it counts on", c)
			}
		})
	}
}
