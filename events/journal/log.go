package journal

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"innerd/events"
)

// tailBytes is how much of one run is kept in memory for its readers.
const tailBytes = 8 << 20

// burst is how soon after the writer's last work an Append takes itself for
// part of a flood, and leaves the writing to a goroutine that gathers.
const burst = 5 * time.Microsecond

// calm is how long there was nothing to write before what is a first event, which
// its readers wait for.
const calm = time.Millisecond

// Log is the event log of one run. Its methods may be called at the same time.
type Log struct {
	s    *Store
	meta RunMeta
	dir  string // of its files; "" in memory only

	mu   sync.Mutex
	cond sync.Cond // writing, wait or ended changed

	next    int64    // id of the next event
	last    int64    // last visible
	chunks  []*chunk // consecutive, oldest first; the last takes new frames
	mem     int64    // bytes of chunks
	readers int
	cursors map[*Cursor]struct{} // those readers
	fresh   *tally               // counted, and not published yet
	wake    chan struct{}        // closed at the next publication; nil while nobody waits

	// Lines that gather for the writer, whoever that is: writing is a token,
	// and who holds it alone touches disk.
	stamp    stamp
	lines    []byte
	spare    []byte // the buffer that was written last, to be used again
	inflight int    // bytes that the writer has taken
	writing  bool
	wanted   int       // how many wait for the token
	rest     time.Time // when the writer's work ended
	disk     disk

	full      bool  // the disk took no more: lines wait for space
	cause     error // what it said
	failed    error // *StorageError, once the run must end
	damage    map[int64]struct{}
	ending    bool
	ended     bool
	end       RunEnd
	done      chan struct{}
	deleted   bool
	found     bool  // by Open, without an end
	volatile  bool  // its end is in memory only
	unwritten bool  // and no line in runs.jsonl may say that it has ended
	bytes     int64 // on disk, once ended
	asked     int64 // bytes of request.json; 0: not looked at yet

	request json.RawMessage // in memory only
	blobs   []memoryBlob    // in memory only

	loading sync.Mutex // one reader fetches from disk, the others find it
	fetched fetcher
}

func newLog(s *Store, meta RunMeta) *Log {
	l := &Log{s: s, meta: meta, next: 1, done: make(chan struct{})}
	l.cond.L = &l.mu
	if !s.volatile() {
		l.dir = filepath.Join(s.dir, "runs", meta.ID)
	}
	return l
}

// ID is the run's id.
func (l *Log) ID() string { return l.meta.ID }

// Meta is what the run began with, but for Request.
func (l *Log) Meta() RunMeta { return l.meta }

// Request is what was asked.
func (l *Log) Request() (json.RawMessage, error) {
	if l.dir == "" {
		return l.request, nil
	}
	return readRequest(l.s.fs, l.dir)
}

// Last is the id of the last visible event, 0 if there is none.
func (l *Log) Last() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Oldest is the id of the oldest event that can be read: 1, but in memory only.
func (l *Log) Oldest() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.oldestLocked()
}

func (l *Log) oldestLocked() int64 {
	if l.dir != "" {
		return 1
	}
	if len(l.chunks) == 0 {
		return l.next
	}
	return l.chunks[0].first
}

// Ended says how the run ended, if it did.
func (l *Log) Ended() (RunEnd, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end, l.ended
}

// Done is closed when the run has ended.
func (l *Log) Done() <-chan struct{} { return l.done }

var scratch = sync.Pool{New: func() any { return new([]byte) }}

const maxScratch = 256 << 10

// Append adds an event and returns its id. It becomes visible when the disk
// has taken it. Append waits while too much of the run is unwritten, never for
// a reader. ErrEnded after End; a *StorageError when the run must end. While
// the disk is full the id may yet grow by one.
func (l *Log) Append(d events.Data) (int64, error) {
	if deltaBound(d) >= 0 {
		return l.append(d, nil, 0)
	}
	buf := scratch.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= maxScratch {
			scratch.Put(buf)
		}
	}()
	if m, ok := d.(events.Message); ok && len(m.Content) > cap(*buf) { // at once, not by doubling
		*buf = make([]byte, 0, len(m.Content)+len(m.Content)/16+bytes.MinRead)
	}
	body, err := events.AppendLine((*buf)[:0], 0, 0, d)
	*buf = body
	if err != nil {
		return 0, err
	}
	if int64(len(body)) > l.s.opt.BlobBytes && !d.EventType().Basic() {
		body = l.cut(body, d)
	}
	return l.append(d, body, classOf(d.EventType()))
}

// append adds d, which is encoded as body unless it is a delta.
func (l *Log) append(d events.Data, body []byte, class uint8) (int64, error) {
	l.mu.Lock()
	if err := l.roomLocked(); err != nil {
		l.mu.Unlock()
		return 0, err
	}
	id, err := l.addLocked(d, body, class)
	if err != nil {
		l.mu.Unlock()
		return 0, err
	}
	if l.dir == "" {
		l.publishLocked(id)
		l.mu.Unlock()
		l.s.forget()
		return id, nil
	}
	first := l.startWriterLocked()
	l.mu.Unlock()
	if first && body == nil {
		runtime.Gosched() // a first delta is on its way before the agent's next line is read
	}
	return id, nil
}

// roomLocked waits until an event may be added.
func (l *Log) roomLocked() error {
	for {
		limit := l.s.opt.UnwrittenBytes
		if l.full {
			limit *= storageFactor
		}
		switch {
		case l.ending:
			return ErrEnded
		case l.s.closed.Load():
			return ErrClosed
		case l.failed != nil:
			return l.failed
		case int64(len(l.lines)+l.inflight) < limit:
			return nil
		case l.full:
			l.failed = &StorageError{Err: l.cause}
			return l.failed
		}
		l.cond.Wait()
	}
}

