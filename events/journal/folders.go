package journal

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// folders is what runs begin in, made ahead: to make a folder and its two files
// takes a file system several times as long as to give the folder its name, and
// the turn waits for it. A run that finds none makes its own.
type folders struct {
	fill   sync.Mutex // one fills up, and guards what follows
	tidied bool       // what another server has left is away
	made   int        // names the next one
	next   time.Time  // not filled up before

	mu    sync.Mutex
	names []string
	want  chan struct{} // holds one token: a folder is missing

	sync    sync.Mutex  // one syncs, and the others wait: their names are in it
	unnamed atomic.Bool // a folder has its name, and a power cut may take it
}

const readyFolders = 16

func (s *Store) foldersDir() string { return filepath.Join(s.dir, "ready") }

// fillFolders makes the folders that are missing.
func (s *Store) fillFolders() {
	d := &s.folders
	d.fill.Lock()
	defer d.fill.Unlock()
	if s.opt.Fsync == FsyncAlways || s.volatile() || s.closed.Load() || time.Now().Before(d.next) {
		return // with that policy each name is synced, which takes longer than anything here
	}
	if s.full.Load() > 0 || !s.endsHaveRoom() {
		return // what is given up on a full disk is for the ends of runs
	}
	if !d.tidied {
		// Not with what is above it: a state directory that is gone stays away.
		if s.fs.RemoveAll(s.foldersDir()) != nil || s.fs.Mkdir(s.foldersDir(), 0o700) != nil {
			d.next = time.Now().Add(10 * time.Second)
			return
		}
		d.tidied = true
	}
	for d.missing() {
		name := filepath.Join(s.foldersDir(), strconv.Itoa(d.made))
		d.made++
		if err := s.readyFolder(name); err != nil {
			_ = s.fs.RemoveAll(name)
			d.next = time.Now().Add(10 * time.Second)
			d.tidied = false // it may be gone, with those that are in it
			d.drop()
			return
		}
		d.put(name)
	}
}

// endsHaveRoom reports whether nothing of what is kept for the ends of runs has
// been given up.
func (s *Store) endsHaveRoom() bool {
	s.reserve.mu.Lock()
	whole := s.reserve.held == reserveBytes
	s.reserve.mu.Unlock()
	s.stock.mu.Lock()
	defer s.stock.mu.Unlock()
	return whole && len(s.stock.names) == stockFiles
}

// readyFolder makes a folder with the files of a run that has not begun.
func (s *Store) readyFolder(name string) error {
	if err := s.fs.Mkdir(name, 0o700); err != nil {
		return err
	}
	for _, file := range []string{requestName, segmentName(1)} {
		f, err := s.fs.OpenFile(filepath.Join(name, file), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// takeFolder makes a folder that is ready that of a run. What may be there of a
// run of its id is away already, or the rename fails.
func (s *Store) takeFolder(dir string) bool {
	name := s.folders.take()
	if name == "" {
		return false
	}
	if err := s.fs.Rename(name, dir); err != nil {
		_ = s.fs.RemoveAll(name)
		return false
	}
	s.folders.unnamed.Store(true) // waits for no sync, as the turn would
	return true
}

// syncNames makes the names of the runs' folders durable. To sync a file does
// that for the folder that it was made in, under the name that it had then.
// Where it fails, it is tried again with the next sync: the events are on the
// disk, and no writing of them once more would help.
func (s *Store) syncNames() {
	d := &s.folders
	d.sync.Lock()
	defer d.sync.Unlock()
	if !d.unnamed.Swap(false) { // before the sync: what has its name from here on is not surely in it
		return
	}
	if err := s.fs.SyncDir(filepath.Join(s.dir, "runs")); err != nil {
		d.unnamed.Store(true)
		s.syncErrors.Add(1)
	}
}

// wantFolder has the store's owner make what is missing, once a run is over:
// not while one begins, which waits for the same disk.
func (s *Store) wantFolder() {
	if !s.folders.missing() {
		return
	}
	select {
	case s.folders.want <- struct{}{}:
	default:
	}
}

func (d *folders) missing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.names) < readyFolders
}

func (d *folders) put(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = append(d.names, name)
}

func (d *folders) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = nil
}

func (d *folders) take() (name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.names); n > 0 {
		name = d.names[n-1]
		d.names = d.names[:n-1]
	}
	return name
}
