package entrypoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"innerd/backends"
)

// Directories are made, given away once, and left alone afterwards.
func TestPrepare(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may give directories away")
	}
	root := t.TempDir()
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil {
		t.Fatal(err)
	}
	agent := &backends.User{UID: 18101, GID: 18101}
	dirs := []Dir{
		{Path: filepath.Join(root, "a", "home"), Owner: agent, Mode: 0o770 | fs.ModeSetgid},
		{Path: filepath.Join(root, "a", "home", "inner"), Owner: agent, Mode: 0o750},
		{Path: filepath.Join(root, "plain"), Mode: 0o700},
	}
	for range 2 {
		for _, d := range dirs {
			if err := d.prepare(); err != nil {
				t.Fatal(err)
			}
			info, err := os.Lstat(d.Path)
			if err != nil {
				t.Fatal(err)
			}
			st := info.Sys().(*syscall.Stat_t)
			want := uint32(0)
			if d.Owner != nil {
				want = d.Owner.UID
			}
			if info.Mode() != d.Mode|fs.ModeDir || st.Uid != want {
				t.Errorf("%s is %v of %d", d.Path, info.Mode(), st.Uid)
			}
		}
	}
	// In the agents' own place a link is moved aside; it gives nothing away.
	link := filepath.Join(root, "a", "home", "link")
	target := filepath.Join(root, "target")
	if err := errors.Join(os.Mkdir(target, 0o700), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	if err := (Dir{Path: link, Owner: agent, Mode: 0o700}).prepare(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != agent.UID {
		t.Errorf("%v %v", info, err)
	}
	if info, err := os.Stat(target); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("what the link named is %v %v", info, err)
	}
	// Where the owner may do nothing, it is refused.
	if err := os.Symlink("/etc", filepath.Join(root, "roots")); err != nil {
		t.Fatal(err)
	}
	if err := (Dir{Path: filepath.Join(root, "roots"), Owner: agent, Mode: 0o700}).prepare(); err == nil {
		t.Error("what a link of root's names was given away")
	}
}
