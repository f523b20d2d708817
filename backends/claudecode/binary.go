package claudecode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"innerd/backends"
	"innerd/backends/internal/proc"
)

const (
	binaryName     = "claude"
	versionTimeout = 10 * time.Second
)

var errNoBinary = errors.New("the claude binary was not found")

// binary finds the program. What was named outright is used or is an error.
func (b *Backend) binary() (string, error) {
	for _, named := range []struct{ path, by string }{
		{b.o.Path, "the option"},
		{b.o.Getenv("INNERD_CLAUDE_CODE_PATH"), "INNERD_CLAUDE_CODE_PATH"},
	} {
		if named.path == "" {
			continue
		}
		if !executable(named.path) {
			return "", fmt.Errorf("%w: %s names %s, which is no program", errNoBinary, named.by, named.path)
		}
		return named.path, nil
	}
	if p := b.cached(); executable(p) {
		return p, nil
	}
	for _, dir := range filepath.SplitList(b.o.Getenv("PATH")) {
		if p := filepath.Join(dir, binaryName); dir != "" && executable(p) {
			return p, nil
		}
	}
	return "", errNoBinary
}

// cached is where the pinned release is installed for this user.
func (b *Backend) cached() string {
	root := b.o.Getenv("INNERD_AGENTS_DIR")
	if root == "" {
		cache := b.o.Getenv("XDG_CACHE_HOME")
		if cache == "" {
			home := b.o.Getenv("HOME")
			if home == "" {
				return ""
			}
			cache = filepath.Join(home, ".cache")
		}
		root = filepath.Join(cache, "innerd", "agents")
	}
	return filepath.Join(root, backendName, Version, binaryName)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (info.Mode()&0o111 != 0 || runtime.GOOS == "windows")
}

// version is what one binary said of itself. The first who asks runs it.
type version struct {
	once sync.Once
	text string
	err  error
}

func (b *Backend) version(ctx context.Context, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	key := fmt.Sprint(path, info.ModTime().UnixNano(), info.Size())
	b.mu.Lock()
	v := b.versions[key]
	if v == nil {
		v = new(version)
		b.versions[key] = v
	}
	b.mu.Unlock()
	v.once.Do(func() { v.text, v.err = b.askVersion(ctx, path) })
	if v.err != nil { // the next who asks tries again
		b.mu.Lock()
		if b.versions[key] == v {
			delete(b.versions, key)
		}
		b.mu.Unlock()
	}
	return v.text, v.err
}

func (b *Backend) askVersion(ctx context.Context, path string) (string, error) {
	// Not the end of the one who asks first: others wait for the same answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), versionTimeout)
	defer cancel()
	var out bytes.Buffer
	child, err := b.o.Children.Start(ctx, proc.Command{
		Name: binaryName, Path: path, Args: []string{"--version"},
		Env: b.o.Children.Environ(map[string]string{
			"CLAUDE_CONFIG_DIR": b.configDir(), "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		}),
		OnLine: func(line []byte) {
			if out.Len() < 1<<10 {
				out.Write(line)
				out.WriteByte('\n')
			}
		},
	})
	if err != nil {
		return "", err
	}
	child.CloseInput()
	select {
	case <-child.Done():
	case <-ctx.Done():
		_ = child.Stop(ctx)
		return "", context.Cause(ctx)
	}
	if exit := child.Exit(); exit.Code != 0 {
		return "", fmt.Errorf("exit code %d: %s", exit.Code, backends.LastWords(exit.StderrTail))
	}
	text, _, _ := strings.Cut(strings.TrimSpace(out.String()), " ") // "2.1.332 (Claude Code)"
	return text, nil
}
