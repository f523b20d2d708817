package journal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// FS is the file layer. Paths are absolute. Tests put faults into it.
type FS interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Mkdir(name string, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	Rename(from, to string) error
	Remove(name string) error
	RemoveAll(name string) error
	ReadDir(name string) ([]fs.DirEntry, error)
	SyncDir(name string) error
	// Lock takes the file's lock and writes content into it. The closer gives
	// it back. A lock that another holds is a *LockedError.
	Lock(name, content string) (io.Closer, error)
}

// File is an open file. Its methods may be called at the same time.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
}

// OS is the real file layer, for what wraps it.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err // not f: a nil *os.File is not a nil File
	}
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return osFile{f, raw}, nil
}

// osFile is a file that counts what a failed write has written before it
// failed: os.File.WriteAt says 0 then, and on a disk that is nearly full all
// of it would be written, cut and written again.
type osFile struct {
	*os.File
	raw syscall.RawConn
}

// WriteAt writes as io.WriterAt says.
func (f osFile) WriteAt(p []byte, off int64) (n int, err error) {
	werr := f.raw.Write(func(fd uintptr) bool {
		for n < len(p) && err == nil {
			k, e := syscall.Pwrite(int(fd), p[n:min(n+maxWrite, len(p))], off+int64(n))
			switch {
			case errors.Is(e, syscall.EINTR):
			case e != nil:
				err = &fs.PathError{Op: "write", Path: f.Name(), Err: e}
			case k == 0:
				err = io.ErrShortWrite
			default:
				n += k
			}
		}
		return true
	})
	if err == nil {
		err = werr
	}
	return n, err
}

// maxWrite is what one write(2) is given at most.
const maxWrite = 1 << 30

func (osFS) Mkdir(name string, perm fs.FileMode) error    { return os.Mkdir(name, perm) }
func (osFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (osFS) Rename(from, to string) error                 { return os.Rename(from, to) }
func (osFS) Remove(name string) error                     { return os.Remove(name) }
func (osFS) RemoveAll(name string) error                  { return os.RemoveAll(name) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error)   { return os.ReadDir(name) }

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // a file system that syncs no folders: nothing that is tried again would help
	}
	return errors.Join(err, d.Close())
}

func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func outOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// writeAt writes all of p, going on at the byte after a short write. n is what
// was taken.
func writeAt(f File, p []byte, off int64) (n int, err error) {
	for n < len(p) {
		k, err := f.WriteAt(p[n:], off+int64(n))
		n += k
		if err != nil && !(errors.Is(err, io.ErrShortWrite) && k > 0) {
			return n, err
		}
		if k == 0 {
			return n, io.ErrShortWrite
		}
	}
	return n, nil
}

// readAll reads a file from its beginning to its end.
func readAll(f File) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	buf := make([]byte, st.Size())
	n, err := f.ReadAt(buf, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return buf[:n], err
}

func readFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

// replaceFile puts data in the place of a file at one instant.
func replaceFile(fsys FS, name string, data []byte, sync bool) error {
	tmp := name + ".tmp"
	f, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = writeAt(f, data, 0)
	if err == nil && sync {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err != nil {
		_ = fsys.Remove(tmp)
	}
	return err
}
