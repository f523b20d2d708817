package adapter

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// maxPiece bounds what is written under one look at the clock.
	maxPiece = 256 << 10
	// slowPiece is that bound for a reader that took longer than slowWrite for
	// the piece before, so that small steps of a slow reader count as progress.
	slowPiece = 16 << 10
	slowWrite = time.Second
	// joinBelow is the size up to which slices are copied together: below it a
	// copy is cheaper than a write.
	joinBelow = 32 << 10
)

// pieceWriter writes a response in pieces and cuts a reader that takes nothing
// for too long. The deadline is not set before a write but by a timer that
// looks at it: a write that failed once cannot be resumed, and whether a
// reader may stand still can change while it does.
//
// One goroutine uses it; close before the handler returns.
type pieceWriter struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	limit  time.Duration      // without progress
	excuse func() bool        // true: standing still is allowed; nil: never
	queue  func() (int, bool) // what the reader has not taken yet; nil: unknown

	piece int   // size of the next one
	n     int64 // bytes that were written

	timer *time.Timer
	mu    sync.Mutex // guards what follows, and keeps the timer off a response that is over
	busy  bool
	since time.Time // of the last progress, or the last excuse
	left  int       // in the queue at the last look
	cut   bool
}

func newPieceWriter(w http.ResponseWriter, r *http.Request, limit time.Duration, excuse func() bool) *pieceWriter {
	p := &pieceWriter{
		w: w, rc: http.NewResponseController(w), limit: limit, excuse: excuse, queue: queueOf(r.Context()), piece: maxPiece,
	}
	p.timer = time.AfterFunc(time.Hour, p.look) // stopped by close
	p.timer.Stop()
	return p
}

// step is how often a write that hangs is looked at. It is a small part of the
// limit, so that a reader whose excuse ends has nearly all of the limit left.
func (p *pieceWriter) step() time.Duration { return max(p.limit/16, time.Millisecond) }

// look runs while a write is on.
func (p *pieceWriter) look() {
	excused := p.excuse != nil && p.excuse()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case !p.busy:
		return
	case excused || p.movedLocked():
		p.since = now
	case now.Sub(p.since) >= p.limit:
		p.cut = true
		_ = p.rc.SetWriteDeadline(time.Unix(1, 0)) // ends the write
		return
	}
	p.timer.Reset(p.step())
}

// movedLocked reports whether the reader took something since the last look.
func (p *pieceWriter) movedLocked() bool {
	if p.queue == nil {
		return false
	}
	n, ok := p.queue()
	moved := ok && p.left >= 0 && n != p.left
	p.left = n
	return moved
}

func (p *pieceWriter) begin() time.Time {
	now := time.Now()
	p.mu.Lock()
	p.busy, p.since, p.left = true, now, -1
	p.mu.Unlock()
	p.timer.Reset(p.step())
	return now
}

// end says whether the write was cut.
func (p *pieceWriter) end(began time.Time, err error) error {
	p.timer.Stop()
	p.mu.Lock()
	p.busy = false
	cut := p.cut
	p.mu.Unlock()
	switch took := time.Since(began); {
	case took > slowWrite:
		p.piece = slowPiece
	case p.piece < maxPiece:
		p.piece = min(2*p.piece, maxPiece)
	}
	if cut || err != nil && os.IsTimeout(err) {
		return fmt.Errorf("the reader took nothing for %v: %w", p.limit, os.ErrDeadlineExceeded)
	}
	return err
}

// close lets the timer never touch the connection again.
func (p *pieceWriter) close() {
	p.timer.Stop()
	p.mu.Lock()
	p.busy = false
	p.mu.Unlock()
}

// write writes all of b in pieces.
func (p *pieceWriter) write(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), p.piece)
		began := p.begin()
		_, err := p.w.Write(b[:n])
		p.n += int64(n)
		if err := p.end(began, err); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// joined are buffers for small slices. A writer has one while it writes: most
// of them wait for most of their lives.
var joined = sync.Pool{New: func() any { return new([]byte) }}

// writeAll writes slices: small ones joined, large ones as they are.
func (p *pieceWriter) writeAll(bufs [][]byte) error {
	if len(bufs) == 1 {
		return p.write(bufs[0])
	}
	scratch := joined.Get().(*[]byte)
	small := (*scratch)[:0]
	defer func() {
		*scratch = small
		joined.Put(scratch)
	}()
	for _, b := range bufs {
		if len(b) < joinBelow && len(small)+len(b) <= maxPiece {
			small = append(small, b...)
			continue
		}
		if err := p.write(small); err != nil {
			return err
		}
		small = small[:0]
		if len(b) < joinBelow {
			small = append(small, b...)
			continue
		}
		if err := p.write(b); err != nil {
			return err
		}
	}
	return p.write(small)
}

// flush sends what the server still holds back.
func (p *pieceWriter) flush() error {
	began := p.begin()
	return p.end(began, p.rc.Flush())
}
