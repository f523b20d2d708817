package adapter

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"innerd/runs"
)

// slowTimes is how many times what scales.most lets in may wait for callers
// that take slowly: all of an answer is in memory until it is taken.
const slowTimes = 2

// TakeUp counts an answer of about so many bytes, before it is made, until
// PutDown, or the request's end. It waits for its turn, unless the request's
// body has it, and fails with what ended ctx. A body that weighs less does not
// count any more: who waited for what it holds itself would wait for ever.
//
// A caller that takes nothing of it for scales.patience is hung up on when others
// wait. One that takes slowly lets the next ones in then, as long as there are
// not too many of those.
func TakeUp(ctx context.Context, bytes int64) error {
	l := loadOf(ctx)
	if l == nil {
		return nil
	}
	return l.takeUp(ctx, bytes, l.scales.cut)
}

func (l *load) takeUp(ctx context.Context, bytes int64, cut context.Context) error {
	if bytes <= light {
		return nil
	}
	weight := min(bytes, l.scales.most)
	if !l.goesOn(weight) {
		l.put()
		if err := l.scales.acquire(ctx, cut, weight); err != nil {
			return err
		}
	}
	queue := queueOf(ctx)
	if l.shared {
		queue = nil // what is seen of the connection says nothing of this answer
	}
	l.answer = l.scales.answer(weight, queue, func() { hangUp(ctx) })
	return nil
}

// goesOn keeps of the weight of a body what its answer has, if it still counts.
func (l *load) goesOn(weight int64) bool {
	c := l.counts
	if c == nil || c.weight < weight || !c.timer.Stop() {
		return false
	}
	l.scales.sem.Release(c.weight - weight)
	l.counts = nil
	return true
}

// answer is a large answer that counts.
type answer struct {
	scales *scales
	weight int64
	queue  func() (int, bool) // what the caller has not taken yet
	cut    func()

	timer  *time.Timer
	mu     sync.Mutex // guards what follows
	over   bool
	slow   bool      // it counts among the slow ones
	left   int       // in the queue at the last look
	moved  time.Time // when that was last seen to change
	behind time.Time // since when the caller has something to take
}

// answer is one whose weight was acquired.
func (s *scales) answer(weight int64, queue func() (int, bool), cut func()) *answer {
	if queue == nil {
		queue = func() (int, bool) { return 0, false }
	}
	now := time.Now()
	a := &answer{scales: s, weight: weight, queue: queue, cut: cut, moved: now, behind: now}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = time.AfterFunc(a.step(), a.look) // stopped by put
	return a
}

// step is how often a caller is looked at.
func (a *answer) step() time.Duration { return max(a.scales.patience/16, time.Millisecond) }

// look sees what the caller has taken. While it has all that there is, the
// answer is in the making, and takes as long as it takes.
func (a *answer) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	now := time.Now()
	n, known := a.queue()
	if known && (n == 0 || a.left > 0 && n != a.left) {
		a.moved = now
	}
	if known && n == 0 && !a.slow {
		a.behind = now
	}
	a.left = n
	late, stood := now.Sub(a.behind) >= a.scales.patience, now.Sub(a.moved)
	switch takes := stood < a.scales.patience/2; {
	case !known:
		if late { // as of a body
			a.endLocked()
			return
		}
	case stood >= a.scales.patience && a.scales.waiting.Load() > 0:
		a.giveUp("its caller takes nothing of it, and others wait")
		return
	case late && takes && !a.slow && !a.slowlyLocked():
		a.giveUp("its caller takes it slowly, as too many others do")
		return
	}
	a.timer.Reset(a.step())
}

// giveUp hangs up on the caller. The answer counts until what holds it has seen
// that.
func (a *answer) giveUp(why string) {
	a.scales.log.Info("answer cut", "reason", why, "bytes", a.weight, "untaken", a.left)
	a.cut()
}

// slowlyLocked lets the next ones in, if there is room for one more that takes
// slowly.
func (a *answer) slowlyLocked() bool {
	if !a.scales.slow.TryAcquire(a.weight) {
		return false
	}
	a.scales.sem.Release(a.weight)
	a.slow = true
	return true
}

func (a *answer) put() {
	a.timer.Stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endLocked()
}

func (a *answer) endLocked() {
	switch {
	case a.over:
	case a.slow:
		a.scales.slow.Release(a.weight)
	default:
		a.scales.sem.Release(a.weight)
	}
	a.over = true
}

// answerRead answers with a run's task a caller that has only asked for it.
func (s *Server) answerRead(c *gin.Context, run Run) error {
	return s.answerTask(c, run, s.draining, false)
}

// answerDone answers with a run's task a caller that has done something, which
// is told so also when the server stops. canceling: a cancel is on its way.
func (s *Server) answerDone(c *gin.Context, run Run, canceling bool) error {
	return s.answerTask(c, run, s.ctx, canceling)
}

// answerTask answers with a run's task. A large one waits for its turn before
// it is made, at the latest until the end of until.
func (s *Server) answerTask(c *gin.Context, run Run, until context.Context, canceling bool) error {
	ctx := c.Request.Context()
	if bytes := run.Weight(); bytes > light {
		if err := loadOf(ctx).takeUp(ctx, bytes, until); err != nil {
			return notTaken(err)
		}
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	}
	t, err := run.TaskFor(ctx)
	if ctx.Err() != nil {
		return notTaken(context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	t.Canceling = t.Canceling || canceling
	writeJSON(c.Writer, http.StatusOK, taskOf(t))
	return nil
}

// notTaken is the error of an answer that is not made any more. Mostly nobody
// is there to read one, or there is no time to.
func notTaken(err error) error {
	if errors.Is(err, runs.ErrDraining) {
		return err
	}
	panic(http.ErrAbortHandler)
}
