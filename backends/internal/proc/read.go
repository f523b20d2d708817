package proc

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ReadFile reads a file that a host names, or that an agent may have made, of
// at most limit bytes (0: any size). This process may read more than they:
// files of the state directory are refused, and, where agents are another
// user, what they could not read themselves; both as fs.ErrPermission,
// whatever links lead there. What is no regular file is refused too: a pipe
// would never end.
func (s *Supervisor) ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: not a regular file", fs.ErrInvalid)}
	case limit > 0 && info.Size() > limit:
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: over %d bytes", fs.ErrInvalid, limit)}
	case s.ours(f, path) || s.group != 0 && !readableBy(info, s.group):
		return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrPermission}
	case limit == 0:
		return io.ReadAll(f)
	}
	return io.ReadAll(io.LimitReader(f, limit))
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
