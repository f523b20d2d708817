//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM}

// shellCommand is a command line in a process group of its own, which ends
// with ctx: the terminal's Ctrl-C reaches only us, and nothing is left behind.
func shellCommand(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// openTerminal opens the terminal of this process, whatever its stdin is.
func openTerminal() (*os.File, error) { return os.OpenFile("/dev/tty", os.O_RDWR, 0) }
