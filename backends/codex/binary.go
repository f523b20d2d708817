package codex

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"innerd/backends"
	"innerd/backends/internal/cli"
	"innerd/backends/internal/proc"
)

const (
	binaryName     = "codex"
	versionTimeout = 10 * time.Second
)

// binary finds the program.
func (b *Backend) binary() (string, error) {
	path, err := cli.Finder{
		Name: binaryName, Path: b.o.Path, Variable: "INNERD_CODEX_PATH", Getenv: b.o.Getenv,
		Pinned: filepath.Join(backendName, Version, "vendor", triple(), "bin", binaryName),
	}.Find()
	if err != nil {
		return "", err
	}
	return native(path), nil
}

// triple is how the vendor names this machine in its packages.
func triple() string {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	system := map[string]string{"linux": "unknown-linux-musl", "darwin": "apple-darwin"}[runtime.GOOS]
	return arch + "-" + system
}

// platform is the vendor's package for this machine.
func platform() string {
	return "codex-" + runtime.GOOS + "-" + strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
}

// native is the program behind npm's launcher, where path is that: the
// launcher is a script for Node that stays as the parent on some versions, and
// leaves codex running when it is killed.
func native(path string) string {
	script, err := filepath.EvalSymlinks(path)
	if err != nil || filepath.Ext(script) != ".js" {
		return path
	}
	pkg := filepath.Dir(filepath.Dir(script)) // …/node_modules/@openai/codex
	for _, modules := range []string{filepath.Join(pkg, "node_modules", "@openai"), filepath.Dir(pkg)} {
		if p := filepath.Join(modules, platform(), "vendor", triple(), "bin", binaryName); cli.Executable(p) {
			return p
		}
	}
	return path
}

func (b *Backend) version(ctx context.Context, path string) (string, error) {
	return b.versions.Of(path, func() (string, error) {
		// Not the end of the one who asks first: others wait for the same answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), versionTimeout)
		defer cancel()
		said, err := cli.Say(ctx, b.o.Children, proc.Command{
			Name: binaryName, Path: path, Args: []string{"--version"},
			Env: b.o.Children.Environ(map[string]string{"CODEX_HOME": b.codexHome()}),
		})
		text := backends.LastWords(said) // "codex-cli 0.171.0"
		return text[strings.LastIndexByte(text, ' ')+1:], err
	})
}
