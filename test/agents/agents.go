// Package agents finds the pinned agents that `make agents` installed, and writes
// the programs that tests put in their place.
package agents

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Pinned is the row of image/agents.list for this machine.
type Pinned struct {
	Name, Version string
	Path          string // of the binary; "" where the list has none for this machine
	// PkgCache is what COPILOT_PKG_CACHE_HOME must be, so that Copilot finds what
	// `make agents` unpacked; "" for others.
	PkgCache string
}

// Claude is the pinned Claude Code, for tests that run the real one. The test
// fails where it is not installed: a skipped test would look like a passed one.
func Claude(t testing.TB) Pinned {
	t.Helper()
	return find(t, "claude-code")
}

// Codex is the pinned Codex, its native binary with all its neighbours.
func Codex(t testing.TB) Pinned {
	t.Helper()
	return find(t, "codex")
}

// Copilot is the pinned GitHub Copilot. Start it with its PkgCache, or it
// unpacks 235 MB first.
func Copilot(t testing.TB) Pinned {
	t.Helper()
	return find(t, "copilot")
}

func find(t testing.TB, name string) Pinned {
	t.Helper()
	p, err := Find(name)
	if err != nil {
		t.Fatalf("%v\n\nThis test runs the real agent. Install it with:\n\n\tmake agents\n", err)
	}
	return p
}

// Find looks an agent up. The error says what is missing.
func Find(name string) (Pinned, error) {
	root, err := moduleRoot()
	if err != nil {
		return Pinned{}, err
	}
	f, err := os.Open(filepath.Join(root, "image", "agents.list"))
	if err != nil {
		return Pinned{}, err
	}
	defer f.Close() //nolint:errcheck // only read
	platform := runtime.GOOS + "-" + strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	for sc := bufio.NewScanner(f); sc.Scan(); {
		c := strings.Fields(sc.Text())
		if len(c) == 7 && c[0] == name && c[2] == platform {
			return installed(name, c[1], c[4])
		}
	}
	return Pinned{}, fmt.Errorf("image/agents.list has no %s for %s", name, platform)
}

func installed(name, version, binary string) (Pinned, error) {
	dir, err := Dir()
	if err != nil {
		return Pinned{}, err
	}
	p := Pinned{Name: name, Version: version, Path: filepath.Join(dir, name, version, binary)}
	need := []string{p.Path}
	if name == "copilot" {
		p.PkgCache = filepath.Join(dir, name, version, "pkg-cache")
		need = append(need, p.PkgCache)
	}
	for _, file := range need {
		if _, err := os.Stat(file); err != nil {
			return p, fmt.Errorf("%s %s is not installed: %w", name, version, err)
		}
	}
	return p, nil
}

// Dir is where agents are installed: the same rule as in image/install-agents.sh.
func Dir() (string, error) {
	if dir := os.Getenv("INNERD_AGENTS_DIR"); dir != "" {
		return dir, nil
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home := os.Getenv("HOME")
		if home == "" {
			return "", errors.New("neither INNERD_AGENTS_DIR, XDG_CACHE_HOME nor HOME is set")
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "innerd", "agents"), nil
}

// moduleRoot is the folder of go.mod above the working directory, which in a
// test is the package's own.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			return "", fmt.Errorf("no go.mod above the working directory: %w", err)
		}
		dir = filepath.Dir(dir)
	}
}
