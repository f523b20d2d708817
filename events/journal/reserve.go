package journal

import (
	"os"
	"path/filepath"
	"sync"
	"time"
)

// reserve is 1 MiB of disk that is given up when the disk is full, a piece at a
// time, so that runs can still say so, and end. It is not given up at once:
// lines that wait for space would take it all.
type reserve struct {
	mu   sync.Mutex
	held int64     // bytes
	next time.Time // not filled up before
}

const (
	reserveBytes = 1 << 20
	reservePiece = 64 << 10
	// reserveOfEnds is what only the end of a run may take. The rest is for what
	// can do without: where others take each piece as it is given up, a file of a
	// hundred bytes would take it all.
	reserveOfEnds = reserveBytes * 3 / 4
)

func (s *Store) reserveName() string { return filepath.Join(s.dir, "reserve") }

// giveReserve gives up a piece, and says whether there was one beside those
// that are to be kept.
func (s *Store) giveReserve(keep int64) bool {
	r := &s.reserve
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held <= keep {
		return false
	}
	left := max(r.held-reservePiece, 0)
	f, err := s.openKept(s.reserveName(), os.O_RDWR)
	if err != nil {
		return false
	}
	defer f.Close()
	if err := f.Truncate(left); err != nil {
		return false
	}
	r.held, r.next = left, time.Now().Add(time.Second)
	s.log.Warn("journal: the disk is full; a piece of the reserve is given up", "left", left)
	return true
}

// restoreReserve fills the reserve up. The bytes are written, not left as a
// hole: a hole takes no space.
func (s *Store) restoreReserve() {
	r := &s.reserve
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == reserveBytes || s.stock.out.Load() > 0 || time.Now().Before(r.next) {
		return
	}
	r.next = time.Now().Add(10 * time.Second)
	f, err := s.fs.OpenFile(s.reserveName(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return
	}
	r.held = min(st.Size(), reserveBytes)
	if _, err := writeAt(f, make([]byte, reserveBytes-r.held), r.held); err != nil {
		s.noteShort(err)
		_ = f.Truncate(r.held)
		return
	}
	r.held = reserveBytes
}

// spares are descriptors that are kept open, so that a run that exists can
// open its next file when there are no more.
type spares struct {
	mu    sync.Mutex
	files []File
}

const spareFiles = 8

func (p *spares) fill(s *Store) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.files) < spareFiles {
		f, err := s.fs.OpenFile(filepath.Join(s.dir, "VERSION"), os.O_RDONLY, 0)
		if err != nil {
			return
		}
		p.files = append(p.files, f)
	}
}

func (p *spares) give() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.files)
	if n == 0 {
		return false
	}
	_ = p.files[n-1].Close()
	p.files = p.files[:n-1]
	return true
}

func (p *spares) close() {
	for p.give() {
	}
}

// openKept opens a file of a run that exists, with a kept descriptor if there
// is no other.
func (s *Store) openKept(name string, flag int) (File, error) {
	for {
		f, err := s.fs.OpenFile(name, flag, 0o600)
		if err == nil || !outOfFiles(err) || !s.spares.give() {
			return f, err
		}
	}
}
