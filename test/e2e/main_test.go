//go:build linux

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// innerd is the innerd under test, as it is released.
var innerd string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	_ = os.RemoveAll(dir) // a folder for temporary files
	os.Exit(code)
}

func build() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "innerd-e2e-"); err != nil {
		return "", err
	}
	innerd = filepath.Join(dir, "innerd")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "nomsgpack", "-o", innerd, "innerd/cmd/innerd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("building innerd: %w\n%s", err, out)
	}
	return dir, nil
}

// long reports whether the long forms of tests are asked for.
func long() bool { return os.Getenv("INNERD_LONG") != "" }