// deltaBound is how long the line of a delta can be at most, without id and
// time, or -1 for other types. Deltas are nearly all of a stream, and are
// encoded straight into the chunk.
func deltaBound(d events.Data) int {
	switch v := d.(type) {
	case events.MessageDelta:
		return 128 + 6*(len(v.Delta)+len(v.MessageID))
	case events.ReasoningDelta:
		return 256 + 6*(len(v.Delta)+len(v.ReasoningID))
	}
	return -1
}

// addLocked makes the frame and the line of an event.
func (l *Log) addLocked(d events.Data, body []byte, class uint8) (int64, error) {
	id := l.next
	// A run that ends holds the writer's token, one with a full disk may wait
	// with it for hours: neither is a flood.
	l.stamp.step(id, l.writing && !l.ending && !l.full, l.s.opt.Now)
	bound := len(body) + 40
	if body == nil {
		bound = deltaBound(d) + 40
	}
	c := l.tailLocked(bound + frameExtra)
	buf := append(c.buf, l.stamp.text...)
	start := len(c.buf) + l.stamp.line
	if body == nil {
		class = classDelta
		if _, ok := d.(events.ReasoningDelta); ok {
			class = classReason
		}
		comma := len(buf) - 1
		var err error
		if buf, err = events.AppendLine(buf[:comma], 0, 0, d); err != nil {
			return 0, err
		}
		buf[comma] = ',' // where AppendLine began its object
	} else {
		buf = append(buf, body[1:]...)
	}
	buf = append(buf, "\n\n"...)
	c.mark(buf, class)
	if l.dir != "" {
		l.lines = append(l.lines, buf[start:len(buf)-1]...)
	}
	l.next++
	l.countLocked(class)
	return id, nil
}

// stamp is how the last frame began, as text, since numbers are a good part of
// what a small event costs.
type stamp struct {
	n    int64 // its id
	ms   int64 // its time
	uses int
	text []byte // id: 17 LF data: {"id":17,"ts":1700000000000,
	head int    // where the first number ends
	line int    // where the line begins
}

// maxUses is how many events of a flood share one look at the clock. Where a
// write hangs, the few that come meanwhile may share one too, however far apart
// they are: how long ago it was says nothing but another look, and nobody sees
// them before that write is over.
const maxUses = 16

// step moves on to an id. While a flood is being written, the clock is looked
// at now and then only.
func (st *stamp) step(id int64, flood bool, now func() time.Time) {
	same := st.text != nil && id == st.n+1
	if st.uses++; !flood || st.uses > maxUses || st.text == nil {
		st.uses = 0
		ms := now().UnixMilli()
		same = same && ms == st.ms
		st.ms = ms
	}
	st.n = id
	if !same || !st.count() {
		st.write()
	}
}

// count adds one to both numbers where they stand; false: they need a digit
// more.
func (st *stamp) count() bool {
	a, b := st.head-1, st.line+len(lineHead)+st.head-len(framePrefix)-1
	for ; a >= len(framePrefix); a, b = a-1, b-1 {
		if c := st.text[a]; c < '9' {
			st.text[a], st.text[b] = c+1, c+1
			return true
		}
		st.text[a], st.text[b] = '0', '0'
	}
	return false
}

func (st *stamp) write() {
	b := strconv.AppendInt(append(st.text[:0], framePrefix...), st.n, 10)
	st.head = len(b)
	b = append(b, frameMiddle...)
	st.line = len(b)
	b = strconv.AppendInt(append(b, lineHead...), st.n, 10)
	b = strconv.AppendInt(append(b, `,"ts":`...), st.ms, 10)
	st.text = append(b, ',')
}

// tailLocked gives the chunk that has room for size bytes more.
func (l *Log) tailLocked(size int) *chunk {
	n := len(l.chunks)
	if n > 0 {
		if c := l.chunks[n-1]; cap(c.buf)-len(c.buf) >= size {
			return c
		}
	}
	if n > 0 { // chunks grow with the run
		grown := min(4*cap(l.chunks[n-1].buf), maxChunk)
		size = max(size, grown)
	}
	c := l.s.pool.get(size, l.next)
	l.chunks = append(l.chunks, c)
	l.mem += c.size
	return c
}

// publishLocked makes everything up to id visible.
func (l *Log) publishLocked(id int64) {
	if id <= l.last {
		return
	}
	l.last = id
	l.tellLocked()
	l.wakeLocked()
	limit := min(tailBytes, l.s.opt.MemoryBytes)
	if l.dir == "" {
		limit = l.s.opt.UnwrittenBytes * storageFactor
	}
	l.shrinkLocked(limit)
}

func (l *Log) wakeLocked() {
	if l.wake != nil {
		close(l.wake)
		l.wake = nil
	}
}

// shrinkLocked lets go of the oldest visible chunks beyond limit bytes.
func (l *Log) shrinkLocked(limit int64) {
	n := 0
	for n < len(l.chunks)-1 && l.mem > limit && l.chunks[n].last() <= l.last {
		l.mem -= l.chunks[n].size
		l.chunks[n].release()
		n++
	}
	if n == 0 {
		return
	}
	k := copy(l.chunks, l.chunks[n:])
	clear(l.chunks[k:])
	l.chunks = l.chunks[:k]
	if l.dir == "" {
		l.dropBlobsLocked(l.chunks[0].first)
	}
}

// releaseLocked lets go of all chunks. Everything must be visible.
func (l *Log) releaseLocked() {
	for i, c := range l.chunks {
		c.release()
		l.chunks[i] = nil
	}
	l.chunks, l.mem = nil, 0
}
