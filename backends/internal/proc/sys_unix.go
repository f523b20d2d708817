//go:build unix

package proc

import (
	"os"
	"syscall"
)

// signalGroup sends sig to the group that p leads. A stopped process takes no
// TERM before it goes on.
func signalGroup(p *os.Process, sig syscall.Signal) error {
	err := syscall.Kill(-p.Pid, sig)
	if sig == syscall.SIGTERM {
		_ = syscall.Kill(-p.Pid, syscall.SIGCONT)
	}
	return err
}
