package journal

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"innerd/events"
)

// recover reads runs.jsonl, repairs the tails of runs without an end, and
// removes what is left of runs that never began or were deleted. All of it may
// be cut off at any point, and is then done again.
func (s *Store) recover() error {
	s.spares.fill(s)
	s.table.s = s
	whole, err := s.loadTable()
	if err != nil {
		return err
	}
	changed := !whole
	entries, err := s.fs.ReadDir(filepath.Join(s.dir, "runs"))
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, e := range entries {
		there[e.Name()] = true
		if s.logs[e.Name()] != nil {
			continue
		}
		if !whole && s.rescue(e.Name()) {
			continue
		}
		if err := s.fs.RemoveAll(filepath.Join(s.dir, "runs", e.Name())); err != nil {
			s.log.Warn("journal: a run's remains are not removed", "dir", e.Name(), "err", err)
		}
	}
	for id, l := range s.logs {
		if l.ended {
			if !there[id] { // deleted, but for its line
				delete(s.logs, id)
			}
			continue
		}
		if err := l.repair(); err != nil {
			return err
		}
		if l.ended {
			changed = true
		}
	}
	for _, l := range s.logs {
		if l.ended {
			s.ended = append(s.ended, l)
			s.bytes += l.bytes
		} else {
			s.holding[l] = struct{}{}
		}
	}
	slices.SortFunc(s.ended, func(a, b *Log) int { return a.end.Ended.Compare(b.end.Ended) })
	s.restoreReserve()
	s.restoreStock()
	if err := s.table.compact(changed); err != nil && !diskFull(err) {
		return err
	}
	return nil
}

// loadTable reads runs.jsonl. whole: every line of it could be read.
func (s *Store) loadTable() (whole bool, err error) {
	f, err := s.fs.OpenFile(s.table.name(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	data, err := readAll(f)
	if err != nil {
		_ = f.Close()
		return false, err
	}
	whole = true
	size := int64(bytes.LastIndexByte(data, '\n') + 1)
	for _, d := range decodeLines(data[:size]) {
		if !s.apply(d.record) {
			whole = false
			s.log.Error("journal: a line of runs.jsonl can't be read", "line", string(d.line[:min(len(d.line), 200)]))
		}
	}
	if size < int64(len(data)) {
		if err := f.Truncate(size); err != nil {
			_ = f.Close()
			return false, err
		}
	}
	s.table.file, s.table.size, s.table.lines = f, size, bytes.Count(data, newline)
	return whole, nil
}

// apply takes a line of runs.jsonl.
func (s *Store) apply(r record) bool {
	if !validID(r.ID) {
		return false
	}
	l := s.logs[r.ID]
	switch r.Op {
	case opBegin:
		if r.Meta == nil || r.Meta.ID != r.ID {
			return false
		}
		if l == nil {
			s.logs[r.ID] = newLog(s, *r.Meta)
		}
	case opEnd:
		if r.End == nil {
			return false
		}
		if l != nil && !l.ended {
			l.close(*r.End, r.Bytes)
		}
		return l != nil
	case opDelete:
		delete(s.logs, r.ID)
	default:
		return false
	}
	return true
}

// close makes l a run that has ended, as it was found.
func (l *Log) close(e RunEnd, size int64) {
	l.ending, l.ended, l.end, l.bytes = true, true, e, size
	l.last, l.next = e.LastID, e.LastID+1
	close(l.done)
}

// rescue finds the beginning of a run in its request.json, where its line in
// runs.jsonl may be one of those that can't be read.
func (s *Store) rescue(id string) bool {
	f, err := loadRequest(s.fs, filepath.Join(s.dir, "runs", id))
	if err != nil || f.Meta.ID != id || !validID(id) {
		return false
	}
	l := newLog(s, f.Meta)
	segs, err := listSegments(s.fs, l.dir)
	if err != nil || len(segs) == 0 {
		return false
	}
	s.logs[id] = l
	return true
}

// repair makes a run without an end fit to be appended to: its last segment
// ends with a whole line. A run whose last event is the end has ended.
func (l *Log) repair() error {
	l.found = true
	if err := l.s.fs.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	segs, err := listSegments(l.s.fs, l.dir)
	if err != nil {
		return err
	}
	d := &l.disk
	d.segs, d.x.open.first = segs, 1
	if n := len(segs); n > 0 {
		if err := l.repairSegment(segs[n-1].first); err != nil {
			return err
		}
		d.segs[n-1].live, d.segs[n-1].x = true, d.x
	}
	l.next = d.x.next()
	l.last = l.next - 1
	d.total = d.x.size()
	for range len(segs) - 1 {
		d.total += l.s.opt.SegmentBytes // about
	}
	if e, ok := l.endInLog(); ok {
		d.segs = nil
		size := d.total
		d.x, d.name, d.put = indexer{}, "", 0
		l.close(e, size)
	}
	return nil
}

// repairSegment cuts the tail of a segment behind its last whole line, and
// takes its index over.
func (l *Log) repairSegment(first int64) error {
	name := filepath.Join(l.dir, segmentName(first))
	f, err := l.s.openKept(name, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := readAll(f)
	if err != nil {
		return err
	}
	idxName := filepath.Join(l.dir, indexName(segmentName(first)))
	idx, err := readFile(l.s.fs, idxName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	x := indexer{closed: parseIndex(idx, first, int64(len(data))), open: block{first: first}}
	// A power cut leaves blocks whose bytes never came to the disk. They are
	// looked at line by line, unless a single byte explains it.
	for n := len(x.closed); n > 0; n = len(x.closed) {
		b := x.closed[n-1]
		if b.bad || intact(data[b.off:b.end()], b.crc) {
			x.open = block{first: b.next(), off: b.end()}
			break
		}
		x.closed = x.closed[:n-1]
	}
	indexed := len(x.closed)
	x.scan(data[x.size():])
	if x.size() < int64(len(data)) {
		if err := f.Truncate(x.size()); err != nil {
			return err
		}
	}
	l.disk.x, l.disk.name, l.disk.put = x, segmentName(first), len(x.closed)
	if len(x.closed) == indexed && len(idx) == indexed*entryBytes {
		return nil
	}
	err = writeIndex(l.s.fs, idxName, x.closed)
	if err != nil && diskFull(err) { // no reason not to start: it is rebuilt where it is needed
		l.disk.put = -1
		err = l.s.fs.Remove(idxName)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

func intact(data []byte, crc uint32) bool {
	if crc32.Checksum(data, castagnoli) == crc {
		return true
	}
	_, ok := repair(bytes.Clone(data), crc)
	return ok
}

// endInLog finds the end of a run in its last events: the process died between
// them and the line in runs.jsonl.
func (l *Log) endInLog() (RunEnd, bool) {
	if l.last == 0 {
		return RunEnd{}, false
	}
	var e RunEnd
	found := false
	for ev, err := range l.Snapshot(max(l.last-2, 0), nil) {
		if err != nil {
			return RunEnd{}, false
		}
		switch d := ev.Data.(type) {
		case events.Error:
			e.ErrorType = d.ErrorType
		case events.End:
			e.State, e.Reason, e.LastID, e.Ended = d.State, d.Reason, ev.ID, time.UnixMilli(ev.TS)
			found = ev.ID == l.last
		default:
			e.ErrorType = ""
		}
	}
	return e, found
}
