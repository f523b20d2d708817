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
		if err := s.share(p, 0o770|fs.ModeSetgid); err != nil {
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
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err := s.share(tmp.Name(), 0o640); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// share gives a file of ours to the group of the agents; without one it stays
// as it is.
func (s *Supervisor) share(path string, mode fs.FileMode) error {
	if s.group == 0 {
		return nil
	}
	return errors.Join(os.Chown(path, -1, s.group), os.Chmod(path, mode))
}
