package adapter

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// light is up to how many bytes a body, or an answer, weighs nothing and never
// waits.
const light = 1 << 20

// scales bounds how many bytes of large bodies and answers are in memory at
// once: as many as one body may have. Read, decoded and answered, each takes
// several times its length for a while. The next ones wait, in the order of
// coming, before they are read or made. Its methods may be called at the same
// time.
type scales struct {
	most int64
	sem  *semaphore.Weighted
	slow *semaphore.Weighted // for answers whose callers take them slowly
	// patience is how long a body counts at most, without a break: one that comes
	// slowly lets the next ones in, and counts again when it is there.
	patience time.Duration
	drain    context.Context // ends the waits of what has not begun
	cut      context.Context // ends every wait
	log      *slog.Logger
	waiting  atomic.Int64 // how many wait for their turn
	over     atomic.Int64 // when the last large one was, Unix nanoseconds; 0: none yet
}

// longestPatience bounds scales.patience: one that sends nothing, or reads
// nothing, holds the next ones up for as long.
const longestPatience = 10 * time.Second

func newScales(most int64, patience time.Duration, drain, cut context.Context, log *slog.Logger) *scales {
	most = max(most, 1)
	return &scales{
		most: most, sem: semaphore.NewWeighted(most), slow: semaphore.NewWeighted(slowTimes * most),
		patience: min(patience, longestPatience), drain: drain, cut: cut, log: log,
	}
}

// done notes that something of so many bytes was read or written.
func (s *scales) done(bytes int64) {
	if bytes > light {
		s.over.Store(time.Now().UnixNano())
	}
}

// LastLarge is when the last large request or answer was over; zero if there
// was none: what it needed of memory is not needed any more.
func (s *Server) LastLarge() time.Time {
	at := s.scales.over.Load()
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, at)
}

// load is what a request has in memory, where its body or its answer is large.
// One goroutine at a time uses it; a nil *load weighs nothing.
type load struct {
	scales *scales
	weight int64    // of the body; 0: it weighs nothing
	counts *counted // nil: not now
	answer *answer  // nil: none that counts
	shared bool     // its connection has other requests, too
}

// counted is a weight that counts, until it is given back or for as long as one
// may.
type counted struct {
	scales *scales
	weight int64
	timer  *time.Timer
	once   sync.Once
	over   atomic.Bool
}

type loadKey struct{}

// weighed puts a request's body on the scales, if it may be large. leave is for
// the request's end.
func (s *Server) weighed(r *http.Request) (_ *http.Request, leave func()) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength >= 0 && r.ContentLength <= light {
		return r, func() {}
	}
	b := &weighedBody{ReadCloser: r.Body, free: light, load: load{scales: s.scales, weight: s.scales.most}}
	if r.ContentLength > 0 {
		b.free, b.load.weight = 0, min(r.ContentLength, s.scales.most)
	}
	r = r.WithContext(context.WithValue(r.Context(), loadKey{}, &b.load))
	b.ctx, r.Body = r.Context(), b
	return r, func() {
		b.load.put()
		s.scales.done(b.n)
	}
}

// PutDown says that nothing of a request's large body is used for now: its run
// has begun, and who waits for that shall keep nobody from theirs.
func PutDown(ctx context.Context) { loadOf(ctx).put() }

func loadOf(ctx context.Context) *load {
	if c, _ := ctx.Value(callerKey{}).(*caller); c != nil {
		return c.load
	}
	l, _ := ctx.Value(loadKey{}).(*load)
	return l
}

// take waits until the weight fits in, or ctx or cut ends.
func (l *load) take(ctx, cut context.Context) error {
	if l.weight == 0 || l.counting() {
		return nil
	}
	if err := l.scales.acquire(ctx, cut, l.weight); err != nil {
		return err
	}
	c := &counted{scales: l.scales, weight: l.weight}
	c.timer = time.AfterFunc(l.scales.patience, c.end) // stopped by put
	l.counts = c
	return nil
}

// acquire waits until a weight fits in, or ctx or cut ends.
func (s *scales) acquire(ctx, cut context.Context, weight int64) error {
	if s.sem.TryAcquire(weight) {
		return nil
	}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { untilHungUp(ctx, cancel) }) // ends with ctx
	defer watch.Wait()
	defer cancel(nil)
	defer context.AfterFunc(cut, func() { cancel(context.Cause(cut)) })()
	if s.sem.Acquire(ctx, weight) != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (l *load) counting() bool { return l.counts != nil && !l.counts.over.Load() }

// put gives the weight back, of body and answer, if it counts.
func (l *load) put() {
	if l == nil {
		return
	}
	if l.answer != nil {
		l.answer.put()
		l.answer = nil
	}
	if l.counts == nil {
		return
	}
	l.counts.timer.Stop()
	l.counts.end()
	l.counts = nil
}

func (c *counted) end() {
	c.once.Do(func() {
		c.over.Store(true)
		c.scales.sem.Release(c.weight)
	})
}

// weighedBody counts from the first byte that may be too many, until put.
type weighedBody struct {
	io.ReadCloser
	ctx    context.Context
	free   int64 // bytes that come before it counts
	packed bool  // it may be compressed
	n      int64
	load   load
}

// Read implements io.Reader. It waits before the body is read, and at its end
// once more where it came slowly: what it is decoded to is many times as much.
func (b *weighedBody) Read(p []byte) (int, error) {
	if b.n < b.free {
		p = p[:min(int64(len(p)), b.free-b.n)]
	} else if b.load.counts == nil {
		if err := b.take(); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	if errors.Is(err, io.EOF) {
		b.weigh()
		if b.load.counts != nil {
			if err := b.take(); err != nil {
				return n, err
			}
		}
	}
	return n, err
}

// weigh has a body that did not say how long it is weigh from here on what it is,
// where that is what it says.
func (b *weighedBody) weigh() {
	if b.packed {
		return
	}
	if b.n <= light {
		b.load.weight = 0
		return
	}
	b.load.weight = min(b.n, b.load.scales.most)
}

// take waits on nobody's time: the body's sender can do nothing meanwhile.
func (b *weighedBody) take() error {
	began := time.Now()
	err := b.load.take(b.ctx, b.load.scales.drain)
	if paced, ok := b.ReadCloser.(*pacedBody); ok {
		paced.waited(time.Since(began))
	}
	return err
}
