package journal

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"

	"innerd/events"
)

// fetchBytes is how many bytes of lines are read at once, so that their frames
// fit into the largest chunk.
const fetchBytes = 192 << 10

// fetcher reads a log's files for the readers that are behind its memory. What
// one of them fetched, the others find.
type fetcher struct {
	file   File
	first  int64 // of the segment that file is
	blocks []block
	recent []*chunk  // oldest first
	last   time.Time // of the last read
}

// Of the chunks that were read, so many are kept for the readers behind, and
// more while half of the memory for frames is free: the further apart readers
// are, the more they would read again.
const (
	fewRecent  = 8
	mostRecent = 64
)

// keep takes a chunk with a reference, and lets go of older ones.
func (f *fetcher) keep(c *chunk, s *Store) {
	f.recent = append(f.recent, c)
	switch n := len(f.recent); {
	case n > fewRecent && s.pool.used.Load() > s.opt.MemoryBytes/2:
		f.drop(n - fewRecent)
	case n > mostRecent:
		f.drop(1)
	}
}

// drop lets go of the n oldest chunks.
func (f *fetcher) drop(n int) {
	for _, c := range f.recent[:n] {
		c.release()
	}
	k := copy(f.recent, f.recent[n:])
	clear(f.recent[k:])
	f.recent = f.recent[:k]
}

// fetch gives a chunk with the visible event id, with a reference.
func (l *Log) fetch(id int64) (*chunk, error) {
	l.loading.Lock()
	defer l.loading.Unlock()
	for _, c := range l.fetched.recent {
		if c.first <= id && id <= c.last() {
			c.retain()
			return c, nil
		}
	}
	c, err := l.read(id)
	if err != nil {
		return nil, err
	}
	c.retain()
	l.fetched.keep(c, l.s)
	l.fetched.last = l.s.opt.Now()
	return c, nil
}

// trimFetcher lets go of chunks that no reader has been behind for a while.
func (l *Log) trimFetcher() {
	if !l.loading.TryLock() {
		return // somebody reads
	}
	defer l.loading.Unlock()
	if n := len(l.fetched.recent); n > 0 && l.s.opt.Now().Sub(l.fetched.last) > time.Second {
		l.fetched.drop(n)
	}
}

// closeFetcher lets go of everything when the last reader has left.
func (l *Log) closeFetcher() {
	l.loading.Lock()
	defer l.loading.Unlock()
	l.mu.Lock()
	again := l.readers > 0
	if !again && l.ended {
		l.disk.segs = nil // read again for the next reader
	}
	l.mu.Unlock()
	if again {
		return
	}
	l.fetched.drop(len(l.fetched.recent))
	l.fetched.closeFile()
	l.fetched = fetcher{}
}

func (f *fetcher) closeFile() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}

// read makes the chunk with the event id from the files.
func (l *Log) read(id int64) (*chunk, error) {
	seg, next, err := l.segmentOf(id)
	if err != nil {
		return nil, err
	}
	if seg.first == 0 { // no segment holds it
		return l.damagedChunk(id, next), nil
	}
	blocks, err := l.blocksOf(seg)
	if errors.Is(err, fs.ErrNotExist) {
		return l.damagedChunk(id, next), nil
	}
	if err != nil {
		return nil, err
	}
	i := sort.Search(len(blocks), func(i int) bool { return blocks[i].next() > id })
	if i == len(blocks) || blocks[i].first > id {
		if i < len(blocks) {
			next = blocks[i].first
		}
		return l.damagedChunk(id, next), nil
	}
	if blocks[i].bad {
		return l.damagedChunk(id, blocks[i].next()), nil
	}
	return l.readBlocks(blocks[i:])
}

