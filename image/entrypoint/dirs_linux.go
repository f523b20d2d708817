package entrypoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// prepare makes a directory and gives it to its owner, only where that is
// needed: a mounted one that is right already may be on a disk that refuses.
func (d Dir) prepare() error {
	if err := os.MkdirAll(d.Path, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", d.Path, err)
	}
	f, err := os.OpenFile(d.Path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", d.Path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := d.own(f, info); err != nil {
		return err
	}
	const bits = fs.ModePerm | fs.ModeSetgid
	if info, err = f.Stat(); err != nil || d.Mode == 0 || info.Mode()&bits == d.Mode {
		return err
	}
	if err := f.Chmod(d.Mode); err != nil {
		return fmt.Errorf("set the mode of %s: %w", d.Path, err)
	}
	return nil
}

func (d Dir) own(f *os.File, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if d.Owner == nil || !ok || (st.Uid == d.Owner.UID && st.Gid == d.Owner.GID) {
		return nil
	}
	err := f.Chown(int(d.Owner.UID), int(d.Owner.GID))
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("give %s to user %d: %w (allow the container CAP_CHOWN, or make the volume theirs)", d.Path, d.Owner.UID, err)
	}
	return err
}
