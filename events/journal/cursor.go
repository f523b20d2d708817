package journal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"sort"
	"time"

	"innerd/events"
)

// maxBatch is how many bytes of frames Next gives at once, but for a longer one.
const maxBatch = 256 << 10

// Filter says which types a reader wants; nil is all. It must always say the
// same of one type: it is asked once.
type Filter func(events.Type) bool

// Cursor is one reader's place in a log. Its methods must not be called at the
// same time. Close it.
type Cursor struct {
	l      *Log
	pos    int64 // last id that was given, or filtered out
	seen   int64 // the same for others, under the log's lock
	until  int64 // where a snapshot ends; 0: never
	end    int64 // last visible id when collect looked
	filter Filter
	known  uint64 // classes whose filter was asked
	denied uint64 // those it does not want

	pins   []*chunk
	views  []view
	pieces net.Buffers
	copied []byte
	closed bool
}

// view is a part of a chunk as it was when the lock was held.
type view struct {
	c      *chunk
	buf    []byte
	ends   []uint32
	class  []uint8
	mask   uint64
	lo, hi int // frames
}

func (v view) start(i int) int {
	if i == 0 {
		return 0
	}
	return int(v.ends[i-1])
}

// Batch is some frames of one log, in order.
type Batch struct {
	frames net.Buffers
	last   int64
	n      int
}

// Frames gives ready SSE frames, each piece some whole ones. They are valid,
// and must not be changed, until the next call of Next or Close.
func (b Batch) Frames() net.Buffers { return b.frames }

// Last is the last id that the batch covers, also where it was filtered out.
func (b Batch) Last() int64 { return b.last }

// Len is the number of frames.
func (b Batch) Len() int { return b.n }

// Lines gives the lines in the frames, valid as Frames.
func (b Batch) Lines() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, piece := range b.frames {
			for len(piece) > 0 {
				head := bytes.IndexByte(piece, '\n')
				piece = piece[head+len(frameMiddle):]
				n := bytes.IndexByte(piece, '\n')
				if !yield(piece[:n]) {
					return
				}
				piece = piece[n+2:]
			}
		}
	}
}

// Follow gives a cursor behind the event after. A *GoneError says that the
// next one is not kept any more, or that after is past the last.
func (l *Log) Follow(after int64, f Filter) (*Cursor, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	after = max(after, 0)
	if oldest := l.oldestLocked(); after > l.last || after+1 < oldest {
		return nil, &GoneError{Oldest: oldest, Latest: l.last}
	}
	l.readers++
	c := &Cursor{l: l, pos: after, seen: after, filter: f}
	if l.cursors == nil {
		l.cursors = map[*Cursor]struct{}{}
	}
	l.cursors[c] = struct{}{}
	return c, nil
}

// Close lets go of what the cursor holds.
func (c *Cursor) Close() {
	if c.closed {
		return
	}
	c.closed = true
	c.release()
	c.copied = nil
	c.l.leave(c)
}

func (c *Cursor) release() {
	for i, p := range c.pins {
		p.release()
		c.pins[i] = nil
	}
	c.pins = c.pins[:0]
	clear(c.views)
	c.views = c.views[:0]
}

// leave is the end of a reader. The last one of an ended run takes its frames
// along; of a deleted run, its files.
func (l *Log) leave(c *Cursor) {
	l.mu.Lock()
	l.readers--
	if delete(l.cursors, c); l.readers == 0 {
		l.cursors = nil
	}
	last := l.readers == 0
	remove := last && l.deleted
	if last && l.ended && l.dir != "" && !l.volatile {
		l.releaseLocked()
		l.s.forgetFrames(l)
	}
	l.mu.Unlock()
	if last {
		l.closeFetcher()
	}
	if remove {
		l.s.removeFiles(l)
	}
}

var errCursorClosed = errors.New("journal: the cursor is closed")

// Next waits until something is visible that the filter wants, and gives as
// much of it as fits into a batch. io.EOF after the last event of an ended
// run; otherwise the cause of ctx, a *GoneError, or an error of the disk.
func (c *Cursor) Next(ctx context.Context) (Batch, error) {
	if c.closed {
		return Batch{}, errCursorClosed
	}
	c.release()
	c.pieces, c.copied = c.pieces[:0], c.copied[:0]
	if cap(c.copied) > 2*maxBatch {
		c.copied = nil
	}
	for {
		behind, err := c.collect(ctx)
		if err != nil {
			return Batch{}, err
		}
		if behind {
			if err := c.fetchSoon(ctx); err != nil {
				return Batch{}, err
			}
		}
		b := c.build()
		if b.n > 0 {
			return b, nil
		}
		c.release()
		if c.pos < c.end && ctx.Err() != nil { // much may be there that the filter does not want
			return Batch{}, context.Cause(ctx)
		}
	}
}

