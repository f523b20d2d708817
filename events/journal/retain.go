package journal

import (
	"errors"
	"slices"
)

// Delete removes a run that has ended. Its readers read on. ErrNotFound,
// ErrLive.
func (s *Store) Delete(id string) error {
	l, err := s.Get(id)
	if err != nil {
		return err
	}
	if _, ended := l.Ended(); !ended {
		return ErrLive
	}
	s.mu.Lock()
	s.ended = slices.DeleteFunc(s.ended, func(e *Log) bool { return e == l })
	s.mu.Unlock()
	return s.remove(l)
}

// remove takes an ended run away. It is not in s.ended any more.
func (s *Store) remove(l *Log) error {
	s.mu.Lock()
	if s.logs[l.meta.ID] != l {
		s.mu.Unlock()
		return ErrNotFound
	}
	delete(s.logs, l.meta.ID)
	s.bytes -= l.bytes
	s.leaving[l.meta.ID] = true
	s.mu.Unlock()
	var err error
	if !s.memoryOnly {
		// Where the line can't be written, its missing files say it at the next start.
		err = s.table.append(record{Op: opDelete, ID: l.meta.ID}, false)
		s.table.settle(l.meta.ID)
		if err != nil && diskFull(err) {
			err = nil
		}
	}
	l.mu.Lock()
	l.deleted = true
	now := l.readers == 0
	l.mu.Unlock()
	if now {
		s.removeFiles(l)
	}
	return err
}

func (s *Store) removeFiles(l *Log) {
	if l.dir == "" {
		l.mu.Lock()
		l.releaseLocked()
		l.dropBlobsLocked(l.next)
		l.s.forgetFrames(l)
		l.mu.Unlock()
	} else if err := s.fs.RemoveAll(l.dir); err != nil {
		s.log.Warn("journal: a run's files are not removed", l.meta.LogAttr(), "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leaving, l.meta.ID)
}

// noteEnded takes a run into the order of retention. The log's lock is held.
func (s *Store) noteEnded(l *Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, l)
	s.bytes += l.bytes
}

// dropOldest removes the ended run that ended first, and says whether there
// was one.
func (s *Store) dropOldest() bool {
	for {
		s.mu.Lock()
		if len(s.ended) == 0 {
			s.mu.Unlock()
			return false
		}
		l := s.ended[0]
		s.ended = s.ended[1:]
		s.mu.Unlock()
		err := s.remove(l)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		s.log.Info("journal: an ended run is dropped", l.meta.LogAttr())
		return true
	}
}

// Retain drops the ended runs that are too old, too many or too large. Run
// does it now and then.
func (s *Store) Retain() {
	for s.overdue() && s.dropOldest() {
	}
	if !s.memoryOnly {
		if err := s.table.compact(false); err != nil {
			s.log.Warn("journal: runs.jsonl not compacted", "err", err)
		}
	}
}

// overdue says whether the run that ended first must go.
func (s *Store) overdue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ended) == 0 {
		return false
	}
	age := s.opt.Now().Sub(s.ended[0].end.Ended)
	return len(s.ended) > s.opt.MaxRuns || s.bytes > s.opt.MaxBytes || age > s.opt.Retention
}

// reclaim frees frames when all runs together have too many: of the runs with
// the most first. Readers then read the files.
func (s *Store) reclaim() {
	all := s.holders()
	share := s.opt.MemoryBytes / int64(max(len(all), 1))
	for limit := int64(tailBytes); s.pool.used.Load() > s.opt.MemoryBytes && limit > share/2; limit /= 2 {
		for _, l := range all {
			l.mu.Lock()
			if !l.volatile {
				l.shrinkLocked(limit)
			}
			l.mu.Unlock()
		}
	}
}

// forget drops ended runs, in memory only, while there are too many frames.
func (s *Store) forget() {
	for s.pool.used.Load() > s.opt.MemoryBytes && s.dropOldest() {
	}
}
