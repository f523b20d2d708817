//go:build linux

package proc_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"innerd/backends/internal/proc"
)

// What is made for agents is this user's alone, or their group's too.
func TestHome(t *testing.T) {
	groups := map[int][2]fs.FileMode{0: {0o700 | fs.ModeDir, 0o600}}
	if os.Getuid() == 0 { // others may only give to groups that they are in
		groups[65534] = [2]fs.FileMode{0o770 | fs.ModeDir | fs.ModeSetgid, 0o640}
	}
	for group, want := range groups {
		s := proc.New(proc.Options{Group: group})
		dir := filepath.Join(t.TempDir(), "a", "b")
		for range 2 {
			if err := s.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
			if err := s.WriteFile(filepath.Join(dir, "f"), []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		for path, mode := range map[string]fs.FileMode{dir: want[0], filepath.Dir(dir): want[0], filepath.Join(dir, "f"): want[1]} {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != mode {
				t.Errorf("group %d: %s is %v, want %v", group, path, info.Mode(), mode)
			}
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("left: %v", entries)
		}
	}
}

// A link that agents put into their home leads nothing of ours out of it.
func TestHomeLinks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may give to any group")
	}
	s := proc.New(proc.Options{Group: 65534})
	base := t.TempDir()
	home, ours := filepath.Join(base, "home"), filepath.Join(base, "ours")
	if err := s.MkdirAll(home); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(ours, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(ours, filepath.Join(home, "kept")); err != nil {
		t.Fatal(err)
	}
	if err := s.MkdirAll(filepath.Join(home, "kept", "c")); err == nil {
		t.Error("a directory was made behind a link")
	}
	if err := s.WriteFile(filepath.Join(home, "kept", "f"), []byte("x")); err == nil {
		t.Error("a file was written behind a link")
	}
	if entries, _ := os.ReadDir(ours); len(entries) > 0 {
		t.Errorf("written: %v", entries)
	}
}

// A folder is worked in however its path is written, and one that is not there
// is nobody's trouble.
func TestIn(t *testing.T) {
	s := proc.New(proc.Options{})
	dir := t.TempDir()
	for path, want := range map[string]bool{dir: true, dir + "/": true, dir + "/.": true, dir + "//": true, dir + "/none": false, dir + "/none/": false} {
		did := false
		if err := s.In(path, func(*os.Root) error { did = true; return nil }); err != nil || did != want {
			t.Errorf("%s: %v, %v", path, did, err)
		}
	}
}

func TestSecretsCanBeOpenedAgain(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may start processes of another user")
	}
	_, far := served(t, proc.NewLocalAs(proc.User{UID: 65534, GID: 65534}, []string{"/usr/bin/env", childVar + "=sweeper", "GORACE=atexit_sleep_ms=0", copyOfProgram(t)}, nil))
	s := proc.New(proc.Options{Starter: far})
	got := make(chan string, 1)
	c, err := s.Start(t.Context(), proc.Command{
		Name: "sh", Path: "/bin/sh", Args: []string{"-c", "cat /dev/fd/3; sleep 60"}, Dir: "/", Env: []string{"PATH=/bin:/usr/bin"},
		Secrets: [][]byte{[]byte("the key\n")}, OnLine: func(b []byte) { got <- string(b) },
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case line := <-got:
		if line != "the key" {
			t.Errorf("%q", line)
		}
	case <-time.After(time.Minute):
		t.Error("it could not be read")
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
