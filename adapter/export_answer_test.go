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
