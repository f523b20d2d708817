//go:build unix

package proc

import (
	"os"
	"syscall"
)

// signalGroup sends sig to the group that p leads.
func signalGroup(p *os.Process, sig syscall.Signal) error { return syscall.Kill(-p.Pid, sig) }

// resume lets a stopped group go on, so that it can end.
func resume(s Starter, id ID) { _ = s.Signal(id, syscall.SIGCONT, true) }
