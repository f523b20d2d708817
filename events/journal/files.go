package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// below gives the path of rel in the state directory.
func (s *Store) below(rel string) (string, error) {
	if !filepath.IsLocal(rel) || path.Clean(rel) == "." {
		return "", fmt.Errorf("journal: bad path %q", rel)
	}
	return filepath.Join(s.dir, rel), nil
}

// WriteFile puts data into a file below the state directory at one instant,
// durable when it returns. In memory only, it keeps it.
func (s *Store) WriteFile(rel string, data []byte) error {
	return s.writeFile(rel, data, s.opt.Fsync != FsyncNone)
}

// PutFile is WriteFile without a sync: the death of this process does not lose
// it, that of the machine may. For what a later WriteFile repeats.
func (s *Store) PutFile(rel string, data []byte) error {
	return s.writeFile(rel, data, s.opt.Fsync == FsyncAlways)
}

func (s *Store) writeFile(rel string, data []byte, sync bool) error {
	name, err := s.below(rel)
	if err != nil {
		return err
	}
	if s.volatile() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.files[path.Clean(rel)] = slices.Clone(data)
		return nil
	}
	if err := s.fs.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	replace := func() error { return replaceFile(s.fs, name, data, sync) }
	err = s.insist(replace(), replace)
	if err == nil && sync {
		err = s.fs.SyncDir(filepath.Dir(name))
	}
	return err
}

// OverwriteFile is PutFile in the file itself, without a new one whose name
// takes its place: that costs a file system several times as much. Whoever dies
// on the way leaves a mixture, which the reader must know from the whole.
func (s *Store) OverwriteFile(rel string, data []byte) error {
	if s.volatile() || s.opt.Fsync == FsyncAlways {
		return s.PutFile(rel, data)
	}
	name, err := s.below(rel)
	if err != nil {
		return err
	}
	err = s.overwrite(name, data)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.fs.MkdirAll(filepath.Dir(name), 0o700); err == nil {
			err = s.overwrite(name, data)
		}
	}
	return s.insist(err, func() error { return s.overwrite(name, data) })
}

func (s *Store) overwrite(name string, data []byte) error {
	f, err := s.fs.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = writeAt(f, data, 0)
	if err == nil {
		var st fs.FileInfo
		if st, err = f.Stat(); err == nil && st.Size() > int64(len(data)) {
			err = f.Truncate(int64(len(data)))
		}
	}
	return errors.Join(err, f.Close())
}

// insist tries a write again that failed for want of a descriptor or of space,
// with those that are kept for that.
func (s *Store) insist(err error, write func() error) error {
	for outOfFiles(err) && s.spares.give() {
		err = write()
	}
	if err != nil {
		s.noteShort(err)
	}
	for err != nil && diskFull(err) && s.giveReserve(reserveOfEnds) {
		err = write()
	}
	return err
}

// ReadFile reads what WriteFile wrote; fs.ErrNotExist.
func (s *Store) ReadFile(rel string) ([]byte, error) {
	name, err := s.below(rel)
	if err != nil {
		return nil, err
	}
	if s.volatile() {
		s.mu.Lock()
		defer s.mu.Unlock()
		data, ok := s.files[path.Clean(rel)]
		if !ok {
			return nil, fmt.Errorf("journal: %s: %w", rel, fs.ErrNotExist)
		}
		return slices.Clone(data), nil
	}
	return readFile(s.fs, name)
}

// RemoveAll removes a file or folder below the state directory.
func (s *Store) RemoveAll(rel string) error {
	name, err := s.below(rel)
	if err != nil {
		return err
	}
	if s.volatile() {
		s.mu.Lock()
		defer s.mu.Unlock()
		rel = path.Clean(rel)
		maps.DeleteFunc(s.files, func(k string, _ []byte) bool { return k == rel || strings.HasPrefix(k, rel+"/") })
		return nil
	}
	return s.fs.RemoveAll(name)
}

// ReadDir lists the names in a folder below the state directory, sorted;
// fs.ErrNotExist.
func (s *Store) ReadDir(rel string) ([]string, error) {
	name, err := s.below(rel)
	if err != nil {
		return nil, err
	}
	if s.volatile() {
		return s.memoryDir(path.Clean(rel))
	}
	entries, err := s.fs.ReadDir(name)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

func (s *Store) memoryDir(rel string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	for k := range s.files {
		if rest, ok := strings.CutPrefix(k, rel+"/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			seen[name] = true
		}
	}
	if len(seen) == 0 {
		return nil, fmt.Errorf("journal: %s: %w", rel, fs.ErrNotExist)
	}
	return slices.Sorted(maps.Keys(seen)), nil
}
