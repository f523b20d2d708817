package proc

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Agents may run as another user than this process. What it makes for them is
// in a group that both are in, then; else it is this user's alone.

// MkdirAll makes a directory that agents may write to, and its parents that
// are not there.
func (s *Supervisor) MkdirAll(path string) error {
	if s.group == 0 {
		return os.MkdirAll(path, 0o700)
	}
	root, rest, err := s.enter(path)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written to it
	var made []string
	for p := rest; p != "."; p = filepath.Dir(p) {
		_, err := root.Lstat(p)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		made = append(made, p)
	}
	if err := root.MkdirAll(rest, 0o700); err != nil {
		return err
	}
	for _, p := range made {
		dir, err := root.OpenFile(p, os.O_RDONLY|onlyDir, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(s.share(dir, 0o770|fs.ModeSetgid), dir.Close()); err != nil {
			return err
		}
	}
	return nil
}

// WriteFile makes a file that agents may read, whole or not at all.
func (s *Supervisor) WriteFile(path string, data []byte) error {
	root, rest, err := s.enter(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written to it
	name := filepath.Join(rest, filepath.Base(path))
	part := filepath.Join(rest, "."+filepath.Base(path)+"."+rand.Text())
	tmp, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer root.Remove(part) //nolint:errcheck // gone after the rename
	_, err = tmp.Write(data)
	if err = errors.Join(err, s.share(tmp, 0o640), tmp.Close()); err != nil {
		return err
	}
	return root.Rename(part, name)
}

// In works in a folder that agents may write to, and through no link out of it:
// neither the folder nor what is in it may be one that leads elsewhere. Where
// there is no such folder there is nothing to do.
func (*Supervisor) In(dir string, do func(*os.Root) error) error {
	dir = filepath.Clean(dir)
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close() //nolint:errcheck // nothing is written to it
	root, err := parent.OpenRoot(filepath.Base(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(do(root), root.Close())
}

// enter opens the first directory on the way to path that agents may write to,
// and gives the rest of the way: there they could put a link that leads to what
// is ours, and none is followed out of it. Without one it is the last directory
// that is there.
func (s *Supervisor) enter(path string) (*os.Root, string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	top := filepath.VolumeName(path) + string(filepath.Separator)
	rest := strings.TrimPrefix(path, top)
	for rest != "" {
		first, after, _ := strings.Cut(rest, string(filepath.Separator))
		next := filepath.Join(top, first)
		info, err := os.Stat(next)
		if err != nil || !info.IsDir() {
			break
		}
		top, rest = next, after
		if s.group != 0 && s.theirs(info) {
			break
		}
	}
	root, err := os.OpenRoot(top)
	return root, filepath.Clean(rest), err
}

// share gives a file of ours to the group of the agents; without one it stays
// as it is. It takes the open file: agents may write to the directory, and
// could put a link to a secret of ours in the place of the name.
func (s *Supervisor) share(f *os.File, mode fs.FileMode) error {
	if s.group == 0 {
		return nil
	}
	return errors.Join(f.Chown(-1, s.group), f.Chmod(mode))
}
