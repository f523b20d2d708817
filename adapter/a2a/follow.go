package a2a

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"innerd/adapter/apart"
	"innerd/events"
	"innerd/events/journal"
	"innerd/runs"
)

const (
	// pieceEvery is between two frames of one text: below 25 a second, the
	// last one included.
	pieceEvery = 42 * time.Millisecond
	// maxHeld is how much text waits for its time: clients take events of
	// 4 MiB, and a character may become six bytes.
	maxHeld = 512 << 10
)

// errTick is what next returns when its time is over.
var errTick = errors.New("time for something else")

// follower reads a run's log and gives its updates at its own pace: nobody
// waits for it. One goroutine uses it; close it.
type follower struct {
	run    *runs.Run
	cursor *journal.Cursor
	t      *translator

	queue []update // ready
	held  []*heldPiece
	bytes int                  // of held
	shown map[string]time.Time // when a text's last frame was
	ended bool
}

// heldPiece is text that waits for its time.
type heldPiece struct {
	piece
	id   int64
	text []byte
}

// follow begins behind the event that the translator has seen last.
func follow(run *runs.Run, t *translator, after int64, filter journal.Filter) (*follower, error) {
	cursor, err := run.Log().Follow(after, filter)
	if err != nil {
		return nil, err
	}
	f := &follower{run: run, cursor: cursor, t: t}
	f.addAll(t.settle(f.pending))
	return f, nil
}

func (f *follower) close() { f.cursor.Close() }

func (f *follower) pending(id string) bool {
	for _, p := range f.run.Pending() {
		if p.ID == id {
			return true
		}
	}
	return false
}

// next gives the next update: at once where one is there, else when one comes;
// errTick at a time, io.EOF after the last, the cause of ctx.
func (f *follower) next(ctx context.Context, until time.Time) (update, error) {
	for {
		if len(f.queue) > 0 {
			u := f.queue[0]
			f.queue = f.queue[1:]
			return u, nil
		}
		if f.ended {
			return update{}, io.EOF
		}
		due := f.due()
		if len(f.held) > 0 && !time.Now().Before(due) {
			f.flush()
			continue
		}
		wake := until
		if len(f.held) > 0 && (until.IsZero() || due.Before(until)) {
			wake = due
		}
		err := f.read(ctx, wake)
		if errors.Is(err, errTick) && len(f.held) > 0 && !time.Now().Before(due) {
			continue
		}
		if err != nil {
			return update{}, err
		}
	}
}

// ready reports whether next has something without waiting.
func (f *follower) ready() bool { return len(f.queue) > 0 }

// read takes what the log has, or waits for it until a time.
func (f *follower) read(ctx context.Context, until time.Time) error {
	if !until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, until, errTick)
		defer cancel()
	}
	b, err := f.cursor.Next(ctx)
	if errors.Is(err, io.EOF) {
		f.flush()
		f.ended = true
		return nil
	}
	if err != nil {
		return err
	}
	apart.Do(func() { err = f.take(b) })
	if err != nil {
		return err
	}
	if b.Last() == f.run.Log().Last() {
		f.addAll(f.t.settle(f.pending))
	}
	return nil
}

// take translates a batch.
func (f *follower) take(b journal.Batch) (err error) {
	for line := range b.Lines() {
		e, ok := events.ParseDelta(line) // without Raw, of which nothing is made here
		if !ok {
			if e, err = events.ParseLine(line); err != nil {
				return err
			}
		}
		f.addAll(f.t.event(e))
	}
	return nil
}

func (f *follower) addAll(list []update) {
	for _, u := range list {
		f.add(u)
	}
}

// add puts an update in its place: text waits for its time, if some of it was
// shown just before; anything else comes after all text before it.
func (f *follower) add(u update) {
	switch {
	case u.said != nil:
		return
	case u.piece == nil:
		f.flush()
		f.queue = append(f.queue, u)
		return
	}
	if f.bytes > 0 && f.bytes+len(u.piece.text) > maxHeld {
		f.flush()
	}
	f.hold(u)
	if _, again := f.shown[u.piece.key]; !again || u.piece.last {
		f.flush()
	}
	if u.piece.last {
		delete(f.shown, u.piece.key)
	}
}

func (f *follower) hold(u update) {
	p := u.piece
	var h *heldPiece
	for _, have := range f.held {
		if have.key == p.key {
			h = have
		}
	}
	if h == nil {
		h = &heldPiece{piece: *p}
		h.last = false
		f.held = append(f.held, h)
	}
	h.id, h.make = u.id, p.make
	h.text = append(h.text, p.text...)
	h.last = h.last || p.last
	f.bytes += len(p.text)
}

// due is when the text that is held may be shown.
func (f *follower) due() (at time.Time) {
	for _, h := range f.held {
		if t := f.shown[h.key].Add(pieceEvery); at.IsZero() || t.Before(at) {
			at = t
		}
	}
	return at
}

// flush shows all text that is held: one text alone would leave the ids of the
// others behind.
func (f *follower) flush() {
	if len(f.held) == 0 {
		return
	}
	if f.shown == nil {
		f.shown = map[string]time.Time{}
	}
	now, covered := time.Now(), int64(0)
	for _, h := range f.held {
		covered = max(covered, h.id)
	}
	// Text of the answer comes last: its frame alone says how far the log is
	// covered, and what is not said twice may not be added twice.
	slices.SortStableFunc(f.held, func(a, b *heldPiece) int { return cmp.Compare(a.rank(), b.rank()) })
	for i, h := range f.held {
		f.shown[h.key] = now
		u := h.make(string(h.text), h.first, h.last)
		if u.id = 0; i == len(f.held)-1 {
			u.id = covered
		}
		f.queue = append(f.queue, u)
	}
	f.held, f.bytes = f.held[:0], 0
}

func (h *heldPiece) rank() int {
	if strings.HasPrefix(h.key, artifactKey) {
		return 1
	}
	return 0
}
