package proc

import (
	"io/fs"
	"os"
	"syscall"
)

// attributes of every child. The kernel does not end it when the server dies.
func attributes(*User) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// onlyDir says nothing here: agents run as this user.
const onlyDir = 0

func (s *Supervisor) theirs(fs.FileInfo) bool { return false }

// signalGroup ends p: there is no signal but the one that kills.
func signalGroup(p *os.Process, _ syscall.Signal) error { return p.Kill() }
