//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// stopSignals end a command, or a server: Ctrl-C, kill, and a terminal that
// goes away. What nohup started stays when the terminal goes: Notify would
// undo that.
func stopSignals() []os.Signal {
	s := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		s = append(s, syscall.SIGHUP)
	}
	return s
}

// survivePipes makes a write to a pipe that nobody reads an error, not the end
// of the process. Notify, unlike Ignore, is not passed on to children, whose
// shells rely on that end.
func survivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

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
