package journal

import (
	"bytes"

	"innerd/events"
)

// End adds the closing events of the run, makes them durable as the policy
// says, records e, and only then makes them visible; afterwards readers get
// io.EOF. e.LastID is set by it, e.Ended if it is zero.
//
// Where the disk is so full that what waits unwritten must be dropped, it
// closes the run with the error type storage, whatever e says, from the
// reserve, and returns a *StorageError. The run has ended all the same.
func (l *Log) End(d []events.Data, e RunEnd) error {
	bodies := make([][]byte, len(d))
	for i, v := range d {
		body, err := events.AppendLine(nil, 0, 0, v)
		if err != nil {
			return err
		}
		bodies[i] = body
	}
	if e.Ended.IsZero() {
		e.Ended = l.s.opt.Now()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		return ErrEnded
	}
	if l.s.closed.Load() {
		return ErrClosed
	}
	l.ending = true
	l.cond.Broadcast()
	l.takeWriterLocked()
	for i, v := range d {
		if _, err := l.addLocked(nil, bodies[i], classOf(v.EventType())); err != nil {
			return err
		}
	}
	err := l.finishLocked(d, e)
	l.writing = false
	l.cond.Broadcast()
	return err
}

// takeWriterLocked waits for the writer and takes its place.
func (l *Log) takeWriterLocked() {
	l.wanted++
	for l.writing {
		l.disk.kickWriter()
		l.cond.Wait()
	}
	l.wanted--
	l.writing = true
}

// finishLocked writes what is left of an ending run and publishes it. The
// caller holds the writer's token.
func (l *Log) finishLocked(d []events.Data, e RunEnd) error {
	var lost error
	if l.dir != "" {
		lost = l.flushEndLocked(&d, &e)
	}
	e.LastID = l.next - 1
	if l.dir != "" {
		l.mu.Unlock()
		l.seal(e)
		l.mu.Lock()
		l.bytes = l.disk.total
	}
	l.end, l.ended = e, true
	l.volatile = l.volatile || l.s.volatile() // its files may be gone
	if l.full {
		l.full = false
		l.s.full.Add(-1)
	}
	l.publishLocked(e.LastID)
	l.wakeLocked()
	close(l.done)
	if l.dir != "" && l.readers == 0 && !l.volatile {
		l.releaseLocked()
		l.s.forgetFrames(l)
	}
	l.lines, l.spare, l.fresh = nil, nil, nil
	l.s.table.settle(l.meta.ID)
	l.s.noteEnded(l)
	l.s.wantFolder()
	return lost
}

// seal closes the files of a run that ends, and writes its line in runs.jsonl.
// The caller holds the writer's token, not the lock.
func (l *Log) seal(e RunEnd) {
	d := &l.disk
	if d.name != "" {
		d.sealIndex(l)
	}
	if d.file != nil {
		_ = d.file.Close()
		d.file = nil
	}
	l.mu.Lock()
	if n := len(d.segs); n > 0 {
		d.segs[n-1].live, d.segs[n-1].x = false, indexer{}
	}
	d.dirty, d.syncable, d.unsynced = false, nil, nil
	unwritten := l.unwritten
	l.mu.Unlock()
	d.x = indexer{}
	if unwritten {
		return // a run with an end in runs.jsonl is taken to have it on disk
	}
	if err := l.s.recordEnd(l.meta.ID, e, d.total); err != nil {
		// The last event says the same: it is read at the next start.
		l.s.log.Error("journal: the end of a run is not in runs.jsonl", l.meta.LogAttr(), "err", err)
	}
}

// flushEndLocked writes and syncs the last lines of a run. If the disk does
// not take them, it drops what nobody has seen and writes only the end.
func (l *Log) flushEndLocked(d *[]events.Data, e *RunEnd) error {
	buf := l.lines
	l.lines = nil
	l.mu.Unlock()
	n, err := l.writeEnd(buf)
	l.mu.Lock()
	l.disk.publishLocked()
	if err == nil {
		return nil
	}
	l.publishLocked(l.last + int64(bytes.Count(buf[:n], newline)))
	return l.endFromReserveLocked(d, e, err)
}

// writeEnd writes the last lines, giving up ended runs for them, and syncs.
func (l *Log) writeEnd(buf []byte) (n int, err error) {
	d := &l.disk
	for {
		var k int
		k, err = d.write(l, buf[n:])
		n += k
		if err == nil || !diskFull(err) || !l.s.dropOldest() {
			break
		}
	}
	if err == nil && l.s.opt.Fsync != FsyncNone && l.s.opt.Fsync != FsyncAlways {
		l.mu.Lock()
		l.disk.dirty = true
		l.mu.Unlock()
		if err = l.syncAll(); err != nil {
			// Written, and visible to this kernel: only a power cut can lose it.
			l.s.log.Error("journal: not synced", l.meta.LogAttr(), "err", err)
			err = nil
		}
		if terr := l.s.table.sync(); terr != nil {
			l.s.log.Error("journal: runs.jsonl not synced", l.meta.LogAttr(), "err", terr)
		}
	}
	return n, err
}
