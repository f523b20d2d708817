package journal

import (
	"bytes"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"innerd/events"
)

// Sizes of chunks: a run begins with a small one, so that a thousand idle
// runs cost little, and a flood reaches the large one soon.
var chunkSizes = [...]int{4 << 10, 16 << 10, 64 << 10, 256 << 10}

const maxChunk = 256 << 10

// chunk is a piece of a log in memory: ready frames of consecutive ids, shared
// by all readers. Bytes and index only grow; what a reader took a view of never
// changes. It is recycled when the log and every reader have let it go.
type chunk struct {
	first int64    // id of the first frame
	buf   []byte   // frames
	ends  []uint32 // end of frame i in buf
	class []uint8  // class of the type of frame i
	mask  uint64   // classes that occur
	refs  atomic.Int32
	size  int64 // bytes accounted for
	pool  *chunkPool
}

func (c *chunk) last() int64 { return c.first + int64(len(c.ends)) - 1 }

// mark ends a frame that was appended to buf.
func (c *chunk) mark(buf []byte, class uint8) {
	c.buf = buf
	c.ends = append(c.ends, uint32(len(buf)))
	c.class = append(c.class, class)
	c.mask |= 1 << class
}

// start is where frame i begins.
func (c *chunk) start(i int) int {
	if i == 0 {
		return 0
	}
	return int(c.ends[i-1])
}

// truncate drops the frames from i on. Nobody may have seen them.
func (c *chunk) truncate(i int) {
	c.buf = c.buf[:c.start(i)]
	c.ends = c.ends[:i]
	c.class = c.class[:i]
}

func (c *chunk) retain() { c.refs.Add(1) }

func (c *chunk) release() {
	if c.refs.Add(-1) == 0 {
		c.pool.put(c)
	}
}

// chunkPool recycles the chunks of a Store and counts what is in use.
type chunkPool struct {
	used atomic.Int64
	mu   sync.Mutex
	free [len(chunkSizes)][]*chunk
	// least is how many of free there were at least since the last trim.
	least [len(chunkSizes)]int
}

// typicalFrame is how many bytes of frames there are for an entry of a chunk's
// index, before that must grow.
const typicalFrame = 160

// maxFree bounds what waits for use again: of the largest, which a flood uses
// up as fast as it writes, and of each smaller size, of which a run needs one.
const (
	maxFree      = 4 << 20
	maxFreeSmall = 512 << 10
)

// freeRoom is how many bytes of chunks of a size wait for use again.
func freeRoom(k int) int {
	if chunkSizes[k] == maxChunk {
		return maxFree
	}
	return maxFreeSmall
}

// get gives an empty chunk with one reference and room for size bytes.
func (p *chunkPool) get(size int, first int64) *chunk {
	var c *chunk
	if k := classOfSize(size); k >= 0 {
		size = chunkSizes[k]
		p.mu.Lock()
		if n := len(p.free[k]); n > 0 {
			c = p.free[k][n-1]
			p.free[k][n-1] = nil
			p.free[k] = p.free[k][:n-1]
		}
		p.least[k] = min(p.least[k], len(p.free[k]))
		p.mu.Unlock()
	}
	if c == nil {
		n := size / typicalFrame
		c = &chunk{buf: make([]byte, 0, size), ends: make([]uint32, 0, n), class: make([]uint8, 0, n), pool: p}
	}
	c.first = first
	c.size = int64(cap(c.buf))
	c.refs.Store(1)
	p.used.Add(c.size)
	return c
}

func (p *chunkPool) put(c *chunk) {
	p.used.Add(-c.size)
	c.buf, c.ends, c.class, c.mask = c.buf[:0], c.ends[:0], c.class[:0], 0
	k := classOfSize(cap(c.buf))
	if k < 0 || cap(c.buf) != chunkSizes[k] {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free[k])*chunkSizes[k] < freeRoom(k) {
		p.free[k] = append(p.free[k], c)
	}
}

// trim lets go of the chunks that nobody needed since the last trim.
func (p *chunkPool) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.free {
		p.free[k] = slices.Delete(p.free[k], 0, p.least[k])
		p.least[k] = len(p.free[k])
	}
}

func classOfSize(size int) int {
	for k, s := range chunkSizes {
		if size <= s {
			return k
		}
	}
	return -1
}

// Types are small numbers in a chunk, so that a filter is asked once per type.
const classOther = 63

var (
	classes     = map[events.Type]uint8{}
	classTypes  []events.Type
	classDelta  uint8
	classReason uint8
)

func init() {
	for i, t := range events.Types() {
		classes[t] = uint8(i)
		classTypes = append(classTypes, t)
	}
	classDelta, classReason = classes[events.TypeMessageDelta], classes[events.TypeReasoningDelta]
}

func classOf(t events.Type) uint8 {
	if k, ok := classes[t]; ok {
		return k
	}
	return classOther
}

func classOfLine(line []byte) uint8 {
	t := events.LineType(line)
	if string(t) == string(events.TypeMessageDelta) {
		return classDelta
	}
	return classOf(events.Type(t))
}

const (
	framePrefix = "id: "
	frameMiddle = "\ndata: "
	lineHead    = `{"id":`
	frameExtra  = len(framePrefix) + 20 + len(frameMiddle) + 2 // beside the line, at most
)

// appendFrame appends the frame of a line without its line end. The id stands
// in the line already, as text.
func appendFrame(dst []byte, id int64, line []byte) []byte {
	dst = append(dst, framePrefix...)
	const at = len(`{"id":`)
	if n := bytes.IndexByte(line[:min(len(line), at+20)], ','); n > at {
		dst = append(dst, line[at:n]...)
	} else {
		dst = strconv.AppendInt(dst, id, 10)
	}
	dst = append(dst, frameMiddle...)
	dst = append(dst, line...)
	return append(dst, "\n\n"...)
}