// segmentOf finds the segment that should hold an event, and the id at which
// what it should hold ends.
func (l *Log) segmentOf(id int64) (segment, int64, error) {
	l.mu.Lock()
	load := l.ended && l.disk.segs == nil
	l.mu.Unlock()
	if load {
		segs, err := listSegments(l.s.fs, l.dir)
		if err != nil {
			return segment{}, 0, err
		}
		l.mu.Lock()
		l.disk.segs = segs
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	segs := l.disk.segs
	i := sort.Search(len(segs), func(i int) bool { return segs[i].first > id })
	next := l.last + 1
	if i < len(segs) {
		next = segs[i].first
	}
	if i == 0 {
		return segment{}, next, nil
	}
	return segs[i-1], next, nil
}

// listSegments finds the segments of a run by their names, in order.
func listSegments(fsys FS, dir string) ([]segment, error) {
	names, err := fsys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var segs []segment
	for _, e := range names {
		if first, ok := parseSegmentName(e.Name()); ok {
			segs = append(segs, segment{first: first})
		}
	}
	sort.Slice(segs, func(i, j int) bool { return segs[i].first < segs[j].first })
	return segs, nil
}

// blocksOf opens a segment and gives its index as far as it is visible.
func (l *Log) blocksOf(seg segment) ([]block, error) {
	f := &l.fetched
	if f.file == nil || f.first != seg.first {
		f.closeFile()
		file, err := l.s.fs.OpenFile(filepath.Join(l.dir, segmentName(seg.first)), os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		f.file, f.first, f.blocks = file, seg.first, nil
	}
	if seg.live {
		n := len(seg.x.closed)
		return append(seg.x.closed[:n:n], seg.x.open), nil
	}
	if f.blocks == nil {
		x, err := loadIndex(l.s.fs, f.file, filepath.Join(l.dir, indexName(segmentName(seg.first))), seg.first)
		if err != nil {
			return nil, err
		}
		x.close()
		f.blocks = x.closed
	}
	return f.blocks, nil
}

// loadIndex reads the index of a segment, and makes what is missing of it from
// the lines.
func loadIndex(fsys FS, file File, name string, first int64) (indexer, error) {
	st, err := file.Stat()
	if err != nil {
		return indexer{}, err
	}
	data, err := readFile(fsys, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return indexer{}, err
	}
	x := indexer{closed: parseIndex(data, first, st.Size()), open: block{first: first}}
	if n := len(x.closed); n > 0 {
		x.open = block{first: x.closed[n-1].next(), off: x.closed[n-1].end()}
	}
	rest := make([]byte, st.Size()-x.size())
	if len(rest) == 0 {
		return x, nil
	}
	n, err := file.ReadAt(rest, x.size())
	if n < len(rest) {
		return indexer{}, err
	}
	x.scan(rest)
	return x, nil
}

// readBlocks makes a chunk of the first blocks, of which the very first is good.
func (l *Log) readBlocks(blocks []block) (*chunk, error) {
	n, count, bytes := 0, 0, 0
	for _, b := range blocks {
		if n > 0 && (bytes+int(b.n) > fetchBytes || b.bad) {
			break
		}
		n, count, bytes = n+1, count+int(b.count), bytes+int(b.n)
	}
	first := blocks[0]
	buf := scratch.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= maxScratch {
			scratch.Put(buf)
		}
	}()
	if cap(*buf) < bytes {
		*buf = make([]byte, bytes)
	}
	data := (*buf)[:bytes]
	if k, err := l.fetched.file.ReadAt(data, first.off); k < bytes {
		return nil, err
	}
	c := l.s.pool.get(bytes+count*frameExtra, first.first)
	for _, b := range blocks[:n] {
		l.frameBlock(c, data[b.off-first.off:b.end()-first.off], b)
	}
	return c, nil
}

// frameBlock makes the frames of a block, of a damaged one as far as its lines
// can be trusted.
func (l *Log) frameBlock(c *chunk, data []byte, b block) {
	bad := -1 // the byte that was changed
	if crc32.Checksum(data, castagnoli) != b.crc {
		var ok bool
		if bad, ok = repair(data, b.crc); !ok || !numbered(data, b, bad) {
			l.frameWreck(c, data, b)
			return
		}
	}
	at := 0
	for id := b.first; id < b.next(); id++ {
		n := bytes.IndexByte(data[at:], '\n')
		if at <= bad && bad <= at+n {
			l.frameDamaged(c, id)
		} else {
			line := data[at : at+n]
			c.mark(appendFrame(c.buf, id, line), classOfLine(line))
		}
		at += n + 1
	}
}

// numbered says whether the lines of a block are what they should be, but for
// the one with the byte bad. More than one change may look like another one.
func numbered(data []byte, b block, bad int) bool {
	at := 0
	for id := b.first; id < b.next(); id++ {
		n := bytes.IndexByte(data[at:], '\n')
		if n < 0 {
			return false
		}
		if got, ok := validLine(data[at : at+n]); (!ok || got != id) && (bad < at || bad > at+n) {
			return false
		}
		at += n + 1
	}
	return at == len(data)
}

// frameWreck makes the frames of a block with more than one byte changed: those
// lines that can be trusted, if it shows which ones can't. If it does not
// show, none can. What is not promised: a second change elsewhere in the
// block, beside one that shows, that leaves its line an event.
func (l *Log) frameWreck(c *chunk, data []byte, b block) {
	lines := trusted(data, b)
	for id := b.first; id < b.next(); id++ {
		if line := lines[id-b.first]; line != nil {
			c.mark(appendFrame(c.buf, id, line), classOfLine(line))
		} else {
			l.frameDamaged(c, id)
		}
	}
}

// trusted gives the lines of a wrecked block by their place, nil for those
// that can't be trusted.
func trusted(data []byte, b block) [][]byte {
	found := bytes.Split(bytes.TrimSuffix(data, newline), newline)
	ids := make([]int64, len(found)) // 0: no event of this block
	inPlace := len(found) == int(b.count)
	whole := inPlace
	for i, line := range found {
		id, ok := validLine(line)
		if ok && id >= b.first && id < b.next() {
			ids[i] = id
		}
		inPlace = inPlace && (ids[i] == 0 || id == b.first+int64(i))
		whole = whole && ids[i] != 0
	}
	lines := make([][]byte, b.count)
	if whole && inPlace {
		return lines
	}
	for i, id := range ids {
		// Where bytes are missing, or too many, two halves may have become one
		// event: then a line counts only between its neighbours.
		before := i == 0 && id == b.first || i > 0 && ids[i-1] == id-1 && id > b.first
		after := i == len(ids)-1 && id == b.next()-1 || i < len(ids)-1 && ids[i+1] == id+1
		if id != 0 && (inPlace || before && after) {
			lines[id-b.first] = found[i]
		}
	}
	return lines
}

func (l *Log) frameDamaged(c *chunk, id int64) {
	line, _ := events.AppendLine(nil, id, 0, events.Damaged{})
	c.mark(appendFrame(c.buf, id, line), classOf(events.TypeDamaged))
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.damage[id]; ok {
		return
	}
	if l.damage == nil {
		l.damage = map[int64]struct{}{}
	}
	l.damage[id] = struct{}{}
	l.s.damaged.Add(1)
	if len(l.damage) == 1 {
		l.s.log.Error("journal: an event can't be read any more", l.meta.LogAttr(), "id", id)
	}
}

// damagedChunk stands for events from id up to next that are not there.
func (l *Log) damagedChunk(id, next int64) *chunk {
	const most = 512
	next = max(min(next, id+most), id+1)
	c := l.s.pool.get(int(next-id)*128, id)
	for ; id < next; id++ {
		l.frameDamaged(c, id)
	}
	return c
}
