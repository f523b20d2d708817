package journal

import (
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
)

// syncNow syncs what a live run has written, for the policy 1s.
func (l *Log) syncNow() {
	l.mu.Lock()
	if l.ending || !l.disk.dirty && len(l.disk.unsynced) == 0 {
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	if err := l.syncAll(); err == nil {
		return
	}
	// The kernel may have dropped what it could not write, and will not say so
	// twice: the bytes must be written once more, by the owner of the files.
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		return
	}
	l.takeWriterLocked()
	l.mu.Unlock()
	err := l.disk.rewrite(l, 0)
	l.mu.Lock()
	if err != nil && l.failed == nil {
		l.failed = &StorageError{Err: err}
		l.s.log.Error("journal: not synced", l.meta.LogAttr(), "err", err)
	}
	l.stopWriterLocked()
	if len(l.lines) > 0 && !l.ending && !l.s.closed.Load() {
		l.startWriterLocked()
	}
}

// syncAll syncs the segments that were written since the last time. It is
// called by the owner of the files, or beside it.
func (l *Log) syncAll() error {
	l.mu.Lock()
	f, names := l.disk.syncable, l.disk.unsynced
	if !l.disk.dirty {
		f = nil
	}
	l.disk.dirty, l.disk.unsynced = false, nil
	l.mu.Unlock()
	var errs []error
	if f != nil || len(names) > 0 {
		l.s.syncNames()
	}
	for _, name := range names {
		if err := l.syncFile(name); err != nil {
			errs = append(errs, err)
		}
	}
	if f != nil {
		if err := f.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
			l.s.syncErrors.Add(1)
			errs = append(errs, err)
			l.mu.Lock()
			l.disk.dirty = true
			l.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// syncFile syncs a closed segment; if that fails, it puts a copy in its place.
func (l *Log) syncFile(name string) error {
	path := filepath.Join(l.dir, name)
	f, err := l.s.openKept(path, os.O_RDWR)
	if err != nil {
		return err
	}
	err = f.Sync()
	if err != nil {
		l.s.syncErrors.Add(1)
		var data []byte
		if data, err = readAll(f); err == nil {
			err = replaceFile(l.s.fs, path, data, true)
		}
	}
	return errors.Join(err, f.Close())
}

// syncAlways syncs n bytes that were written but are not in the index yet.
func (d *disk) syncAlways(l *Log, written []byte) error {
	if d.file.Sync() == nil {
		return nil
	}
	l.s.syncErrors.Add(1)
	return d.rewrite(l, len(written))
}

// rewrite puts a new, synced file with all of the segment's bytes in the place
// of one that failed to sync, and goes on in that. extra bytes stand behind
// those in the index. Readers of the old file read on in it.
func (d *disk) rewrite(l *Log, extra int) error {
	if d.file == nil {
		return nil
	}
	data := make([]byte, d.x.size()+int64(extra))
	if n, err := d.file.ReadAt(data, 0); n < len(data) {
		return err
	}
	if err := d.x.verify(data); err != nil {
		return err
	}
	path := filepath.Join(l.dir, d.name)
	if err := replaceFile(l.s.fs, path, data, true); err != nil {
		return err
	}
	if err := l.s.fs.SyncDir(l.dir); err != nil {
		return err
	}
	f, err := l.s.openKept(path, os.O_RDWR)
	if err != nil {
		return err
	}
	_ = d.file.Close()
	d.file = f
	l.mu.Lock()
	d.syncable, d.dirty = f, false
	l.mu.Unlock()
	return nil
}

var errReadBack = errors.New("journal: bytes read back are not those that were written")

func (x *indexer) verify(data []byte) error {
	for _, b := range append(x.closed[:len(x.closed):len(x.closed)], x.open) {
		if b.n > 0 && !b.bad && crc32.Checksum(data[b.off:b.end()], castagnoli) != b.crc {
			return errReadBack
		}
	}
	return nil
}
