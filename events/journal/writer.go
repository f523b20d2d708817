package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// gather is how much must wait before the writer does not step back once for
// whoever else can run: on a busy machine fewer, larger writes.
const gather = 16 << 10

// maxSpare is the largest line buffer that a quiet run keeps.
const maxSpare = 64 << 10

// trim gives back the large buffers of a flood that is over.
func (l *Log) trim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing || time.Since(l.rest) < time.Second {
		return
	}
	if cap(l.spare) > maxSpare {
		l.spare = nil
	}
	if cap(l.lines) > maxSpare && len(l.lines) == 0 {
		l.lines = nil
	}
}

// disk is the end of a run's files. Its owner holds the writer's token; what
// readers need is published in segs under the log's lock.
type disk struct {
	file  File
	name  string // of the segment
	x     indexer
	idx   File
	put   int   // entries of x.closed that are in idx
	torn  bool  // bytes of a failed write may stand behind the end
	total int64 // bytes of all files
	kick  chan struct{}

	// Under the log's lock:
	segs     []segment
	syncable File     // file, for the sync
	dirty    bool     // it was written since the last sync
	unsynced []string // segments that were closed since
}

// segment is one file of a run, as readers see it.
type segment struct {
	first int64
	x     indexer // as far as visible; of the last segment of a live run only
	live  bool
}

// startWriterLocked sees to it that somebody writes what waits: the caller
// itself when all is quiet, which is the shortest way to a reader, else a
// goroutine, which gathers while it writes. first: it did, after a time in which
// there was nothing to write.
func (l *Log) startWriterLocked() (first bool) {
	if l.writing {
		return false
	}
	l.writing = true
	if rest := time.Since(l.rest); l.s.opt.Fsync != FsyncAlways && rest > burst {
		if l.writeLocked() == nil && len(l.lines) == 0 {
			l.stopWriterLocked()
			return rest > calm
		}
	}
	l.s.writers.Add(1)
	go l.write()
	return false
}

func (l *Log) stopWriterLocked() {
	l.writing = false
	l.rest = time.Now()
	l.cond.Broadcast()
}

// write is the writer. It lives while there is something to write, or to wait
// for space with; Store.Close waits for it.
func (l *Log) write() {
	defer l.s.writers.Done()
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if len(l.lines) < gather && !l.full {
			l.mu.Unlock()
			runtime.Gosched()
			l.mu.Lock()
		}
		if len(l.lines) == 0 || l.wanted > 0 {
			break
		}
		if err := l.writeLocked(); err == nil {
			l.spaceBackLocked()
		} else if !l.waitSpaceLocked(err) {
			break
		}
	}
	l.stopWriterLocked()
}

// writeLocked writes what has gathered and publishes it. It lets go of the
// lock while it writes. After an error, the lines that were not taken whole
// wait again.
func (l *Log) writeLocked() error {
	buf, through := l.lines, l.next-1
	l.lines, l.spare = l.spare[:0], nil
	l.inflight = len(buf)
	l.mu.Unlock()

	n, err := l.disk.write(l, buf)

	l.mu.Lock()
	l.inflight = 0
	if err != nil {
		through = l.last + int64(bytes.Count(buf[:n], newline))
		l.lines = append(bytes.Clone(buf[n:]), l.lines...)
	}
	l.spare = buf[:0]
	l.disk.publishLocked()
	if n > 0 {
		l.disk.dirty = true
	}
	l.publishLocked(through)
	l.cond.Broadcast()
	if over := l.s.pool.used.Load() > l.s.opt.MemoryBytes; over {
		l.mu.Unlock()
		l.s.reclaim()
		l.mu.Lock()
	}
	return err
}

// publishLocked shows readers what the files hold.
func (d *disk) publishLocked() {
	if n := len(d.segs); n > 0 && d.segs[n-1].live {
		d.segs[n-1].x = d.x
	}
}

