package journal

import (
	"context"
	"errors"
	"time"
)

// Stats gives the gauges.
func (s *Store) Stats() Stats {
	st := Stats{
		MemoryBytes: s.pool.used.Load(), Damaged: s.damaged.Load(), Dropped: s.dropped.Load(),
		Full: int(s.full.Load()), MemoryOnly: s.volatile(), DiskFull: s.diskIsFull(),
		Written: s.written.Load(), WriteErrors: s.writeErrors.Load(), SyncErrors: s.syncErrors.Load(), Events: s.events(),
	}
	for _, l := range s.all() {
		l.mu.Lock()
		st.Runs++
		readers, lag := l.readersLocked()
		st.Readers, st.Lag = st.Readers+readers, max(st.Lag, lag)
		st.Unwritten += int64(len(l.lines) + l.inflight)
		if !l.ended {
			st.Live++
			if n := len(l.disk.segs); n > 0 {
				st.DiskBytes += l.disk.segs[n-1].x.size()
			}
		}
		l.mu.Unlock()
	}
	s.mu.Lock()
	st.DiskBytes += s.bytes
	s.mu.Unlock()
	return st
}

// Run does what needs a clock until ctx ends: the sync each second, retention,
// the reserve; and makes ahead what runs begin in.
func (s *Store) Run(ctx context.Context) error {
	const retain = 30 // ticks
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	s.Retain()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-s.folders.want:
			s.fillFolders()
			continue
		case <-ticker.C:
		}
		s.tick()
		if n++; n%retain == 0 {
			s.Retain()
		}
	}
}

func (s *Store) tick() {
	s.pool.trim()
	if s.memoryOnly || s.closed.Load() {
		return
	}
	for _, l := range s.holders() {
		if s.opt.Fsync == FsyncInterval {
			l.syncNow()
		}
		l.trim()
		l.trimFetcher()
	}
	if s.opt.Fsync == FsyncInterval {
		if err := s.table.sync(); err != nil {
			s.log.Error("journal: runs.jsonl not synced", "err", err)
		}
	}
	if s.full.Load() == 0 {
		s.restoreReserve()
		s.restoreStock()
		s.fillFolders()
	}
	s.look()
	s.spares.fill(s)
}

// Close waits for what is being written, syncs it and gives the directory
// back. Runs without an end are unfinished at the next Open.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed.Swap(true)
	s.mu.Unlock()
	if again {
		return nil
	}
	all := s.all()
	for _, l := range all {
		l.mu.Lock()
		l.wakeLocked()
		l.cond.Broadcast()
		l.disk.kickWriter()
		l.mu.Unlock()
	}
	s.writers.Wait()
	var errs []error
	for _, l := range all {
		errs = append(errs, l.shut())
	}
	if !s.memoryOnly {
		if s.opt.Fsync != FsyncNone {
			errs = append(errs, s.table.sync())
		}
		s.table.close()
		s.spares.close()
	}
	s.unlock()
	return errors.Join(errs...)
}

// shut closes the files of a live run when the store closes.
func (l *Log) shut() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.dir == "" {
		return nil
	}
	l.takeWriterLocked()
	if len(l.lines) > 0 && !l.full {
		_ = l.writeLocked()
	}
	l.mu.Unlock()
	var err error
	if l.s.opt.Fsync != FsyncNone {
		err = l.syncAll()
	}
	if l.disk.file != nil {
		err = errors.Join(err, l.disk.file.Close())
		l.disk.file = nil
	}
	if l.disk.idx != nil {
		_ = l.disk.idx.Close()
		l.disk.idx = nil
	}
	l.mu.Lock()
	l.disk.syncable = nil
	l.stopWriterLocked()
	return err
}
