package host

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// backoff is the pauses between tries of one thing: doubling, each a random
// time between half of it and the whole, so that many hosts of a server that
// came back don't arrive at once.
type backoff struct {
	min, max time.Duration
	n        int
}

func (b *backoff) reset() { b.n = 0 }

func (b *backoff) next() time.Duration {
	d := b.max
	if b.n < 30 {
		d = min(b.max, b.min<<b.n)
	}
	b.n++
	return d/2 + rand.N(d/2+1)
}

// wait pauses after err: as long as the server asked for, at least the next
// pause. It returns the cause of ctx when that ends first.
func (b *backoff) wait(ctx context.Context, err error) error {
	d := b.next()
	var e *Error
	if errors.As(err, &e) {
		d = max(d, min(e.RetryAfter, time.Minute))
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
