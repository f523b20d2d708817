package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// stock is files that are written ahead, each large enough for the end of a
// run. What the reserve gives up anybody may take first, an agent that fills
// the disk for one. Then the last lines go into a file of the stock, whose
// bytes are on the disk already, and it becomes the run's last segment by its
// name alone. An end that is longer, since it closes a long message, takes the
// reserve in the same way.
type stock struct {
	mu    sync.Mutex
	names []string
	next  time.Time    // not filled up before
	out   atomic.Int32 // files that were taken, the reserve too, and have their names still
}

const (
	stockFiles = 8
	stockBytes = 64 << 10
)

func (s *Store) stockDir() string { return filepath.Join(s.dir, "stock") }

// restoreStock makes the files that are missing, and what is left of others anew.
func (s *Store) restoreStock() {
	k := &s.stock
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.names) == stockFiles || k.out.Load() > 0 || time.Now().Before(k.next) {
		return // what somebody writes an end into is not ours, though its name is there
	}
	k.next = time.Now().Add(10 * time.Second)
	if err := s.fs.Mkdir(s.stockDir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return // not with what is above it: a state directory that is gone stays away
	}
	k.names = k.names[:0]
	for i := range stockFiles {
		name := filepath.Join(s.stockDir(), fmt.Sprintf("%02d", i))
		if err := s.stockFile(name); err != nil {
			s.noteShort(err)
			return
		}
		k.names = append(k.names, name)
	}
}

// stockFile makes a file of the stock, unless it is there. Its bytes are
// written: a hole takes no space.
func (s *Store) stockFile(name string) error {
	f, err := s.fs.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && st.Size() != stockBytes {
		if _, err = writeAt(f, make([]byte, stockBytes), 0); err == nil {
			err = f.Truncate(stockBytes)
		}
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		_ = s.fs.Remove(name)
	}
	return err
}

// takeFile gives a file with n bytes to one caller: of the stock, else the
// reserve itself, whole.
func (s *Store) takeFile(n int) (name string, ok bool) {
	if n <= stockBytes {
		if name, ok = s.stock.take(); ok {
			return name, true
		}
	}
	r := &s.reserve
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held < int64(n) {
		return "", false
	}
	r.held, r.next = 0, time.Now().Add(time.Second)
	s.log.Warn("journal: the disk is full; the reserve becomes the end of a run")
	return s.reserveName(), true
}

func (k *stock) take() (name string, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.names)
	if n == 0 {
		return "", false
	}
	name = k.names[n-1]
	k.names = k.names[:n-1]
	k.next = time.Now().Add(time.Second)
	return name, true
}

var errNoStock = errors.New("journal: no file that is written ahead has room for the end")

// endInStock makes the last lines of a run its last segment, in a file that was
// written ahead. The caller holds the writer's token, not the lock.
func (d *disk) endInStock(l *Log, lines []byte) error {
	l.s.stock.out.Add(1) // before it is taken
	defer l.s.stock.out.Add(-1)
	name, ok := l.s.takeFile(len(lines))
	if !ok {
		return errNoStock
	}
	f, err := l.s.openKept(name, os.O_RDWR)
	if err != nil {
		return err
	}
	if _, err = writeAt(f, lines, 0); err == nil {
		err = f.Truncate(int64(len(lines)))
	}
	if err == nil && l.s.opt.Fsync != FsyncNone {
		err = f.Sync()
	}
	if err == nil {
		err = d.leaveSegment(l)
	}
	path := filepath.Join(l.dir, segmentName(d.x.next()))
	if err == nil {
		err = l.s.fs.Rename(name, path)
	}
	if err != nil {
		_ = f.Close()
		_ = l.s.fs.Remove(name)
		return err
	}
	if l.s.opt.Fsync != FsyncNone {
		_ = l.s.fs.SyncDir(l.dir) // without it only a power cut can lose the name
	}
	d.takeSegment(l, f, lines)
	return nil
}

// leaveSegment closes the segment, if there is one: without what a failed
// write left behind its end, and away where it is empty, since the next one
// has the same name.
func (d *disk) leaveSegment(l *Log) error {
	if d.file == nil && d.name != "" { // found at the start and not written to since, or never made
		err := d.openSegment(l, 0)
		switch {
		case errors.Is(err, fs.ErrNotExist) && d.x.size() == 0:
			d.name = "" // the disk had no room even for its name
		case err != nil:
			return err
		}
	}
	if d.file == nil {
		return nil
	}
	if d.torn {
		if err := d.file.Truncate(d.x.size()); err != nil {
			return err
		}
		d.torn = false
	}
	if d.x.size() > 0 {
		d.roll(l)
		return nil
	}
	err := l.s.fs.Remove(filepath.Join(l.dir, d.name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = d.file.Close()
	d.file, d.name = nil, ""
	return nil
}

// takeSegment goes on in a file that holds lines, as the segment that begins
// at the indexer's end.
func (d *disk) takeSegment(l *Log, f File, lines []byte) {
	first := d.x.next()
	d.file, d.name = f, segmentName(first)
	l.mu.Lock()
	d.syncable = f
	if n := len(d.segs); n == 0 || d.segs[n-1].first != first {
		d.segs = append(d.segs, segment{first: first, live: true})
	}
	l.mu.Unlock()
	d.total += int64(len(lines))
	d.x.add(lines)
}
