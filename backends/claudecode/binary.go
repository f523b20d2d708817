package claudecode

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"innerd/backends/internal/cli"
	"innerd/backends/internal/proc"
)

const (
	binaryName     = "claude"
	versionTimeout = 10 * time.Second
)

// binary finds the program.
func (b *Backend) binary() (string, error) {
	return cli.Finder{
		Name: binaryName, Path: b.o.Path, Variable: "INNERD_CLAUDE_CODE_PATH", Getenv: b.o.Getenv,
		Pinned: filepath.Join(backendName, Version, binaryName),
	}.Find()
}

func (b *Backend) version(ctx context.Context, path string) (string, error) {
	return b.versions.Of(path, func() (string, error) {
		// Not the end of the one who asks first: others wait for the same answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), versionTimeout)
		defer cancel()
		said, err := cli.Say(ctx, b.o.Children, proc.Command{
			Name: binaryName, Path: path, Args: []string{"--version"},
			Env: b.o.Children.Environ(map[string]string{
				"CLAUDE_CONFIG_DIR": b.configDir(), "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
			}),
		})
		text, _, _ := strings.Cut(strings.TrimSpace(said), " ") // "2.1.332 (Claude Code)"
		return text, err
	})
}