// collect waits and takes views of what is in memory; behind: it is not.
func (c *Cursor) collect(ctx context.Context) (behind bool, err error) {
	l := c.l
	l.mu.Lock()
	c.seen = c.pos
	for {
		if c.until > 0 && c.pos >= c.until {
			l.mu.Unlock()
			return false, io.EOF
		}
		if c.pos < l.last {
			break
		}
		if l.ended {
			l.mu.Unlock()
			return false, io.EOF
		}
		if l.s.closed.Load() {
			l.mu.Unlock()
			return false, ErrClosed
		}
		if l.wake == nil {
			l.wake = make(chan struct{})
		}
		wake := l.wake
		l.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	return c.viewLocked()
}

func (c *Cursor) viewLocked() (behind bool, err error) {
	l := c.l
	end := l.last
	if c.until > 0 {
		end = min(end, c.until)
	}
	c.end = end
	if len(l.chunks) == 0 || l.chunks[0].first > c.pos+1 {
		if l.dir == "" {
			return false, &GoneError{Oldest: l.oldestLocked(), Latest: l.last}
		}
		return true, nil
	}
	i := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].first > c.pos+1 }) - 1
	room, pos := maxBatch, c.pos
	for ; i < len(l.chunks) && pos < end && room > 0; i++ {
		v := viewOf(l.chunks[i], pos+1, end, room, pos == c.pos)
		if v.hi == v.lo {
			break
		}
		l.chunks[i].retain()
		c.pins = append(c.pins, v.c)
		c.views = append(c.views, v)
		pos = v.c.first + int64(v.hi) - 1
		room -= v.start(v.hi) - v.start(v.lo)
		if v.hi < len(v.ends) {
			break
		}
	}
	return false, nil
}

// viewOf takes the frames from id from to id to of a chunk, as many as fit
// into room bytes, but one at least if must.
func viewOf(ch *chunk, from, to int64, room int, must bool) view {
	v := view{c: ch, buf: ch.buf, ends: ch.ends, class: ch.class, mask: ch.mask}
	v.lo = int(from - ch.first)
	v.hi = int(min(to, ch.last()) - ch.first + 1)
	limit := v.start(v.lo) + room
	if v.start(v.hi) > limit {
		fit := sort.Search(v.hi-v.lo, func(i int) bool { return int(v.ends[v.lo+i]) > limit })
		if fit == 0 && must {
			fit = 1
		}
		v.hi = v.lo + fit
	}
	return v
}

// A reader that can't open a file, because no descriptor is left, tries again
// so often, and gives up after so long: more than a heartbeat, at which its
// stream comes here anew, so that a stream waits for as long as it takes.
const (
	descriptorRetry = 50 * time.Millisecond
	descriptorWait  = 30 * time.Second
)

// fetchSoon fetches, and waits where that takes a descriptor and none is left:
// who is behind is no worse off than those who read from memory.
func (c *Cursor) fetchSoon(ctx context.Context) error {
	var retry *time.Timer
	for since := time.Now(); ; {
		err := c.fetch()
		if err == nil || !outOfFiles(err) || time.Since(since) > descriptorWait {
			return err
		}
		if retry == nil {
			retry = time.NewTimer(descriptorRetry)
			defer retry.Stop()
		} else {
			retry.Reset(descriptorRetry)
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if c.l.s.closed.Load() {
			return ErrClosed
		}
	}
}

// fetch takes a view of a chunk that is read from disk.
func (c *Cursor) fetch() error {
	ch, err := c.l.fetch(c.pos + 1)
	if err != nil {
		return err
	}
	c.pins = append(c.pins, ch)
	c.views = append(c.views, viewOf(ch, c.pos+1, c.end, maxBatch, true))
	return nil
}

// build makes a batch of the views, and moves on.
func (c *Cursor) build() Batch {
	b := Batch{}
	for _, v := range c.views {
		b.n += c.filterView(v)
		c.pos = v.c.first + int64(v.hi) - 1
	}
	b.frames, b.last = c.pieces, c.pos
	return b
}

// filterView adds the frames that are wanted, as they lie in memory if all
// are, else copied, and counts them.
func (c *Cursor) filterView(v view) int {
	if c.wantsAll(v) {
		c.pieces = append(c.pieces, v.buf[v.start(v.lo):v.start(v.hi)])
		return v.hi - v.lo
	}
	n, from := 0, len(c.copied)
	for i := v.lo; i < v.hi; i++ {
		frame := v.buf[v.start(i):v.ends[i]]
		if c.wants(v.class[i], frame) {
			c.copied = append(c.copied, frame...)
			n++
		}
	}
	if n > 0 {
		c.pieces = append(c.pieces, c.copied[from:len(c.copied):len(c.copied)])
	}
	return n
}

func (c *Cursor) wantsAll(v view) bool {
	if c.filter == nil {
		return true
	}
	c.learn(v.mask)
	bad := c.denied | 1<<classOther
	if v.mask&bad == 0 {
		return true
	}
	for _, k := range v.class[v.lo:v.hi] {
		if bad>>k&1 != 0 {
			return false
		}
	}
	return true
}

// learn asks the filter for the classes of mask that it was not asked for.
func (c *Cursor) learn(mask uint64) {
	fresh := mask &^ c.known
	if fresh == 0 {
		return
	}
	for k, t := range classTypes {
		if fresh>>k&1 != 0 && !c.filter(t) {
			c.denied |= 1 << k
		}
	}
	c.known |= fresh
}

func (c *Cursor) wants(class uint8, frame []byte) bool {
	if class != classOther {
		return c.denied>>class&1 == 0
	}
	line := frame[bytes.IndexByte(frame, '\n')+len(frameMiddle):]
	return c.filter(events.Type(events.LineType(line)))
}
