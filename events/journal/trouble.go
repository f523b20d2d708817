package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// trouble is what keeps a store from writing while it runs. It is looked at
// once a second, and said once.
type trouble struct {
	mu    sync.Mutex
	lost  bool        // the directory is gone, or another stands in its place
	short error       // the disk was full, and has not been seen to take anything since
	mark  fs.FileInfo // of VERSION, by which the directory is known again
}

// Trouble says, in words, why a server on this store is not ready: its disk is
// full, or its state directory is gone. A store that was in memory only from
// the start has none.
func (s *Store) Trouble() []string {
	if s.memoryOnly {
		return nil
	}
	t := &s.trouble
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	if t.lost {
		out = append(out, "the state directory "+s.dir+" is gone: runs are kept in memory only; put it back, or restart innerd")
	}
	if t.short != nil {
		out = append(out, "the disk of the state directory "+s.dir+" is full: make room there ("+t.short.Error()+")")
	} else if s.full.Load() > 0 {
		out = append(out, "storage takes no events: see the log of innerd")
	}
	return out
}

// volatile reports whether what is new is kept in memory only.
func (s *Store) volatile() bool {
	if s.memoryOnly {
		return true
	}
	s.trouble.mu.Lock()
	defer s.trouble.mu.Unlock()
	return s.trouble.lost
}

// noteShort remembers that the disk was full.
func (s *Store) noteShort(err error) {
	if !diskFull(err) {
		return
	}
	s.trouble.mu.Lock()
	defer s.trouble.mu.Unlock()
	s.trouble.short = err
}

// diskIsFull reports whether the disk was full and has taken nothing since.
func (s *Store) diskIsFull() bool {
	s.trouble.mu.Lock()
	defer s.trouble.mu.Unlock()
	return s.trouble.short != nil
}

// markDir remembers by what the directory is known again.
func (s *Store) markDir() {
	info, err := s.statMark()
	if err != nil {
		return // a directory that can't be known again is never lost
	}
	s.trouble.mu.Lock()
	defer s.trouble.mu.Unlock()
	s.trouble.mark = info
}

func (s *Store) statMark() (fs.FileInfo, error) {
	f, err := s.fs.OpenFile(filepath.Join(s.dir, "VERSION"), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// look finds out whether the directory is still there, and whether a disk that
// was full takes something again.
func (s *Store) look() {
	s.lookDir()
	t := &s.trouble
	t.mu.Lock()
	short, lost := t.short != nil, t.lost
	t.mu.Unlock()
	if !short || lost || s.full.Load() > 0 {
		return
	}
	// As much as a run needs to begin.
	name := filepath.Join(s.dir, "probe")
	err := replaceFile(s.fs, name, make([]byte, reservePiece), false)
	_ = s.fs.Remove(name)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && diskFull(err) {
		t.short = err
		return
	}
	t.short = nil
	s.log.Info("journal: the disk takes runs again")
}

func (s *Store) lookDir() {
	t := &s.trouble
	t.mu.Lock()
	mark, was := t.mark, t.lost
	t.mu.Unlock()
	if mark == nil {
		return
	}
	now, err := s.statMark()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return // out of descriptors, or a disk that fails: the writers say so
	}
	lost := err != nil || !os.SameFile(mark, now)
	if lost == was {
		return
	}
	t.mu.Lock()
	t.lost = lost
	t.mu.Unlock()
	if lost {
		s.log.Error("journal: the state directory is gone; new runs are kept in memory only, those that are on end with their last segment", "dir", s.dir)
	} else {
		s.log.Info("journal: the state directory is there again", "dir", s.dir)
	}
}