// write puts whole lines into the segment, and returns how many bytes of whole
// lines it took.
func (d *disk) write(l *Log, buf []byte) (int, error) {
	if d.file != nil && d.x.size() >= l.s.opt.SegmentBytes {
		d.roll(l)
	}
	if d.file == nil {
		if err := d.openSegment(l, os.O_CREATE); err != nil {
			return 0, err
		}
	}
	if d.torn {
		if err := d.file.Truncate(d.x.size()); err != nil {
			return 0, err
		}
		d.torn = false
	}
	n, err := writeAt(d.file, buf, d.x.size())
	l.s.wroteBytes(n, err)
	if err != nil {
		d.torn = true // also at 0: not every file layer counts what a write took that then failed
		n = bytes.LastIndexByte(buf[:n], '\n') + 1
	}
	if n > 0 && l.s.opt.Fsync == FsyncAlways {
		if serr := d.syncAlways(l, buf[:n]); serr != nil {
			d.torn = true
			return 0, serr
		}
	}
	d.total += int64(n)
	d.x.add(buf[:n])
	d.putIndex(l)
	return n, err
}

// openSegment opens the segment that begins, or goes on, at the indexer's end.
func (d *disk) openSegment(l *Log, flag int) error {
	first := d.x.next()
	if d.name == "" {
		d.name = segmentName(first)
	} else {
		first = d.firstOfSegment()
	}
	f, err := l.s.openKept(filepath.Join(l.dir, d.name), os.O_RDWR|flag)
	if err != nil {
		return err
	}
	if l.s.opt.Fsync == FsyncAlways {
		if err := l.s.fs.SyncDir(l.dir); err != nil {
			_ = f.Close()
			return err
		}
	}
	d.file = f
	l.mu.Lock()
	defer l.mu.Unlock()
	d.syncable = f
	if n := len(d.segs); n == 0 || d.segs[n-1].first != first {
		d.segs = append(d.segs, segment{first: first, live: true, x: d.x})
	}
	return nil
}

func (d *disk) firstOfSegment() int64 {
	if len(d.x.closed) > 0 {
		return d.x.closed[0].first
	}
	return d.x.open.first
}

// roll closes a segment that is large enough. It is synced with the next sync.
func (d *disk) roll(l *Log) {
	next := d.x.next()
	d.sealIndex(l)
	l.mu.Lock()
	n := len(d.segs)
	d.segs[n-1] = segment{first: d.segs[n-1].first}
	d.syncable = nil
	if d.dirty && l.s.opt.Fsync != FsyncNone && l.s.opt.Fsync != FsyncAlways {
		d.unsynced = append(d.unsynced, d.name)
	}
	d.dirty = false
	l.mu.Unlock()
	_ = d.file.Close()
	d.file, d.name = nil, ""
	d.x = indexer{open: block{first: next}}
}

// putIndex writes the entries of blocks that are complete. An index that can't
// be written is written again when the segment is closed, or rebuilt.
func (d *disk) putIndex(l *Log) {
	if d.put == len(d.x.closed) || d.put < 0 {
		return
	}
	if d.idx == nil {
		f, err := l.s.openKept(filepath.Join(l.dir, indexName(d.name)), os.O_RDWR|os.O_CREATE)
		if err != nil {
			d.put = -1
			return
		}
		d.idx = f
	}
	var buf []byte
	for _, b := range d.x.closed[d.put:] {
		buf = b.appendEntry(buf)
	}
	if _, err := writeAt(d.idx, buf, int64(d.put)*entryBytes); err != nil {
		d.put = -1
		return
	}
	d.put = len(d.x.closed)
	d.total += int64(len(buf))
}

// sealIndex completes the index of the segment and closes it.
func (d *disk) sealIndex(l *Log) {
	d.x.close()
	d.putIndex(l)
	if d.idx != nil {
		_ = d.idx.Close()
		d.idx = nil
	}
	if d.put < 0 {
		if err := writeIndex(l.s.fs, filepath.Join(l.dir, indexName(d.name)), d.x.closed); err != nil {
			// A part of an index is worse than none only in time: it is rebuilt.
			l.s.log.Warn("journal: index not written, will be rebuilt", l.meta.LogAttr(), "err", err)
		}
	}
	d.put = 0
}

func writeIndex(fsys FS, name string, blocks []block) error {
	buf := make([]byte, 0, len(blocks)*entryBytes)
	for _, b := range blocks {
		buf = b.appendEntry(buf)
	}
	return replaceFile(fsys, name, buf, false)
}
