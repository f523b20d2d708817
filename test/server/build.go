//go:build linux

package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Build builds innerd as it is released into dir and gives its path; for a
// TestMain.
func Build(dir string) (string, error) {
	path := filepath.Join(dir, "innerd")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "nomsgpack", "-o", path, "innerd/cmd/innerd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building innerd: %w\n%s", err, out)
	}
	return path, nil
}
