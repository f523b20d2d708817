//go:build !unix

package main

import (
	"context"
	"os"
	"os/exec"
)

func stopSignals() []os.Signal { return []os.Signal{os.Interrupt} }

func survivePipes() {}

func shellCommand(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "cmd", "/C", command)
	cmd.Cancel = func() error { return cmd.Process.Kill() }
	return cmd
}

// openTerminal opens the terminal of this process, whatever its stdin is.
func openTerminal() (*os.File, error) { return os.OpenFile("CONIN$", os.O_RDWR, 0) }
