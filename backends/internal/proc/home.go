package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Agents may run as another user than this process. What it makes for them is
// in a group that both are in, then; else it is this user's alone.

// MkdirAll makes a directory that agents may write to, and its parents that
// are not there.
func (s *Supervisor) MkdirAll(path string) error {
	var made []string
	for p := filepath.Clean(path); ; p = filepath.Dir(p) {
		_, err := os.Lstat(p)
		if err == nil || p == filepath.Dir(p) {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		made = append(made, p)
	}
	if err := os.MkdirAll(path, 0o700); err != nil || s.group == 0 {
		return err
	}
	for _, p := range made {
		dir, err := os.OpenFile(p, os.O_RDONLY|onlyDir, 0)
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
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // gone after the rename
	_, err = tmp.Write(data)
	if err = errors.Join(err, s.share(tmp, 0o640), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
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
