//go:build linux

package proc_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"innerd/backends/internal/proc"
)

// What a host names, or an agent has put somewhere, is read with no more
// rights than theirs.
func TestReadFile(t *testing.T) {
	root := t.TempDir()
	state, work := filepath.Join(root, "state"), filepath.Join(root, "work")
	for _, dir := range []string{state, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path string, mode fs.FileMode) string {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte("content"), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token := write(filepath.Join(state, "token"), 0o644)
	open, closed := write(filepath.Join(work, "open"), 0o644), write(filepath.Join(work, "closed"), 0o600)
	link, pipe, stateLink := filepath.Join(work, "link"), filepath.Join(work, "pipe"), filepath.Join(root, "statelink")
	err := errors.Join(os.Symlink(token, link), os.Symlink(state, stateLink), syscall.Mkfifo(pipe, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	one := proc.New(proc.Options{StateDir: state})
	two := proc.New(proc.Options{StateDir: stateLink, Group: 65534})
	for _, tt := range []struct {
		s     *proc.Supervisor
		path  string
		limit int64
		want  error
	}{
		{one, open, 0, nil},
		{one, open, 7, nil},
		{one, open, 6, fs.ErrInvalid},
		{one, closed, 100, nil},
		{two, open, 100, nil},
		{two, closed, 100, fs.ErrPermission},
		{one, token, 100, fs.ErrPermission},
		{one, link, 100, fs.ErrPermission},
		{two, link, 100, fs.ErrPermission},
		{one, filepath.Join(stateLink, "token"), 100, fs.ErrPermission},
		{one, pipe, 100, fs.ErrInvalid},
		{one, work, 100, fs.ErrInvalid},
		{one, filepath.Join(work, "none"), 100, fs.ErrNotExist},
	} {
		raw, err := tt.s.ReadFile(tt.path, tt.limit)
		if !errors.Is(err, tt.want) || (tt.want == nil) != (string(raw) == "content") {
			t.Errorf("%s with %d: %q %v, want %v", tt.path, tt.limit, raw, err, tt.want)
		}
	}
}
