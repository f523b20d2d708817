package journal_test

import (
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"innerd/events/journal"
)

// faults is a file layer that asks a hook before every operation. The hook
// says how many bytes of a write still go through before its error: all, when
// there is none. It syncs nothing: no test cuts the power.
type faults struct {
	journal.FS
	mu   sync.Mutex
	hook func(op, name string, n int) (int, error)
	ops  []string
	// uncounted: a write that fails does not say what it has written before,
	// like that of *os.File.
	uncounted bool
}

func newFaults() *faults { return &faults{FS: journal.OS()} }

// set changes the hook; nil: everything works.
func (f *faults) set(hook func(op, name string, n int) (int, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

func (f *faults) ask(op, name string, n int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name = filepath.ToSlash(name)
	f.ops = append(f.ops, op+" "+filepath.Base(name))
	if f.hook == nil {
		return n, nil
	}
	return f.hook(op, name, n)
}

// count is how many operations there were.
func (f *faults) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ops)
}

func (f *faults) OpenFile(name string, flag int, perm fs.FileMode) (journal.File, error) {
	if _, err := f.ask("open", name, 0); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, f: f, name: name}, nil
}

func (f *faults) Mkdir(name string, perm fs.FileMode) error {
	return f.do("mkdir", name, func() error { return f.FS.Mkdir(name, perm) })
}

func (f *faults) MkdirAll(name string, perm fs.FileMode) error {
	return f.do("mkdir", name, func() error { return f.FS.MkdirAll(name, perm) })
}

func (f *faults) Rename(from, to string) error {
	return f.do("rename", to, func() error { return f.FS.Rename(from, to) })
}

func (f *faults) Remove(name string) error {
	return f.do("remove", name, func() error { return f.FS.Remove(name) })
}

func (f *faults) RemoveAll(name string) error {
	return f.do("removeall", name, func() error { return f.FS.RemoveAll(name) })
}

func (f *faults) SyncDir(name string) error {
	return f.do("syncdir", name, func() error { return nil })
}

func (f *faults) Lock(name, content string) (io.Closer, error) {
	if _, err := f.ask("lock", name, 0); err != nil {
		return nil, err
	}
	return f.FS.Lock(name, content)
}

func (f *faults) do(op, name string, real func() error) error {
	if _, err := f.ask(op, name, 0); err != nil {
		return err
	}
	return real()
}

type faultFile struct {
	journal.File
	f    *faults
	name string
}

func (w *faultFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := w.f.ask("write", w.name, len(p))
	k := 0
	if n > 0 {
		var werr error
		if k, werr = w.File.WriteAt(p[:n], off); werr != nil {
			return k, werr
		}
	}
	if err != nil && w.f.uncounted {
		k = 0
	}
	return k, err
}

func (w *faultFile) Sync() error {
	return w.f.do("sync", w.name, func() error { return nil })
}

func (w *faultFile) Truncate(size int64) error {
	return w.f.do("truncate", w.name, func() error { return w.File.Truncate(size) })
}

// diskOf is a hook that behaves like a full disk for the files that match:
// room bytes go through. A piece of the reserve gives back gives bytes.
type fullDisk struct {
	mu    sync.Mutex
	room  int
	gives int
	err   error
	said  []string
}

func (d *fullDisk) hook(op, name string, n int) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case op == "truncate" && strings.HasSuffix(name, "/reserve"):
		d.room += d.gives
		d.said = append(d.said, "reserve")
	case op == "removeall":
		d.said = append(d.said, "removed "+filepath.Base(name))
	case op == "write" && (strings.Contains(name, "/stock/") || strings.HasSuffix(name, "/reserve")): // bytes that are there
	case op == "write" && n > d.room:
		k := d.room
		d.room = 0
		return k, d.err
	case op == "write":
		d.room -= n
	}
	return n, nil
}

func (d *fullDisk) add(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room += n
}
