package journal

import (
	"os"
	"path/filepath"
)

// Bytes is about how many bytes a log and its request take, as far as they are
// visible: what is made of all of it may be as large. It reads no event.
func (l *Log) Bytes() int64 {
	l.mu.Lock()
	n, asked := l.bytesLocked(), l.asked
	l.mu.Unlock()
	if l.dir == "" {
		return n + int64(len(l.request))
	}
	if asked == 0 {
		asked = l.requestBytes()
		l.mu.Lock()
		l.asked = asked
		l.mu.Unlock()
	}
	return n + asked
}

func (l *Log) bytesLocked() int64 {
	switch n := len(l.disk.segs); {
	case l.dir == "":
		return l.mem
	case l.ended:
		return l.bytes
	case n > 0:
		return int64(n-1)*l.s.opt.SegmentBytes + l.disk.segs[n-1].x.size()
	}
	return 0
}

// requestBytes looks how long request.json is; 1 where that can't be known.
func (l *Log) requestBytes() int64 {
	f, err := l.s.fs.OpenFile(filepath.Join(l.dir, requestName), os.O_RDONLY, 0)
	if err != nil {
		return 1
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return 1
	}
	return max(st.Size(), 1)
}

// Tail is the id behind which the visible events are that take at most so many
// bytes, and the last one, however long it is. Of what is not in memory it
// reads the index alone, whose entries are of some events each: those that do
// not fit in whole are not in it.
func (l *Log) Tail(most int64) (after int64, err error) {
	c, err := l.Follow(l.Last(), nil) // keeps open what it opens
	if err != nil {
		return 0, err
	}
	defer c.Close()
	last := c.pos
	if last == 0 {
		return 0, nil
	}
	l.mu.Lock()
	after, most = l.tailOfMemoryLocked(last, most)
	l.mu.Unlock()
	if after == 0 || most < 0 || l.dir == "" {
		return min(after, last-1), nil
	}
	l.loading.Lock()
	defer l.loading.Unlock()
	after, err = l.tailOfFiles(last, after, most)
	return min(after, last-1), err
}

// tailOfMemoryLocked goes back from an event through the frames in memory. What
// is left of most is negative where one of them did not fit.
func (l *Log) tailOfMemoryLocked(last, most int64) (after, left int64) {
	first := last
	for i := len(l.chunks) - 1; i >= 0; i-- {
		ch := l.chunks[i]
		for id := min(last, ch.last()); id >= ch.first; id-- {
			k := int(id - ch.first)
			if id < first { // the last one is in it anyway
				most -= int64(int(ch.ends[k]) - ch.start(k))
			}
			if most < 0 {
				return id, most
			}
			last = id - 1
		}
	}
	return last, most
}

// tailOfFiles goes back from an event through the blocks of the files; last is
// the last one of all. The caller holds loading, and a cursor.
func (l *Log) tailOfFiles(last, after, most int64) (int64, error) {
	for after > 0 {
		seg, _, err := l.segmentOf(after)
		if err != nil || seg.first == 0 {
			return after, err
		}
		blocks, err := l.blocksOf(seg)
		if err != nil {
			return after, err
		}
		for i := len(blocks) - 1; i >= 0; i-- {
			b := blocks[i]
			if b.first > after || b.count == 0 {
				continue
			}
			if b.first != last { // the last one is in it anyway
				most -= int64(b.n)
			}
			if most < 0 {
				return after, nil
			}
			after = b.first - 1
		}
		after = min(after, seg.first-1)
	}
	return after, nil
}
