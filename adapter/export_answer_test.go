package adapter

import (
	"context"
	"log/slog"
	"time"
)

// Scales are those of a server, without one.
type Scales struct{ s *scales }

// NewScales lets in so many bytes.
func NewScales(most int64, patience time.Duration) Scales {
	ctx := context.Background()
	return Scales{newScales(most, patience, ctx, ctx, slog.New(slog.DiscardHandler))}
}

// Free reports whether nothing counts.
func (s Scales) Free() bool {
	if !s.s.sem.TryAcquire(s.s.most) {
		return false
	}
	s.s.sem.Release(s.s.most)
	return true
}

// Answer is a large answer that counts until put. queue says what its caller has not
// taken; nil: unknown.
func (s Scales) Answer(ctx context.Context, weight int64, queue func() (int, bool), cut func()) (put func(), err error) {
	if err := s.s.acquire(ctx, ctx, weight); err != nil {
		return nil, err
	}
	return s.s.answer(weight, queue, cut).put, nil
}

// BodyAndAnswer counts a body, then the answer to its request: how long that waits
// for its turn, and what counts then.
func (s Scales) BodyAndAnswer(ctx context.Context, body, answer int64) (waited time.Duration, counts int64, err error) {
	l := &load{scales: s.s, weight: body}
	if err := l.take(ctx, ctx); err != nil {
		return 0, 0, err
	}
	defer l.put()
	began := time.Now()
	if err := l.takeUp(ctx, answer, ctx); err != nil {
		return 0, 0, err
	}
	waited = time.Since(began)
	free := int64(0)
	for s.s.sem.TryAcquire(1 << 10) {
		free += 1 << 10
	}
	s.s.sem.Release(free)
	return waited, s.s.most - free, nil
}
