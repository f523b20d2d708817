// Package cli finds the program of an agent and asks it for its version.
package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Finder says where a program is looked for, in this order: what was named
// outright is used or is an error, then the pinned release of this user, then
// PATH.
type Finder struct {
	Name     string // of the program
	Path     string // by an option; "" for none
	Variable string // that names one
	Pinned   string // the pinned release, below the folder of pinned agents
	Getenv   func(string) string
}

// Find gives the program's path.
func (f Finder) Find() (string, error) {
	for _, named := range []struct{ path, by string }{{f.Path, "the option"}, {f.Getenv(f.Variable), f.Variable}} {
		switch {
		case named.path == "":
		case !Executable(named.path):
			return "", fmt.Errorf("the %s binary was not found: %s names %s, which is no program", f.Name, named.by, named.path)
		default:
			return named.path, nil
		}
	}
	if p := f.pinned(); p != "" && Executable(p) {
		return p, nil
	}
	for _, dir := range filepath.SplitList(f.Getenv("PATH")) {
		if p := filepath.Join(dir, f.Name); dir != "" && Executable(p) {
			return p, nil
		}
	}
	return "", fmt.Errorf("the %s binary was not found", f.Name)
}

// pinned is where the pinned release is installed for this user, "" if that is
// nowhere.
func (f Finder) pinned() string {
	root := f.Getenv("INNERD_AGENTS_DIR")
	if root == "" {
		cache := UserCache(f.Getenv)
		if cache == "" {
			return ""
		}
		root = filepath.Join(cache, "innerd", "agents")
	}
	return filepath.Join(root, f.Pinned)
}

// UserCache is the user's folder for what can be had again, "" for none.
func UserCache(getenv func(string) string) string {
	if dir := getenv("XDG_CACHE_HOME"); dir != "" {
		return dir
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".cache")
	}
	return ""
}

// Executable reports whether a path is a program.
func Executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (info.Mode()&0o111 != 0 || runtime.GOOS == "windows")
}
