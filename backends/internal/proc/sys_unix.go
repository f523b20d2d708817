//go:build unix

package proc

import (
	"os"
	"syscall"
)

// onlyDir opens a directory, and neither what a link leads to nor a pipe.
const onlyDir = syscall.O_DIRECTORY | syscall.O_NOFOLLOW

// signalGroup sends sig to the group that p leads. A stopped process takes no
// TERM before it goes on.
func signalGroup(p *os.Process, sig syscall.Signal) error {
	err := syscall.Kill(-p.Pid, sig)
	if sig == syscall.SIGTERM {
		_ = syscall.Kill(-p.Pid, syscall.SIGCONT)
	}
	return err
}
