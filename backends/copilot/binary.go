package copilot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"innerd/backends/internal/cli"
	"innerd/backends/internal/proc"
)

const (
	binaryName     = "copilot"
	versionTimeout = 60 * time.Second // a first start unpacks 235 MB
)

var errUnpacking = errors.New("copilot is unpacking itself for the first time")

// binary is the platform's program, and the folder of its unpacked package
// where it was installed with one ("": the user's cache).
type binary struct {
	path  string
	cache string
}

// binary finds the program.
func (b *Backend) binary() (binary, error) {
	path, err := cli.Finder{
		Name: binaryName, Path: b.o.Path, Variable: "INNERD_COPILOT_PATH", Getenv: b.o.Getenv,
		Pinned: filepath.Join(backendName, Version, binaryName),
	}.Find()
	if err != nil {
		return binary{}, err
	}
	return resolve(path), nil
}

// resolve gives npm's platform binary for its loader, which is only a wrapper
// in Node that would hide the process from signals.
func resolve(path string) binary {
	if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Base(real) == "npm-loader.js" {
		arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
		if arch == "" {
			arch = runtime.GOARCH
		}
		pkg := "copilot-" + runtime.GOOS + "-" + arch
		dir := filepath.Dir(real)
		for _, p := range []string{
			filepath.Join(filepath.Dir(dir), pkg, binaryName),
			filepath.Join(dir, "node_modules", "@github", pkg, binaryName),
		} {
			if cli.Executable(p) {
				path = p
				break
			}
		}
	}
	bin := binary{path: path}
	dir := filepath.Join(filepath.Dir(path), "pkg-cache")
	if info, err := os.Stat(filepath.Join(dir, "pkg")); err == nil && info.IsDir() {
		bin.cache = dir
	}
	return bin
}

// environ tells the program where its package was unpacked.
func (bin binary) environ(env map[string]string) {
	if bin.cache != "" {
		env["COPILOT_PKG_CACHE_HOME"] = bin.cache
	}
}

// version is what is known of one binary.
type version struct {
	text string
	err  error
}

// version says the release of a binary. It is read from the package.json
// beside it where there is one; a binary that has none is run, in the
// background, since the first run of a release unpacks it.
func (b *Backend) version(ctx context.Context, bin binary) (string, error) {
	key, err := cli.Key(bin.path)
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if v := b.versions[key]; v != nil {
		return v.text, v.err
	}
	if text := packageVersion(filepath.Dir(bin.path)); text != "" && b.unpacked(bin, text) {
		b.versions[key] = &version{text: text}
		return text, nil
	}
	if b.closed {
		return "", errClosed
	}
	if b.unpack == nil {
		b.unpack = b.startUnpacking(ctx, bin, key)
	}
	return "", errUnpacking
}

// unpacked reports whether the program can start without unpacking anything.
func (b *Backend) unpacked(bin binary, release string) bool {
	for _, dir := range []string{bin.cache, filepath.Join(cli.UserCache(b.o.Getenv), binaryName)} {
		if dir == "" {
			continue
		}
		if found, err := filepath.Glob(filepath.Join(dir, "pkg", "*", release, "app.js")); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// packageVersion is the version in npm's description of a folder.
func packageVersion(dir string) string {
	raw, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return ""
	}
	var p struct {
		Version string `json:"version"`
	}
	_ = json.Unmarshal(raw, &p) // what is no package has no version
	return p.Version
}

// unpacking is the first run of a binary. Close waits for it.
type unpacking struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func (b *Backend) startUnpacking(ctx context.Context, bin binary, key string) *unpacking {
	// Not the end of the one who asks first: others wait for the same answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), versionTimeout)
	u := &unpacking{cancel: cancel}
	u.done.Go(func() { // ends with its process, after versionTimeout, or at Close
		defer cancel()
		v := new(version)
		v.text, v.err = b.askVersion(ctx, bin)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.versions[key] = v
		b.unpack = nil
	})
	return u
}

func (b *Backend) askVersion(ctx context.Context, bin binary) (string, error) {
	env := map[string]string{"COPILOT_HOME": b.home()}
	bin.environ(env)
	said, err := cli.Say(ctx, b.o.Children, proc.Command{
		Name: binaryName, Path: bin.path, Args: []string{"--version", "--no-auto-update"}, Env: b.o.Children.Environ(env),
	})
	if err != nil {
		return "", fmt.Errorf("it does not run: %w", err)
	}
	return versionOf(said), nil
}

// versionOf finds the number in "GitHub Copilot CLI 1.0.102." and the like.
func versionOf(out string) string {
	for _, word := range strings.Fields(out) {
		word = strings.TrimRight(word, ".")
		if word != "" && word[0] >= '0' && word[0] <= '9' && strings.Contains(word, ".") {
			return word
		}
	}
	return strings.TrimSpace(out)
}
