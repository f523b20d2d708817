package entrypoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"innerd/backends"
)

// prepare makes a directory and gives it to its owner, only where that is
// needed: a mounted one that is right already may be on a disk that refuses.
// It runs before any agent does, so that nobody changes what it looks at.
//
// Root without all its capabilities may do less than an owner in the owner's
// own directories: so everything is tried as the owner first.
func (d Dir) prepare() error {
	if d.Owner == nil {
		return d.asRoot()
	}
	err := as(*d.Owner, d.asOwner)
	if errors.Is(err, errNotTheirs) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		err = d.asRoot()
	}
	return err
}

var errNotTheirs = errors.New("the directory is another user's")

// asOwner makes it, or sets its mode. What else stands there is moved aside:
// an owner, or what an agent runs, shall not keep a container from its start.
func (d Dir) asOwner() error {
	err := os.Mkdir(d.Path, d.mode().Perm())
	if info, lerr := os.Lstat(d.Path); errors.Is(err, fs.ErrExist) && lerr == nil && !info.IsDir() {
		if err := os.Rename(d.Path, fmt.Sprintf("%s.aside-%d", d.Path, time.Now().UnixNano())); err != nil {
			return err
		}
		err = os.Mkdir(d.Path, d.mode().Perm())
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, st, err := look(d.Path)
	if err != nil {
		return err
	}
	if st.Uid != d.Owner.UID {
		return errNotTheirs
	}
	return d.setMode(info)
}

// asRoot makes it and its parents, and gives it away.
func (d Dir) asRoot() error {
	if err := os.MkdirAll(filepath.Dir(d.Path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(d.Path, d.mode().Perm()); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, st, err := look(d.Path)
	if err != nil {
		return err
	}
	if err := d.setMode(info); err != nil { // while it is still ours
		return err
	}
	if d.Owner == nil || st.Uid == d.Owner.UID && st.Gid == d.Owner.GID {
		return nil
	}
	err = os.Lchown(d.Path, int(d.Owner.UID), int(d.Owner.GID))
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("give %s to user %d: %w (allow the container CAP_CHOWN, or make the volume theirs)", d.Path, d.Owner.UID, err)
	}
	return err
}

func (d Dir) mode() fs.FileMode {
	if d.Mode == 0 {
		return 0o755
	}
	return d.Mode
}

func (d Dir) setMode(info fs.FileInfo) error {
	const bits = fs.ModePerm | fs.ModeSetgid
	if d.Mode == 0 || info.Mode()&bits == d.Mode {
		return nil
	}
	if err := os.Chmod(d.Path, d.Mode); err != nil {
		return fmt.Errorf("set the mode of %s: %w", d.Path, err)
	}
	return nil
}

func look(path string) (fs.FileInfo, *syscall.Stat_t, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok {
		return nil, nil, fmt.Errorf("%s is not a directory", path)
	}
	return info, st, nil
}

// as runs f with u's rights to files, on a thread that ends with it.
func as(u backends.User, f func() error) error {
	done := make(chan error, 1)
	go func() { // ends with f; its thread, locked for good, too
		runtime.LockOSThread()
		if _, err := unix.SetfsgidRetGid(int(u.GID)); err != nil {
			done <- err
			return
		}
		if _, err := unix.SetfsuidRetUid(int(u.UID)); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}
