package proc

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ReadFile reads what Open opens, of at most limit bytes (0: any size).
func (s *Supervisor) ReadFile(path string, limit int64) ([]byte, error) {
	f, err := s.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	if limit == 0 {
		return io.ReadAll(f)
	}
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(raw)) > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: over %d bytes", fs.ErrInvalid, limit)}
	}
	return raw, err
}

// Open opens, to be read, a file that a host names, or that an agent may have
// made. This process may read more than they: files of the state directory are
// refused, and, where agents are another user, what they could not read
// themselves; both as fs.ErrPermission, whatever links lead there. What is no
// regular file is refused too: a pipe would never open, or end.
func (s *Supervisor) Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%w: not a regular file", fs.ErrInvalid)
	case s.ours(f, path) || s.group != 0 && !readableBy(info, s.group):
		err = fs.ErrPermission
	default:
		return f, nil
	}
	_ = f.Close()
	return nil, &fs.PathError{Op: "read", Path: path, Err: err}
}

// ours reports whether an open file is in the state directory.
func (s *Supervisor) ours(f *os.File, path string) bool {
	if s.state == "" {
		return false
	}
	state, err := filepath.EvalSymlinks(s.state)
	if err != nil {
		return false // there is none yet
	}
	name, err := nameOf(f)
	if err != nil {
		if name, err = filepath.EvalSymlinks(path); err != nil {
			return true // it cannot be told
		}
	}
	rel, err := filepath.Rel(state, name)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
